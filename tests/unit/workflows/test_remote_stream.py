"""The toolkit's stream: any bytes, cut anywhere."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import limpet
from limpet.nat_trace import nat_steps
from limpet.text import one_line
from limpet.transport.parsing import parse_json
from limpet.workflows.nat_workflow import AgentStream, WorkflowFailedError


def read(raw, framed=True, sizes=()):
    stream = AgentStream("POST x", one_line)
    at = 0
    for size in sizes:
        stream.feed(raw[at : at + size])
        at += size
    stream.feed(raw[at:])
    return stream.answer(framed=framed), stream.trace


def step(kind, **payload):
    sent = {"id": "u", "parent_id": "p", "type": kind, "name": "n", "payload": json.dumps(payload)}
    return b"intermediate_data: " + json.dumps(sent).encode()


WHOLE = (
    b": a comment\r\n\r\n"
    + step("LLM_START", event_type="LLM_START", name="m", UUID="u")
    + b"\n\ndata:"
    + json.dumps({"value": "Grüße, "}, ensure_ascii=False).encode()
    + b'\r\n\r\ndata: {"value":"\xe6\x97\xa5\xe6\x9c\xac "}\n\n\n'
    + b'event: x\ndata:   {"value":"\\ud83d\\ude00 "}\r\n\n'
    + json.dumps({"value": "x" * 300}).encode().join([b"data: ", b"\n\n"])
    + step("WORKFLOW_END", event_type="WORKFLOW_END")
    + b"\n\ndata: [DONE]\n\n"
)
ANSWER = "Grüße, 日本 😀 " + "x" * 300


@given(st.lists(st.integers(0, 60), max_size=40))
def test_wherever_the_bytes_are_split_the_answer_and_the_trace_are_the_same(sizes):
    answer, trace = read(WHOLE, sizes=sizes)
    assert answer == ANSWER
    assert [event["type"] for event in trace] == ["LLM_START", "WORKFLOW_END"]


def test_byte_by_byte_too():
    assert read(WHOLE, sizes=[1] * len(WHOLE))[0] == ANSWER


@given(st.lists(st.text(), min_size=1, max_size=5), st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n"]))
def test_tokens_of_any_text_are_joined(tokens, end):
    raw = b"".join(b"data: " + json.dumps({"value": t}).encode() + end for t in tokens)
    assert read(raw)[0] == "".join(tokens)


@pytest.mark.parametrize("raw", [b"", b"\n\n: ping\n\n", step("LLM_END") + b"\n\n"])
def test_a_stream_that_ends_properly_with_nothing_is_an_empty_answer(raw):
    assert read(raw)[0] == ""


@given(st.binary(max_size=200))
def test_any_bytes_give_an_answer_or_a_failure_of_ours(raw):
    with contextlib.suppress(limpet.TransientError, limpet.PermanentError):
        assert read(raw)[0] is not None


def test_the_last_line_needs_no_line_end_and_a_mark_at_the_beginning_is_no_part_of_it():
    assert read(b'\xef\xbb\xbfdata: {"value":"a"}')[0] == "a"


@pytest.mark.parametrize("value", [7, 1.5, True, {"a": [1]}, ["x"], "", 2**70])
def test_a_value_that_is_no_text_is_the_answer_as_it_is(value):
    answer, _ = read(b"data: " + json.dumps({"value": value}).encode() + b"\n\n")
    assert (answer, type(answer)) == (value, type(value))


@pytest.mark.parametrize(
    ("raw", "kind", "says"),
    [
        (b'data: {"value":null}\n\n', limpet.PermanentError, "the answer is null"),
        (b'data: {"value":"a"}\n\ndata: {"value":1}\n', limpet.PermanentError, "int, str"),
        (b'data: {"value":"a"}\n\ndata: {"va', limpet.TransientError, "not JSON"),
        (b'data: {"value":"\xff"}\n', limpet.TransientError, "not UTF-8 at byte 10"),
        (b'data: {"value":NaN}\n', limpet.TransientError, "not JSON (NaN)"),
        (b'data: {"other":1}\n', limpet.PermanentError, "has no 'value': {\"other\":1}"),
        (b"data: 12\n", limpet.PermanentError, "has no 'value': 12"),
        (b"intermediate_data: {\n", limpet.TransientError, "a step is not JSON"),
        (b"<html>\x1b[31m</html>\n", limpet.TransientError, "line in the stream: <html>\\x1b"),
        (b'data: {"value":"a"}\n\n{"code":"c","message":"m","details":"ValueError"}',
         WorkflowFailedError, "POST x: the workflow failed: ValueError: m"),
        (b'{"code":"c","message":"m","details":"openai.RateLimitError"}',
         limpet.LimpetError, "the workflow failed: openai.RateLimitError: m"),
        (b'{"code":"c","message":"m","details":"ModuleNotFoundError"}',
         limpet.PermanentError, "the workflow failed: ModuleNotFoundError: m"),
        (b'{"odd":[1]}', WorkflowFailedError, "the workflow failed: {'odd': [1]}"),
        (b'data: {"code":"c","message":"m"}\n\n', WorkflowFailedError, "failed: m"),
        (b"data: " + b"[" * 5000 + b"\n", limpet.TransientError, "nested too deep"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_a_failure_with_its_reason(raw, kind, says):
    with pytest.raises(kind) as caught:
        read(raw)
    assert type(caught.value) is kind or kind is limpet.LimpetError
    assert says in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_limit_of_the_agents_own_model_slows_us_down():
    with pytest.raises(limpet.LimpetError) as caught:
        read(b'{"code":"c","message":"m","details":"openai.RateLimitError"}')
    assert limpet.pacing.classify(caught.value).kind == "rate_limit"


def test_an_unmarked_end_is_taken_for_truncation():
    raw = b'data: {"value":"a"}\n\n'
    with pytest.raises(limpet.TransientError, match="the stream may be truncated"):
        read(raw, framed=False)
    assert read(raw + step("WORKFLOW_END") + b"\n", framed=False)[0] == "a"
    assert read(raw + b"data: [DONE]\n", framed=False)[0] == "a"


def test_a_line_of_many_megabytes_in_small_pieces_takes_no_quadratic_time():
    text = "x" * 8_000_000
    raw = b"data: " + json.dumps({"value": text}).encode()
    assert read(raw, sizes=[4096] * (len(raw) // 4096))[0] == text


def test_a_step_has_the_shape_of_the_toolkits_files():
    _, trace = read(
        step("LLM_END", event_type="LLM_END", name="m", UUID="u7", data={"output": "x"})
        + b'\nintermediate_data: {"id":"i","parent_id":"p","type":"T","name":"n","payload":"**x**"}'
        + b'\nintermediate_data: ["odd"]\ndata: {"value":1}\n'
    )
    one, text, odd = nat_steps(trace)
    assert one == {
        "parent_id": "p",
        "function_ancestry": {
            "function_id": "u7",
            "function_name": "m",
            "parent_id": "p",
            "parent_name": None,
        },
        "payload": {"event_type": "LLM_END", "name": "m", "UUID": "u7", "data": {"output": "x"}},
    }
    assert text["payload"] == {
        "data": {"payload": "**x**"}, "event_type": "T", "name": "n", "UUID": "i",
    }  # fmt: skip
    assert odd["payload"]["data"] == {"payload": ["odd"]}


@pytest.mark.parametrize("raw", [b'"\\ud83d"', b"123456789012345678901234567890", b'{"a":1}'])
def test_json_is_read_exactly(raw):
    assert parse_json(raw) == json.loads(raw)
