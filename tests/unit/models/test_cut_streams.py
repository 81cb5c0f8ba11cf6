"""A stream that is cut anywhere is a failure that may pass, or the whole reply: never a part of it.

The server ends the response in good order after any number of bytes, as a proxy does whose own
connection broke.
"""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import model_server, raw
from wire import WIRES

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
