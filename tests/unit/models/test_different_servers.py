"""Servers that differ a little: what they refuse, ignore, put around a reply, and count."""

import asyncio
import json
import logging

import pytest
from aiohttp import web
from e2e.servers import site
from model_server import completion, failure, model_server, raw

import limpet
from limpet.models import openai_api
from limpet.models.chat import _fitted, _working_form
from limpet.pacing.registry import PacerRegistry, pacing_with
from limpet.run.reading import RunReader
from limpet.shapes import USAGE_COUNTS
from limpet.workflows import http

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(6)]
GOOD = {"reason": "it is", "label": "correct"}
ASK = [{"role": "user", "content": "Is it right?"}]


@pytest.fixture(autouse=True)
def _forget():
    _working_form.clear()
    _fitted.clear()


def judged(server, run, rows=ROWS, **settings):
    """Let a model of the server judge each row; return the result."""
    model = openai_api(server.url, model="m", key=None, **settings)
    judge = limpet.judge(model, of="correctness", name="right")
    options = {"retry": 0, "fail_fast": False, "pace": 1}
    return limpet.evaluate(rows, lambda question: question, [judge], run, **options)


def form_of(request):
    if "response_format" in request:
        return "schema"
    return "tool" if "tools" in request else "text"


# ---- which form ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 422, 501])
def test_auto_falls_back_on_each_status_of_a_refusal(tmp_path, status):
    def answer(request, _):
        return GOOD if form_of(request) == "text" else failure(status, "what is that?")

    with model_server(answer) as server:
        result = judged(server, tmp_path)
        assert [form_of(request) for request in server.asked] == ["schema", "tool", *["text"] * 6]
    assert result.summary["scores"]["right"]["mean"] == 1.0


def test_text_is_requested_from_a_server_that_ignores_the_schema(tmp_path, caplog):
    def answer(request, _):
        return json.dumps(GOOD) if form_of(request) == "text" else "Correct, I would say."

    with model_server(answer) as server:
        result = judged(server, tmp_path)
        forms = [form_of(request) for request in server.asked]
    assert forms == ["schema", "schema", *["text"] * 6]
    assert result.summary["scores"]["right"]["mean"] == 1.0
    with RunReader(tmp_path) as reader:
        first = next(reader.items())
    assert first.score_usage["right"]["usage"]["total_tokens"] == 3 * 15
    (said,) = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert said == (
        "m: no reply fits the schema that its server accepted (reply: schema); from now on the "
        "schema is in the prompt, as with reply: text"
    )


def test_one_reply_that_fitted_shows_that_the_schema_is_not_ignored(tmp_path, caplog):
    def answer(request, number):
        return GOOD if number == 0 else "Correct, I would say."

    with model_server(answer) as server:
        result = judged(server, tmp_path)
        assert {form_of(request) for request in server.asked} == {"schema"}
        assert len(server.asked) == 1 + 5 * 2
    assert result.summary["evaluators"]["right"]["failed"] == {"invalid_reply": 5}
    assert not caplog.records


@pytest.mark.parametrize(
    "reply", [completion('{"reason": "it', finish="length"), completion("", refusal="no")]
)
def test_a_reply_that_is_truncated_or_refused_is_no_reason_to_fall_back(tmp_path, reply):
    with model_server(reply) as server:
        judged(server, tmp_path, ROWS[:2])
        assert {form_of(request) for request in server.asked} == {"schema"}


def test_a_form_that_was_chosen_stays(tmp_path):
    with model_server("Correct, I would say.") as server:
        judged(server, tmp_path, ROWS[:2], reply="schema")
        assert [form_of(request) for request in server.asked] == ["schema"] * 4


def test_a_model_that_never_fits_costs_one_fall_back(tmp_path, caplog):
    with model_server("Correct, I would say.") as server:
        result = judged(server, tmp_path)
        forms = [form_of(request) for request in server.asked]
    assert forms == ["schema", "schema", *["text"] * 12]
    assert result.summary["evaluators"]["right"]["failed"] == {"invalid_reply": 6}
    assert "(the last of 4 replies)" in result.items[0].score_errors["right"]["message"]
    assert len(caplog.records) == 1


# ---- around a reply -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "<think>Is it? </think>" + json.dumps(GOOD),
        "\n<think>\n{not this}\n</think>\n\n```json\n" + json.dumps(GOOD) + "\n```",
        "<think></think>\n" + json.dumps(GOOD),
    ],
)
def test_thoughts_before_a_reply_are_skipped(tmp_path, text):
    with model_server(text) as server:
        result = judged(server, tmp_path, ROWS[:1], reply="text")
        assert len(server.asked) == 1
    assert result.items[0].scores["right"].value == 1


@pytest.mark.parametrize(
    "text", [json.dumps(GOOD) + "<think>?</think>", "<think>" + json.dumps(GOOD)]
)
def test_thoughts_elsewhere_are_no_reply(tmp_path, text):
    with model_server(text) as server:
        result = judged(server, tmp_path, ROWS[:1], reply="text")
    assert result.summary["evaluators"]["right"]["failed"] == {"invalid_reply": 1}


def test_a_whole_number_may_be_written_with_a_point(tmp_path):
    with model_server('{"reason": "so so", "rating": 3.0}') as server:
        model = openai_api(server.url, model="m", key=None)
        rated = limpet.rating(model, "Rate {{output}}.", name="rated")
        result = limpet.evaluate(ROWS[:1], lambda question: question, [rated], tmp_path)
        assert len(server.asked) == 1
    assert result.items[0].scores["rated"].value == 3


BODY = {"choices": [{"message": {"content": "Ça va ?"}, "finish_reason": "stop"}]}
TEXT = json.dumps(BODY, ensure_ascii=False)
JSON = "application/json"


@pytest.mark.parametrize(
    ("encoded", "content_type"),
    [
        (TEXT.encode("utf-8-sig"), JSON),
        (TEXT.encode("utf-8-sig"), f"{JSON}; charset=UTF-8"),
        (TEXT.encode("latin-1"), f"{JSON}; charset=iso-8859-1"),
        (TEXT.encode("latin-1"), f'{JSON}; charset="ISO-8859-1"'),
        (TEXT.encode("utf-16"), f"{JSON}; charset=utf-16"),
        (TEXT.encode(), f"{JSON}; charset=nobody-knows"),
    ],
)
def test_a_byte_order_mark_and_another_charset_are_read(tmp_path, encoded, content_type):
    with model_server(raw(encoded, headers={"Content-Type": content_type})) as server:
        workflow = limpet.workflows.openai(server.url, model="m", key=None, prompt="{{question}}")
        result = limpet.evaluate(ROWS[:1], workflow, run=tmp_path / "model")
        assert result.items[0].output.value == "Ça va ?"
        ask = http(server.url, answer="$.choices[0].message.content")
        result = limpet.evaluate(ROWS[:1], ask, run=tmp_path / "http")
        assert result.items[0].output.value == "Ça va ?"


def test_bytes_that_are_not_in_their_charset_are_a_failure(tmp_path):
    with model_server(raw(TEXT.encode("latin-1"))) as server:
        result = limpet.evaluate(ROWS[:1], http(server.url), run=tmp_path, retry=0)
    assert "not UTF-8" in result.items[0].error["message"]


# ---- accounts -----------------------------------------------------------------------------------


def test_each_key_at_one_address_has_a_pacer(monkeypatch):
    monkeypatch.setenv("TEAM_A", "sk-of-team-a")
    monkeypatch.setenv("ALSO_A", "sk-of-team-a")
    pacers = PacerRegistry()
    with model_server("yes") as server:

        def made(key):
            # A name of its own: another test may have had this port, and a key there.
            return openai_api(server.url, model="two-keys", key=key)

        models = [made(key) for key in ("${TEAM_A}", "sk-of-team-b", "${ALSO_A}", "sk-of-team-a")]

        async def ask_all():
            with pacing_with(pacers):
                for model in models:
                    await model.open()
                    await model.ask(ASK)
                    await model.close()

        asyncio.run(ask_all())
    origin = server.url.removesuffix("/v1")
    assert [pacer.key for pacer in pacers] == [f"{origin} two-keys", f"{origin} two-keys (key 2)"]
    first, second, *others = [model.endpoint for model in models]
    assert others == [first, first] != [second, second]


# ---- usage --------------------------------------------------------------------------------------

GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "hi"}]}}],
    "modelVersion": "gemini-3",
    "usageMetadata": {
        "promptTokenCount": 10,
        "candidatesTokenCount": 4,
        "cachedContentTokenCount": 3,
        "thoughtsTokenCount": 6,
        "totalTokenCount": 20,
    },
}
OLLAMA = {"model": "llama3.3", "response": "hi", "done": True, "prompt_eval_count": 10,
          "eval_count": 4, "eval_duration": 5}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "path", "used", "model"),
    [
        (GEMINI, "$.candidates[0].content.parts[0].text",
         {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20, "cached_tokens": 3,
          "reasoning_tokens": 6}, "gemini-3"),
        (OLLAMA, "$.response",
         {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, "llama3.3"),
    ],
)  # fmt: skip
def test_usage_of_gemini_and_ollama_is_read(tmp_path, body, path, used, model):
    async def answer(_):
        return web.json_response(body)

    with site(answer) as server:
        workflow = http(f"{server.url}/ask", answer=path)
        prices = {model: {"prompt": 1.0, "completion": 2.0}}
        result = limpet.evaluate(ROWS[:1], workflow, run=tmp_path, prices=prices)
    (item,) = result.items
    assert item.output.value == "hi"
    counts = {name: getattr(item.usage, name) for name in USAGE_COUNTS}
    assert {name: count for name, count in counts.items() if count} == used
    assert item.usage.cost == pytest.approx((10 + 2 * used["completion_tokens"]) / 1e6)
