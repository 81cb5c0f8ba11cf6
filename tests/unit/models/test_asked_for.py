"""What was asked for beside the text is in the reply and the trace: `n`, logprobs, reasoning."""

import asyncio
import itertools
import json

import pytest
from model_server import model_server, raw

import limpet
from limpet.models import openai_api
from limpet.shapes import Item
from limpet.workflows import openai

TOKENS = [{"token": token, "logprob": -0.5, "bytes": [104], "top_logprobs": []} for token in "hey"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def choice(index, text, **message):
    return {"index": index, "message": {"content": text, **message}, "finish_reason": "stop"}


def chunk(*choices, **more):
    return b"data: " + json.dumps({"model": "m", "choices": choices, **more}).encode() + b"\n\n"


def delta(index, finish=None, logprobs=None, **piece):
    return {"index": index, "delta": piece, "finish_reason": finish, "logprobs": logprobs}


def streamed(*chunks):
    return raw(b"".join(chunks) + b"data: [DONE]\n\n", 201, {"Content-Type": "text/event-stream"})


def asked(answer, schema=None, **params):
    with model_server(answer) as server:
        stream = b"data:" in answer.body
        model = openai_api(server.url, model="m", key=None, stream=stream, params=params)

        async def ask():
            await model.open()
            try:
                return await model.ask([{"role": "user", "content": "?"}], schema=schema)
            finally:
                await model.close()

        return asyncio.run(ask())


STREAMED = [
    delta(0, role="assistant", content="he", logprobs={"content": TOKENS[:1], "refusal": None}),
    delta(1, content="good"),
    delta(2, content="x"),
    delta(1, content=" day"),
    delta(0, content="y", logprobs={"content": TOKENS[1:]}),
    delta(1, finish="stop"),
    delta(2, content="yz", finish="stop"),
    delta(0, finish="stop"),
]


@pytest.mark.parametrize(
    "answer",
    [
        raw({"choices": [
            {**choice(0, "hey"), "logprobs": {"content": TOKENS}},
            choice(1, "good day"), choice(2, "xyz"),
        ]}),
        streamed(*map(chunk, STREAMED)),
        streamed(chunk(*STREAMED)),
        streamed(*map(chunk, [STREAMED[1], *STREAMED[:1], *STREAMED[2:]])),
    ],
)  # fmt: skip
def test_the_other_replies_and_the_log_probabilities_are_kept(answer):
    reply = asked(answer, n=3, logprobs=True)
    assert reply.text == "hey"
    assert list(reply.alternatives) == ["good day", "xyz"]
    assert reply.logprobs["content"] == TOKENS
    assert reply.finish == "stop"


def test_a_stream_of_several_replies_is_over_when_all_are():
    body = b"".join(map(chunk, STREAMED[:6]))  # the second is finished, the others are not
    with pytest.raises(limpet.LimpetError, match="the stream ended before the reply"):
        asked(raw(body, 201, {"Content-Type": "text/event-stream"}), n=3)
    body = b"".join(map(chunk, STREAMED))  # without [DONE]
    assert asked(raw(body, 201, {"Content-Type": "text/event-stream"}), n=3).text == "hey"


def test_with_a_schema_the_others_are_the_texts_that_fit():
    call = {"function": {"name": "reply", "arguments": '{"a": 2}'}}
    others = [choice(1, '{"a": "x"}'), choice(2, None, tool_calls=[call]), choice(3, None)]
    others += [choice(4, '{"a": 4}'), choice(5, "4"), None, {"message": 5}]
    reply = asked(raw({"choices": [choice(0, '{"a": 1}'), *others]}), SCHEMA)
    assert reply.parsed == {"a": 1}
    assert list(reply.alternatives) == ['{"a": 2}', '{"a": 4}']


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_another_reply_that_is_no_whole_answer_is_left_out(schema):
    text = '{"a": 1}'
    others = [
        *(
            {**choice(1, text), "finish_reason": end}
            for end in ("length", "content_filter", "error")
        ),
        choice(4, text, refusal="I cannot"),
        {**choice(5, text), "error": {"message": "overloaded"}},
        choice(6, '{"a": 6}'),
    ]
    reply = asked(raw({"choices": [choice(0, text), *others]}), schema)
    assert (reply.text, list(reply.alternatives)) == (text, ['{"a": 6}'])


def test_replies_are_in_the_order_of_their_numbers():
    numbers = [10, 1, 0, 2]
    reply = asked(raw({"choices": [choice(one, str(one)) for one in numbers]}))
    assert (reply.text, list(reply.alternatives)) == ("0", ["1", "2", "10"])
    bare = [{"message": {"content": text}} for text in "ab"]
    reply = asked(raw({"choices": bare}))
    assert (reply.text, list(reply.alternatives)) == ("a", ["b"])


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_what_the_model_thought_is_beside_the_text(name):
    reply = asked(raw({"choices": [choice(0, "4", **{name: "2 + 2"})]}))
    assert (reply.text, reply.reasoning) == ("4", "2 + 2")
    pieces = [delta(0, **{name: "2 +"}), delta(0, **{name: " 2"}), delta(0, "stop", content="4")]
    reply = asked(streamed(*map(chunk, pieces)))
    assert (reply.text, reply.reasoning) == ("4", "2 + 2")


def test_thoughts_in_the_text_stay_there():
    reply = asked(raw({"choices": [choice(0, "<think>2 + 2</think>4")]}))
    assert (reply.text, reply.reasoning) == ("<think>2 + 2</think>4", None)


def test_what_was_not_asked_for_is_not_there():
    reply = asked(raw({"choices": [{**choice(0, "4", reasoning=None), "logprobs": None}]}))
    assert (reply.reasoning, list(reply.alternatives), reply.logprobs) == (None, [], None)


@pytest.mark.parametrize("odd", [5, "x", ["x"], {"a": 1}, {"content": 3}, [{"index": "a"}]])
def test_odd_values_there_are_no_failure(odd):
    first = {**choice(0, "4", reasoning=odd), "logprobs": odd}
    assert asked(raw({"choices": [first, {"index": 1, "message": odd}]})).text == "4"
    pieces = [delta(0, content="4", logprobs=odd), {**delta(1), "index": odd}, delta(0, "stop")]
    assert asked(streamed(*map(chunk, pieces))).text == "4"
    assert asked(streamed(chunk(delta(0, "stop", content="4")), chunk(delta(10**9)))).text == "4"


def test_the_trace_keeps_them_unaltered_and_the_answer_has_none(tmp_path):
    thought = "hm, " * 20_000
    body = {"choices": [choice(0, "hey", reasoning_content=thought), choice(1, "good day")]}
    body["choices"][0]["logprobs"] = {"content": TOKENS}
    with model_server(raw(body)) as server:
        workflow = openai(server.url, model="m", key=None, prompt="?", params={"n": 2})
        output = asyncio.run(called(workflow))
        result = limpet.evaluate(
            [{"id": "1", "question": "?"}], workflow, [], run=tmp_path / "run", show=False
        )
    assert output.value == "hey"
    (event,) = output.trace
    assert event["reasoning"] == thought
    assert event["alternatives"] == ["good day"]
    assert event["logprobs"] == {"content": TOKENS}
    (item,) = result.items
    assert item.output.value == "hey"
    names = ("reasoning", "alternatives", "logprobs")
    assert [item.output.trace[0][name] for name in names] == [event[name] for name in names]


def test_the_trace_of_a_plain_reply_has_only_what_it_had():
    with model_server("hey") as server:
        workflow = openai(server.url, model="m", key=None, prompt="?")
        (event,) = asyncio.run(called(workflow)).trace
    assert event.keys() == {"kind", "name", "started", "ended", "input", "output", "usage"}


async def called(workflow):
    await workflow.open()
    try:
        return await workflow.call(Item("1", None, None, {}))
    finally:
        await workflow.close()


def test_streams_may_mix_their_replies_in_any_order():
    for order in itertools.permutations(range(3)):
        pieces = [delta(index, content=str(index)) for index in order]
        pieces += [delta(index, "stop") for index in order]
        reply = asked(streamed(*map(chunk, pieces)), n=3)
        assert (reply.text, list(reply.alternatives)) == ("0", ["1", "2"])
