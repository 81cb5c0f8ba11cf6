"""A stream that is cut anywhere is a failure that may pass, or the whole reply: never a part of it.

The server ends the response in good order after any number of bytes, as a proxy does whose own
connection broke.
"""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import model_server, raw
from wire import WIRE, WIRES

from limpet.errors import LimpetError
from limpet.models import provider_api
from limpet.models.provider import provider
from limpet.pacing.signals import FailureKind, classify

REPLIES = {
    "text": {"text": "One two, three."},
    "digits": {"text": "12345"},
    "thoughts": {"text": "yes", "thought": "hm, so"},
    "tool call": {"calls": [("look", {"at": "a b"})], "finish": "tool_calls"},
    "two tool calls": {"calls": [("look", {}), ("take", {"n": 12})], "finish": "tool_calls"},
    "cut off by its limit": {"text": "One two", "finish": "length"},
}
streaming = [wire for wire in WIRES if "stream" in provider(wire.name).can]
each = pytest.mark.parametrize("wire", streaming, ids=str)


async def asked(model, times):
    """Return a reply or a failure for each time it is asked."""
    await model.open()
    try:
        answers = [model.ask([{"role": "user", "content": "?"}]) for _ in range(times)]
        return [await asyncio.gather(answer, return_exceptions=True) for answer in answers]
    finally:
        await model.close()


def cut(wire, stream, cuts):
    """Return what a client makes of a stream that ends after each number of bytes."""

    def answer(request, number):
        return raw(stream[: cuts[number]], headers={"Content-Type": wire.type})

    with model_server(answer) as server:
        address = server.url.removesuffix("/v1")
        model = provider_api(wire.name, address, model="m", key=None, stream=True)
        found = asyncio.run(asked(model, len(cuts)))
    return [one for (one,) in found]


def check(wire, reply, cuts):
    stream = wire.streamed(wire.body(**reply)).body
    whole, *rest = cut(wire, stream, [len(stream), *cuts])
    assert whole.text == reply.get("text", "")
    assert [(call["name"], call["arguments"]) for call in whole.tool_calls] == [
        *reply.get("calls", ())
    ]
    assert whole.usage.total_tokens == 15
    for position, one in zip(cuts, rest, strict=True):
        said = f"cut after {position} bytes: …{stream[max(0, position - 60) : position]!r}: {one!r}"
        if isinstance(one, LimpetError):
            assert classify(one).kind is FailureKind.TRANSIENT, said
            assert "\n" not in str(one), said
        else:
            parts = ("text", "tool_calls", "finish", "model")
            assert [getattr(one, part) for part in parts] == [
                getattr(whole, part) for part in parts
            ], said


@each
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_stream_that_ends_with_any_event_is_never_a_shorter_reply(wire, reply):
    written = [wire.written(event) for event in wire.events(wire.body(**reply))]
    ends = [sum(map(len, written[:number])) for number in range(len(written) + 1)]
    around = {max(0, end + by) for end in ends for by in (-2, -1, 0, 1)}
    check(wire, reply, sorted(around))


@each
@given(st.data(), st.sampled_from(list(REPLIES.values())))
def test_a_stream_that_ends_with_any_byte_is_never_a_shorter_reply(wire, data, reply):
    size = len(wire.streamed(wire.body(**reply)).body)
    check(wire, reply, data.draw(st.lists(st.integers(0, size), min_size=5, max_size=20)))


# ---- a stream that ends more than once ----------------------------------------------------------

UNSAID = {
    "openai": {"choices": [{"index": 0, "delta": {}, "finish_reason": None}]},
    "anthropic": {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}},
    "gemini": {"candidates": [{"index": 0, "finishReason": "FINISH_REASON_UNSPECIFIED"}]},
    "ollama": {"message": {"content": ""}, "done": True},
    "responses": {"type": "response.completed"},
}
"""An event after the end that says no reason."""


def ends(wire, finish):
    """Return the events before the one with the reason why the reply ended, it, and the others."""
    events = wire.events(wire.body('{"label": "yes"}', finish=finish))
    last = -2 if wire.name in ("openai", "anthropic") else -1
    return events[:last], events[last], [] if last == -1 else events[last + 1 :]


def streamed(wire, *events):
    (found,) = cut(wire, stream := wire.stream(events), [len(stream)])
    return found


@each
def test_a_cut_or_filtered_reply_stays_one_whatever_follows(wire):
    for finish in ("length", "content_filter"):
        begun, end, rest = ends(wire, finish)
        _, good, _ = ends(wire, "stop")
        for later in (UNSAID[wire.name], good):
            for events in ([*begun, end, later, *rest], [*begun, end, *rest, later]):
                found = streamed(wire, *events)
                if finish == "content_filter" and wire.name != "ollama":
                    assert "filter stopped the reply" in str(found), (finish, later)
                elif finish == "length":
                    assert found.finish == "length", (finish, later)


@each
def test_of_several_reasons_to_end_the_worst_counts(wire):
    if wire.name == "ollama":  # its stream ends with the first
        return
    begun, good, rest = ends(wire, "stop")
    _, bad, _ = ends(wire, "content_filter")
    _, cut_short, _ = ends(wire, "length")
    assert "filter stopped" in str(streamed(wire, *begun, good, bad, cut_short, *rest))


@each
def test_the_tokens_in_an_event_after_the_end_count(wire):
    if wire.name in ("openai", "anthropic", "gemini"):  # the others have it in the last
        begun, end, rest = ends(wire, "length")
        usage = {
            "openai": {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 70}},
            "anthropic": {"type": "message_delta", "usage": {"output_tokens": 70}},
            "gemini": {"usageMetadata": {"candidatesTokenCount": 70}},
        }[wire.name]
        found = streamed(wire, *begun, end, *rest, usage)
        assert (found.finish, found.usage.completion_tokens) == ("length", 70)


@pytest.mark.parametrize(
    ("name", "later"),
    [
        ("anthropic", {"type": "content_block_delta", "index": 0,
                       "delta": {"type": "text_delta", "text": " no"}}),
        ("anthropic", {"type": "message_start", "message": {"content": []}}),
        ("ollama", {"message": {"content": " no"}, "done": False}),
        ("responses", {"type": "response.in_progress", "response": {"output": []}}),
    ],
)  # fmt: skip
def test_an_event_after_the_end_adds_nothing(name, later):
    wire = WIRE[name]
    found = streamed(wire, *wire.events(wire.body("yes")), later)
    assert (found.text, found.finish) == ("yes", "stop")


@each
def test_done_ends_a_stream_of_chat_completions_only(wire):
    if wire.name == "ollama":  # it has no such lines
        return
    *begun, _ = wire.events(wire.body("One two"))
    begun = begun[:-1] if wire.name in ("openai", "anthropic") else begun
    rest = wire.events(wire.body("One two"))[len(begun) :]
    half, done = wire.stream(begun, ended=False), b"data: [DONE]\n\n"
    both = half + done + wire.stream(rest)
    cut_short, whole = cut(wire, both, [len(half + done), len(both)])
    if wire.name == "openai":
        assert (cut_short.text, whole.finish) == ("One two", None)
    else:
        assert "ended before the reply" in str(cut_short)
        assert (whole.text, whole.finish) == ("One two", "stop")


@each
def test_the_lines_of_one_event_belong_together(wire):
    if wire.name == "ollama":  # its events are lines
        return
    lines = [json.dumps(one, indent=1).split("\n") for one in wire.events(wire.body("One two"))]
    several = "".join("".join(f"data: {line}\r\n" for line in event) + "\r\n" for event in lines)
    without_empty_lines = wire.stream(wire.events(wire.body("One two"))).replace(b"\n\n", b"\n")
    for stream in (several.encode(), several.encode().rstrip(), without_empty_lines):
        (found,) = cut(wire, stream, [len(stream)])
        assert (found.text, found.finish) == ("One two", "stop")
    (found,) = cut(wire, several.encode(), [len(several) - 10])
    assert isinstance(found, LimpetError)


def test_a_mark_of_the_byte_order_costs_no_part_of_the_reply():
    wire = next(wire for wire in streaming if wire.name == "openai")
    stream = b"\xef\xbb\xbf" + wire.streamed(wire.body("whole")).body
    (reply,) = cut(wire, stream, [len(stream)])
    assert reply.text == "whole"
