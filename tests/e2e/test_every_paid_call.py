"""Every call that a server is paid for is in the numbers of the run, to the token.

The server counts what it gives. Each reply has another usage, so that one that is counted twice, or
not at all, cannot hide.
"""

import asyncio
import json
import os
from functools import partial

import pytest
from aiohttp import ClientSession
from model_server import DISCONNECT, completion, failure, model_server, raw

import limpet
from limpet.errors import InvalidReplyError
from limpet.models import Reply, openai_api
from limpet.workflows import http, nat, openai

ROWS = [{"id": f"q{n}", "question": f"question {n}", "answer": f"QUESTION {n}"} for n in range(3)]
GOOD = '{"reason": "it fits", "label": "correct"}'
BETTER = '{"reason": "it is right", "label": "first"}'
RATED = '{"reason": "fine", "rating": 4}'
YES = '{"polite": {"reason": "it is", "answer": "yes"}}'
BAD = "I would rather not say"


class Till:
    """Gives replies with a usage, and counts it."""

    def __init__(self):
        self.tokens = 0
        self.replies = 0

    def usage(self):
        self.replies += 1
        prompt, completed = 1000 + self.replies**2, self.replies
        self.tokens += prompt + completed
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completed,
            "total_tokens": prompt + completed,
        }

    def reply(self, text, **more):
        return completion(text, usage=self.usage(), **more)

    def body(self, body):
        return raw({**body, "usage": self.usage()})


def reported(summary):
    steps = [summary["workflow"], *summary["evaluators"].values()]
    return sum(step.get("usage", {}).get("total_tokens", 0) for step in steps)


def by_model(summary):
    steps = [summary["workflow"], *summary["evaluators"].values()]
    models = [counts for step in steps for counts in step.get("models", {}).values()]
    return sum(counts["total_tokens"] for counts in models)


async def shout(question):
    return question.upper()


def run(tmp_path, workflow, evaluators, **options):
    options = {"retry": 0, "show": False, "fail_fast": False, **options}
    return limpet.evaluate(ROWS, workflow, evaluators, run=tmp_path / "run", **options)


def api(server, name="m", **options):
    return openai_api(server.url, model=name, key=None, **options)


# ---- judges -------------------------------------------------------------------------------------


def always(text, **more):
    return lambda till, *_: till.reply(text, **more)


def in_turn(*replies):
    """Give each reply to one request after the other; each item is asked in turn."""
    return lambda till, request, number: _made(till, replies[number % len(replies)])


def _made(till, reply):
    return till.reply(reply) if isinstance(reply, str) else reply


def bad_member(till, request, _):
    return till.reply(BAD if request["model"] == "bad" else GOOD, model=request["model"])


def bad_then(then):
    """Give a bad reply to the first question about an item, and then another."""
    asked = set()

    def answer(till, request, _):
        about = next(row["id"] for row in ROWS if row["answer"] in json.dumps(request))
        if about not in asked:
            asked.add(about)
            return till.reply(BAD)
        return _made(till, then if isinstance(then, str) else next(then))

    return answer


def judge(server, **options):
    return limpet.judge(api(server), "Is {{output}} right?", **options)


def jury(server):
    models = [api(server, "good"), api(server, "bad"), api(server, "better")]
    return limpet.judge(models, "Is {{output}} right?")


def against(server, **options):
    other = {row["id"]: "no" for row in ROWS}
    return limpet.pairwise(api(server), against=other, **options)


def rubric(server, **options):
    return limpet.rubric(api(server), {"polite": "Is it polite?"}, **options)


def rating(server, **options):
    return limpet.rating(api(server), "How good is {{output}}?", scale=(1, 5), **options)


async def asked_by_hand(server, messages):
    """Return the text and the usage of a reply, by a client that we do not know."""
    body = {"model": "m", "messages": messages}
    url = f"{server.url}/chat/completions"
    async with ClientSession() as session, session.post(url, json=body) as response:
        said = await response.json()
    return said["choices"][0]["message"]["content"], said["usage"]


def users_model(server, **options):
    """Return a judge with a model of the user's own."""

    class Own:
        name, endpoint, secrets, fingerprint, described = "own", "own", (), {"own": "1"}, {}

        async def open(self):
            pass

        async def close(self):
            pass

        async def ask(self, messages, *, schema=None, **params):
            text, used = await asked_by_hand(server, messages)
            try:
                return Reply(text, json.loads(text), usage=used)
            except ValueError:
                error = InvalidReplyError("no JSON")
                error.usage = used
                raise error from None

    return limpet.judge(Own(), "Is {{output}} right?", **options)


def function_model(server, **options):
    async def ask(messages):
        text, used = await asked_by_hand(server, messages)
        return Reply(text, usage=used)

    return limpet.judge(ask, "Is {{output}} right?", **options)


JUDGES = {
    "good": (judge, always(GOOD), {}),
    "three votes": (partial(judge, votes=3), always(GOOD), {}),
    "three votes, all bad": (partial(judge, votes=3), always(BAD), {}),
    "three votes, one bad": (partial(judge, votes=3, reasks=0), in_turn(GOOD, BAD, GOOD),
                             {"pace": 1}),
    "a jury with a bad member": (jury, bad_member, {}),
    "pairwise": (against, always(BETTER), {}),
    "pairwise, all bad": (partial(against, votes=2), always(BAD), {}),
    "rubric": (rubric, always(YES), {}),
    "rubric, all bad": (partial(rubric, votes=3), always(BAD), {}),
    "rating": (rating, always(RATED), {}),
    "rating, all bad": (partial(rating, votes=3), always(BAD), {}),
    "asked again": (judge, bad_then(GOOD), {}),
    "asked again in vain": (judge, always(BAD), {}),
    "asked again, then an error": (judge, bad_then(iter([failure(500)] * 99)), {}),
    "asked again, then an error, then retried": (
        judge, bad_then(iter([failure(500), *[completion(GOOD, usage=None)] * 99])),
        {"retry": 3, "pace": 1}),
    "asked again, then no connection": (judge, bad_then(iter([DISCONNECT] * 99)), {}),
    "one vote fails, and is retried": (
        partial(judge, votes=3), in_turn(GOOD, GOOD, failure(500), GOOD), {"retry": 3, "pace": 1}),
    "one vote is bad, and one fails": (
        partial(judge, votes=2, reasks=0), in_turn(BAD, failure(500)), {"pace": 1}),
    "refused": (judge, always(None, refusal="I cannot"), {}),
    "filtered": (judge, always("", finish="content_filter"), {}),
    "cut off": (judge, always('{"reason": "it', finish="length"), {}),
    "empty": (judge, always(None), {}),
    "no choices": (judge, lambda till, *_: till.body({"model": "m", "choices": []}), {}),
    "no message": (judge, lambda till, *_: till.body({"choices": [{}]}), {}),
    "two replies at once": (
        judge, lambda till, *_: till.reply(None, tool_calls=[
            {"function": {"name": "reply", "arguments": text}} for text in (GOOD, YES)]), {}),
    "an error with a 200": (
        judge, lambda till, *_: till.body({"error": {"message": "busy"}}), {"retry": 1}),
    "ended with an error": (judge, always("", finish="error"), {"retry": 1}),
    "a label that does not exist": (judge, always('{"reason": "x", "label": "maybe"}'), {}),
    "streamed, and bad": (
        lambda server: limpet.judge(api(server, stream=True), "{{output}}?"), always(BAD), {}),
    "a model of the user's": (users_model, bad_then(GOOD), {}),
    "a model of the user's, all bad": (partial(users_model, votes=2), always(BAD), {}),
    "a function as a model": (function_model, bad_then(GOOD), {}),
    "a function as a model, all bad": (partial(function_model, votes=2), always(BAD), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGES)
def test_a_judges_calls_are_counted_however_they_end(tmp_path, name):
    make, answer, options = JUDGES[name]
    till = Till()
    with model_server(partial(answer, till)) as server:
        result = run(tmp_path, shout, [make(server)], **options)
    assert till.tokens > 3000
    assert reported(result.summary) == till.tokens
    assert by_model(result.summary) == till.tokens
    assert reported(limpet.load_run(tmp_path / "run").summary) == till.tokens


def test_a_client_of_the_users_is_counted(tmp_path):
    httpx = pytest.importorskip("httpx2")
    async_openai = pytest.importorskip("openai").AsyncOpenAI
    till = Till()
    with model_server(partial(always(BAD), till)) as server:
        http_client = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))
        client = async_openai(base_url=server.url, api_key="none", http_client=http_client)
        result = run(tmp_path, shout, [limpet.judge((client, "m"), "{{output}}?", votes=2)])
    assert reported(result.summary) == till.tokens > 6000


def test_a_decision_that_cannot_be_used_is_counted(tmp_path):
    till = Till()
    with model_server(lambda *_: till.body({"model": "m", "answers": []})) as server:
        result = run(tmp_path, shout, [limpet.judge(api(server, reply="decision"), "{{output}}?")])
    assert reported(result.summary) == till.tokens > 3000


def test_a_reply_before_a_time_out_is_counted(tmp_path):
    till, asked, hanging = Till(), [], []

    async def answer(request, _):
        asked.append(request)
        if len(asked) == 1:
            return till.reply(BAD)
        hanging[:] = asyncio.get_running_loop(), asyncio.Event()
        await hanging[1].wait()
        return "too late"

    with model_server(answer) as server:
        result = limpet.evaluate(
            ROWS[:1], shout, [judge(server)], run=tmp_path / "run", timeout=2, retry=0, show=False
        )
        hanging[0].call_soon_threadsafe(hanging[1].set)
    assert len(asked) == 2
    assert result.summary["evaluators"]["judge"]["failed"] == {"timeout": 1}
    assert reported(result.summary) == till.tokens > 0


# ---- embeddings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [1.0, "no number"])
def test_vectors_are_counted_also_if_they_cannot_be_used(tmp_path, given):
    with model_server(embed=lambda text: [given, 1.0]) as server:
        result = run(tmp_path, shout, [limpet.embedding_similarity(api(server))])
    texts = sum(len(request["input"]) for request in server.asked)
    assert reported(result.summary) == texts


# ---- workflows ----------------------------------------------------------------------------------


def asks(server, **options):
    return openai(server.url, model="m", key=None, prompt="{{question}}", **options)


def asks_for_a_label(server):
    schema = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
    return asks(server, schema=schema)


def by_http(server):
    return http(f"{server.url}/ask", answer="answer.text")


def agent(server):
    return nat(server.url.removesuffix("/v1"))


def own_function(server):
    """A function of the user's own that asks a model of ours, and fails."""
    model = api(server)

    async def answer(question):
        await model.open()
        try:
            reply = await model.ask([{"role": "user", "content": question}])
        finally:
            await model.close()
        return json.loads(reply.text)

    return answer


WORKFLOWS = {
    "good": (asks, always("yes"), {}),
    "streamed": (partial(asks, stream=True), always("yes"), {}),
    "refused": (asks, always(None, refusal="I cannot"), {}),
    "refused in a stream": (
        partial(asks, stream=True), always("", finish="content_filter"), {}),
    "filtered": (asks, always("", finish="content_filter"), {}),
    "null": (asks, always(None), {}),
    "no choices": (asks, lambda till, *_: till.body({"model": "m", "choices": []}), {}),
    "cut off": (asks, always("half of", finish="length"), {}),
    "cut off, with a schema": (asks_for_a_label, always('{"lab', finish="length"), {}),
    "not as asked": (asks_for_a_label, always('{"other": 1}'), {}),
    "an error with a 200, then good": (
        asks, in_turn(failure(500), "yes"), {"retry": 3, "pace": 1}),
    "ended with an error, three times": (asks, always("", finish="error"), {"retry": 2}),
    "http": (by_http, lambda till, *_: till.body({"answer": {"text": "yes"}}), {}),
    "http without an answer": (by_http, lambda till, *_: till.body({"other": 1}), {}),
    "an agent": (agent, lambda till, *_: till.body({"value": "yes"}), {}),
    "an agent that answers null": (agent, lambda till, *_: till.body({"value": None}), {}),
    "a function": (own_function, always('"yes"'), {}),
    "a function that fails": (own_function, always(BAD), {"retry": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflows_calls_are_counted_however_they_end(tmp_path, name):
    make, answer, options = WORKFLOWS[name]
    till = Till()
    with model_server(partial(answer, till)) as server:
        result = run(tmp_path, make(server), [], **options)
    assert till.tokens > 3000
    assert reported(result.summary) == till.tokens
    assert reported(limpet.load_run(tmp_path / "run").summary) == till.tokens


async def _asks_and_fails(question):
    model = openai_api(os.environ["PAID_URL"], model="m", key=None)
    await model.open()
    try:
        await model.ask([{"role": "user", "content": question}])
        raise ValueError("after a paid reply")
    finally:
        await model.close()


def test_a_call_in_a_worker_is_counted(tmp_path, monkeypatch):
    till = Till()
    with model_server(partial(always(BAD), till)) as server:
        monkeypatch.setenv("PAID_URL", server.url)
        result = run(tmp_path, _asks_and_fails, [], engine={"processes": 1}, retry=1)
    assert till.replies == 2 * len(ROWS)
    assert reported(result.summary) == till.tokens
