"""A vector for each text, in their order, or a failure."""

import asyncio

import pytest
from model_server import ModelServer, failure, model_server, raw

from limpet.errors import InvalidReplyError
from limpet.models import openai_api
from limpet.pacing.observation import Observation, observing
from limpet.pacing.signals import FailureKind, classify


def embed(server, texts, **settings):
    model = openai_api(server.url, model="m", key=None, **settings)

    async def ask():
        await model.open()
        try:
            return await model.embed(texts)
        finally:
            await model.close()

    return asyncio.run(ask())


def test_texts_become_vectors_in_one_request():
    observed = Observation()
    with model_server() as server, observing(observed):
        vectors = embed(server, ["a", "bbb"], params={"dimensions": 2}, stream=True)
    assert vectors == [[1.0, 1.0], [3.0, 1.0]]
    assert vectors.usage.total_tokens == 2
    assert observed.usage == {"total_tokens": 2}
    assert server.requests[0].path == "/v1/embeddings"
    assert server.asked[0]["input"] == ["a", "bbb"]
    assert server.asked[0]["dimensions"] == 2
    assert "stream" not in server.asked[0]


def test_no_text_needs_no_request():
    with model_server() as server:
        assert embed(server, []) == []
    assert server.requests == []


def answered(monkeypatch, data):
    made = data if isinstance(data, tuple) else raw({"data": data})
    monkeypatch.setattr(ModelServer, "_embeddings", lambda self, asked: made)
    with model_server() as server:
        return embed(server, ["a", "b"])


def test_vectors_are_put_in_the_order_of_their_texts(monkeypatch):
    data = [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1]}]
    assert answered(monkeypatch, data) == [[1], [2]]


def vectors(*embeddings):
    return [{"index": index, "embedding": vector} for index, vector in enumerate(embeddings)]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        vectors([1]),
        vectors([1], [2], [3]),
        [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}],
        [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}],
        [{"index": True, "embedding": [1]}, {"index": 0, "embedding": [1]}],
        ["a", "b"],
        vectors([1], [1, 2]),
        vectors([1], []),
        vectors([1], None),
        vectors([1], ["1"]),
        vectors([1], [True]),
        vectors([1], [10**400]),
        vectors([1], "AAAA"),
    ],
)
def test_anything_else_is_an_invalid_reply(monkeypatch, data):
    with pytest.raises(InvalidReplyError):
        answered(monkeypatch, data)


def test_a_refusal_keeps_its_meaning(monkeypatch):
    with pytest.raises(Exception, match="429") as caught:
        answered(monkeypatch, failure(429))
    assert classify(caught.value).kind is FailureKind.RATE_LIMIT
