"""Decision endpoints: OpenAI's, and that of llama.cpp, Ollama and transformers serve."""

import asyncio

import pytest
from model_server import failure, model_server, raw

import limpet
from limpet.errors import InvalidReplyError, LimpetError, SetupError
from limpet.models import openai_api
from limpet.models.decisions import _working_path

ASK = [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "Is it right?"}]
LABEL = {"type": "string", "enum": ["correct", "incorrect"], "description": "Is it correct?"}
SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "label": LABEL},
    "required": ["reason", "label"],
    "additionalProperties": False,
}
NOT_FOUND = raw({"detail": "Not Found"}, 404)


@pytest.fixture(autouse=True)
def _forget():
    _working_path.clear()


def deciding(server, schema=SCHEMA, messages=ASK, **settings):
    model = openai_api(server.url, model="m", key=None, reply="decision", **settings)

    async def ask():
        await model.open()
        try:
            return await model.ask(messages, schema=schema)
        finally:
            await model.close()

    return asyncio.run(ask())


def only_system_one(answer):
    """Answer like a server without OpenAI's path."""
    return lambda request, number: NOT_FOUND if "input" in request else answer


def test_a_choice_comes_with_the_probability_of_each_option():
    with model_server("incorrect") as server:
        reply = deciding(server)
    assert reply.parsed == {"label": "incorrect"}
    assert reply.probabilities == {"correct": 0.25, "incorrect": 0.75}
    assert reply.usage.prompt_tokens == 10
    assert server.requests[0].path == "/v1/decisions"
    assert server.asked[0] == {
        "model": "m",
        "input": ASK,
        "questions": [
            {
                "type": "choice",
                "name": "label",
                "instructions": "Is it correct?",
                "choices": [{"value": "correct"}, {"value": "incorrect"}],
            }
        ],
    }


def test_the_other_endpoint_is_found_and_remembered():
    with model_server(only_system_one("correct")) as server:
        assert deciding(server).parsed == {"label": "correct"}
        assert deciding(server).probabilities == {"correct": 0.75, "incorrect": 0.25}
    paths = [request.path for request in server.requests if request.method == "POST"]
    assert paths == ["/v1/decisions", "/v1/systemone", "/v1/systemone"]
    assert server.asked[1] == {
        "model": "m",
        "state": "Be fair.\n\nIs it right?",
        "questions": {
            "label": {
                "type": "choice",
                "instructions": "Is it correct?",
                "criteria": {"correct": None, "incorrect": None},
            }
        },
    }


def test_several_questions_are_one_call():
    rating = {"type": "integer", "enum": [1, 2, 3]}
    schema = {"type": "object", "properties": {"good": {"type": "boolean"}, "rating": rating}}
    for script in (lambda answer: answer, only_system_one):
        with model_server(script({"good": "true", "rating": "3"})) as server:
            reply = deciding(server, schema)
        assert reply.parsed == {"good": True, "rating": 3}
        assert reply.probabilities["good.true"] == reply.probabilities["rating.3"] == 0.75


def test_questions_in_nested_objects_are_answered_there():
    one = {"type": "object", "properties": {"reason": {"type": "string"}, "answer": LABEL}}
    schema = {"type": "object", "properties": {"tone": one, "facts": one}}
    with model_server({"tone.answer": "correct", "facts.answer": "incorrect"}) as server:
        reply = deciding(server, schema)
    assert reply.parsed == {"tone": {"answer": "correct"}, "facts": {"answer": "incorrect"}}
    assert reply.probabilities["facts.answer.incorrect"] == 0.75


@pytest.mark.parametrize(
    "make",
    [
        lambda model: limpet.judge(model, "Good? {{output}}", choices={"yes": 1, "no": 0}),
        lambda model: limpet.rubric(model, {"polite": "Is it polite?", "true": "Is it true?"}),
    ],
)
def test_judges_decide_without_reasons(make, tmp_path):
    rows = [{"id": "a", "question": "Why?", "answer": "So."}]
    with model_server("yes") as server:
        model = openai_api(server.url, model="m", key=None, reply="decision")
        result = limpet.evaluate(
            rows, lambda question: "So.", [make(model)], run=tmp_path / "run", show=False
        )
    assert len(server.asked) == 1
    assert "1 of 1 completed" in repr(result)
    assert " 1.000 (0.21–1.00)" in repr(result)


def test_options_and_questions_that_cannot_be_told_apart_are_refused():
    for schema in (
        {"type": "object", "properties": {"a": {"type": "number", "enum": [1, 1]}}},
        {
            "type": "object",
            "properties": {
                "a.b": LABEL,
                "a": {"type": "object", "properties": {"b": LABEL}},
            },
        },
    ):
        with model_server() as server, pytest.raises(SetupError, match="the same name"):
            deciding(server, schema)


def test_images_are_sent_in_the_endpoints_own_words():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    content = [{"type": "text", "text": "What is it?"}, image]
    with model_server("correct") as server:
        deciding(server, messages=[{"role": "user", "content": content}])
    assert server.asked[0]["input"][0]["content"] == [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA"},
    ]


def test_without_a_decision_endpoint_it_says_so():
    with model_server(NOT_FOUND) as server, pytest.raises(SetupError, match="no decision endpoint"):
        deciding(server)


def test_a_missing_model_is_not_taken_for_a_missing_endpoint():
    missing = failure(404, "The model 'm' does not exist", code="model_not_found")
    with model_server(missing) as server, pytest.raises(SetupError, match="does not exist"):
        deciding(server)
    assert len(server.asked) == 1


@pytest.mark.parametrize("schema", [None, {"type": "object", "properties": {}}])
def test_without_a_closed_set_there_is_nothing_to_decide(schema):
    with model_server() as server, pytest.raises(SetupError, match="nothing to decide"):
        deciding(server, schema)
    assert server.asked == []


def chosen(probabilities, choice="correct", **more):
    answer = {"name": "label", "type": "choice", "choice": choice, "probabilities": probabilities}
    return raw({"model": "m", "answers": [{**answer, **more}], "usage": {"input_tokens": 3}})


def shares(correct, incorrect):
    return [
        {"value": "correct", "probability": correct},
        {"value": "incorrect", "probability": incorrect},
    ]


@pytest.mark.parametrize(
    "answer",
    [
        raw({}),
        raw([]),
        raw({"answers": None}),
        raw({"answers": ["correct"]}),
        raw({"answers": [{"name": "other", "choice": "correct"}]}),
        raw({"answers": [{"name": "label", "type": "refusal"}]}),
        chosen(None),
        chosen([]),
        chosen([{"value": "correct", "probability": 1.0}]),
        chosen(shares(0.5, "0.5")),
        chosen(shares(True, False)),
        chosen(shares(2, -1)),
        chosen(shares(0.1, 0.1)),
        chosen(shares(0.1, 0.9)),
        chosen(shares(0.9, 0.1), choice="maybe"),
        chosen([*shares(0.5, 0.4), {"value": "maybe", "probability": 0.1}]),
    ],
)
def test_a_decision_that_cannot_be_used_is_an_invalid_reply(answer):
    with model_server(answer) as server, pytest.raises(InvalidReplyError, match="label"):
        deciding(server)


def test_a_tie_is_decided_by_the_first():
    with model_server(chosen(shares(0.5, 0.5), choice="incorrect")) as server:
        assert deciding(server).probabilities == {"correct": 0.5, "incorrect": 0.5}


def test_an_error_of_status_200_is_no_decision():
    with model_server(raw({"error": "boom"})) as server, pytest.raises(LimpetError, match="boom"):
        deciding(server)


def decision(choice, **shares):
    probabilities = [{"value": value, "probability": share} for value, share in shares.items()]
    answer = {"name": "label", "type": "choice", "choice": choice}
    return {**answer, "probabilities": probabilities}


def test_of_two_options_that_are_as_probable_the_choice_counts():
    answers = [decision("incorrect", correct=0.5, incorrect=0.5)]
    with model_server(raw({"model": "m", "answers": answers})) as server:
        assert deciding(server).parsed == {"label": "incorrect"}


def test_two_answers_to_one_question_are_an_invalid_reply():
    yes = decision("correct", correct=1, incorrect=0)
    no = decision("incorrect", correct=0, incorrect=1)
    body = {"model": "m", "answers": [yes, no]}
    with model_server(raw(body)) as server, pytest.raises(InvalidReplyError):
        deciding(server)
