"""Vectors compared: one cell per item, one request for many."""

import asyncio

import pytest
from unit.evaluators.judges.scripted_model import ScriptedModel, output_of, score_of, scored

from limpet.errors import InvalidReplyError, PermanentError, RateLimitError, SetupError
from limpet.evaluators import embedding_similarity
from limpet.shapes import Usage

VECTORS = {"up": [0.0, 2.0], "right": [3.0, 0.0], "down": [0.0, -1.0], "null": [0.0, 0.0]}


class Vectors(list):
    usage = Usage(100, 0)


class Embedder(ScriptedModel):
    def __init__(self, error_for=None):
        super().__init__([])
        self.requests = []
        self._error_for = error_for or {}

    async def embed(self, texts):
        self.requests.append(list(texts))
        for text, error in self._error_for.items():
            if text in texts:
                raise error
        return Vectors(VECTORS.get(text, [float(len(text)), 1.0]) for text in texts)


def many(evaluator, pairs):
    async def session():
        await evaluator.open()
        try:
            calls = (evaluator.call(scored(output, expected)) for output, expected in pairs)
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await evaluator.close()

    return asyncio.run(session())


@pytest.mark.parametrize(
    ("output", "expected", "value"),
    [
        ("up", "up", 1),
        ("up", "right", 0),
        ("up", "down", -1),
        ("up", ["right", "up"], 1),
        (7, "7", 1),
    ],
)
def test_the_score_is_the_cosine(output, expected, value):
    score = score_of(embedding_similarity(Embedder()), scored(output, expected))
    assert score.value == pytest.approx(value)


@pytest.mark.parametrize("output", [None, "", "  ", {"a": 1}, True])
def test_an_output_without_text_scores_zero_without_a_call(output):
    model = Embedder()
    score = score_of(embedding_similarity(model), scored(output, "up"))
    assert score.value == 0
    assert score.explanation
    assert model.requests == []


@pytest.mark.parametrize("expected", [None, "", [], ["up", ""], {"a": 1}, ["up", None]])
def test_an_item_without_an_expected_text_fails(expected):
    with pytest.raises(PermanentError, match="item '7': its expected value"):
        score_of(embedding_similarity(Embedder()), scored("up", expected))


def test_items_share_a_request_and_its_usage():
    model = Embedder()
    outputs = many(embedding_similarity(model), [("up", "up"), ("down", "up"), ("a", "b" * 90)] * 5)
    assert len(model.requests) == 1
    assert len(model.requests[0]) == len(set(model.requests[0]))
    assert sum(output.usage["total_tokens"] for output in outputs) == 100
    assert outputs[2].usage["total_tokens"] > outputs[0].usage["total_tokens"]


def test_a_full_batch_is_sent_at_once():
    model = Embedder()
    many(embedding_similarity(model), [(f"text {n}", "up") for n in range(70)])
    assert [len(texts) for texts in model.requests] == [65, 7]


def test_the_fault_of_one_text_is_not_that_of_the_others():
    model = Embedder({"bad": PermanentError("too long")})
    good, bad, other = many(
        embedding_similarity(model), [("up", "up"), ("bad", "up"), ("down", "up")]
    )
    assert good.value["score"].value == pytest.approx(1)
    assert other.value["score"].value == pytest.approx(-1)
    assert isinstance(bad, PermanentError)


@pytest.mark.parametrize("error", [RateLimitError(), SetupError("no key")])
def test_what_no_text_is_to_blame_for_is_raised_for_all(error):
    model = Embedder({"up": error})
    assert many(embedding_similarity(model), [("up", "up"), ("down", "up")]) == [error, error]
    assert len(model.requests) == 1


def test_vectors_that_do_not_fit_are_no_score():
    model = Embedder()

    async def embed(texts):
        return [[1.0]]

    model.embed = embed
    with pytest.raises(InvalidReplyError, match="1 vectors for 2 texts"):
        output_of(embedding_similarity(model), scored("up", "down"))
    with pytest.raises(PermanentError, match="cannot be compared"):
        output_of(embedding_similarity(Embedder()), scored("null", "up"))


def test_a_call_that_is_cancelled_does_not_disturb_the_others():
    evaluator = embedding_similarity(Embedder())

    async def session():
        first = asyncio.ensure_future(evaluator.call(scored("up", "up")))
        second = asyncio.ensure_future(evaluator.call(scored("down", "up")))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(session()).value["score"].value == pytest.approx(-1)


def test_a_model_without_vectors_is_an_error_at_once():
    with pytest.raises(TypeError, match="embed"):
        embedding_similarity(ScriptedModel([]))


def test_what_it_depends_on():
    evaluator = embedding_similarity(Embedder())
    assert evaluator.reads == ("output", "expected")
    assert evaluator.fingerprint.keys() == {"embedding_similarity", "model.model"}
    assert evaluator.described.keys() == evaluator.fingerprint.keys()
