"""The vendors' own SDKs and our client, before the same server: both say and read the same.

A small server on loopback records each request and answers from a table. Each question of
`providers/asked.py` is asked twice, by the SDK and by us, whole and streamed.
"""

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiohttp import web
from e2e.conftest import certificate  # noqa: F401 - a fixture
from e2e.servers import server_tls, site
from peers.library_environment import environment, run, variables
from peers.providers.asked import ASKED
from peers.providers.theirs_anthropic import ANTHROPIC
from peers.providers.theirs_bedrock import BEDROCK
from peers.providers.theirs_gemini import GEMINI
from peers.providers.theirs_ollama import OLLAMA
from peers.providers.theirs_openai import OPENAI, RESPONSES
from wire import WIRE

from limpet.errors import LimpetError
from limpet.models import provider_api
from limpet.models.provider import provider
from limpet.pacing.signals import classify

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SDKS = (
    "anthropic==2.10.0", "google-genai==3.3.0", "openai==3.49", "ollama==0.6.3", "boto3==1.44.3",
)  # fmt: skip
SCRIPT = Path(__file__).parent / "providers" / "sdks.py"
KEY = "sk-the-key-of-the-test"
THEIRS = {
    "openai": OPENAI,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "ollama": OLLAMA,
    "bedrock": BEDROCK,
}


def forms_of(name):
    return ("whole", "streamed") if "stream" in provider(name).can else ("whole",)


QUESTIONS = [
    (name, case, form)
    for name, theirs in THEIRS.items()
    for case in theirs.asked
    for form in forms_of(name)
]
questions = pytest.mark.parametrize(("name", "case", "form"), QUESTIONS)


# ---- the server and the two who ask it ----------------------------------------------------------


class Table:
    """Answers each question as the table says; who asks tells which one is next.

    Attributes:
        place: What is asked next: the question and its form.
        requests: Each request, by who asked and the place.
    """

    def __init__(self, answers):
        self.place = ""
        self.requests = {}
        self._answers = answers

    async def __call__(self, request):
        if request.method == "GET":
            self.place = "theirs|" + request.path.removeprefix("/next/")
            return web.Response()
        self.requests[self.place] = (
            request.method, request.path_qs, request.headers.copy(), await request.json()
        )  # fmt: skip
        answer = self._answers[self.place.partition("|")[2]]
        return web.Response(body=answer.body, status=answer.status, headers=answer.headers)


def answers(name):
    """Return the answer to each question, and to each error."""
    wire, found = WIRE[name], {}
    for case, asked in ASKED.items():
        body = wire.body(**asked.reply)
        found[f"{case}|whole"] = SimpleNamespace(
            body=json.dumps(body).encode(), status=200, headers={"Content-Type": "application/json"}
        )
        found[f"{case}|streamed"] = wire.streamed(body)
    for kind, (status, word, _) in THEIRS[name].errors.items():
        answer = wire.failure(status, f"the message of {kind}", word=word)
        found[f"{kind}|error"] = answer
    return found


def theirs_of(name, address):
    """Ask the SDK everything; return what it read of each answer, and the errors it has."""
    rows = THEIRS[name]
    places = [f"{case}|{form}" for case in rows.asked for form in forms_of(name)]
    places += [f"{kind}|error" for kind in rows.errors]
    calls = [
        {
            "place": place,
            "stream": place.endswith("|streamed"),
            "asked": rows.asked.get(place.partition("|")[0], rows.asked["text"]),
        }
        for place in places
    ]
    python = environment("sdks", SDKS, ours=False) / "python"
    command = (str(python), str(SCRIPT), name, address)
    done = json.loads(run(*command, input=json.dumps(calls), env=variables()))
    return dict(zip(places, done["replies"], strict=True)), done["errors"]


async def ours_of(name, address, table):
    """Ask everything with our client; return the reply to each question, or the error."""
    rows = THEIRS[name]
    places = [(case, form) for case in rows.asked for form in forms_of(name)]
    places += [(kind, "error") for kind in rows.errors]
    found = {}
    for case, form in places:
        table.place = f"ours|{case}|{form}"
        found[f"{case}|{form}"] = await asked_by_us(
            name, address, ASKED.get(case, ASKED["text"]), form
        )
    return found


async def asked_by_us(name, address, asked, form):
    settings = {"stream": form == "streamed", **asked.settings}
    model = provider_api(name, address, model="m", key=KEY, **settings)
    await model.open()
    try:
        return await model.ask(asked.messages, schema=asked.schema, **asked.params)
    except LimpetError as error:
        return error
    finally:
        await model.close()


@pytest.fixture(scope="module")
def conversations(certificate):  # noqa: F811
    """Ask each provider once, when the first of its tests needs it."""
    kept = {}

    def of(name):
        if name not in kept:
            kept[name] = None
            table = Table(answers(name))
            tls = server_tls(*certificate) if name == "bedrock" else None
            with site(table, tls) as server:  # where alone boto3 sends a key
                theirs, errors = theirs_of(name, server.url)
            with site(table) as server:
                ours = asyncio.run(ours_of(name, server.url, table))
            kept[name] = SimpleNamespace(
                theirs=theirs, ours=ours, errors=errors, requests=table.requests
            )
        assert kept[name] is not None, "see the first failure"
        return kept[name]

    return of


# ---- what is said -------------------------------------------------------------------------------


def flat(value, path=""):
    """Yield each field of a body with its path."""
    children = value.items() if isinstance(value, dict) else ()
    children = enumerate(value) if isinstance(value, list) else children
    children = list(children)
    if not children:
        yield path, value
    for name, child in children:
        yield from flat(child, f"{path}.{name}".strip("."))


def same(value, name):
    """Return a body without what says nothing: an empty list or object; and Gemini's in one way.

    Gemini reads each name in both ways, and base64 in both alphabets.
    """
    if isinstance(value, list):
        return [same(part, name) for part in value]
    if not isinstance(value, dict):
        base64 = name == "gemini" and isinstance(value, str)
        return value.replace("-", "+").replace("_", "/") if base64 else value
    parts = {key: same(part, name) for key, part in value.items()}
    if name == "gemini":
        parts = {re.sub("_([a-z])", lambda at: at[1].upper(), key): parts[key] for key in parts}
    return {key: part for key, part in parts.items() if part not in ([], {})}


def requests_of(conversations, name, case, form):
    requests = conversations(name).requests
    return requests[f"theirs|{case}|{form}"], requests[f"ours|{case}|{form}"]


@questions
def test_the_body_is_the_sdks_own_field_by_field(name, case, form, conversations):
    theirs, ours = requests_of(conversations, name, case, form)
    theirs, ours = (dict(flat(same(one[3], name))) for one in (theirs, ours))
    differ = {
        path
        for path in theirs.keys() | ours.keys()
        if theirs.get(path, "absent") != ours.get(path, "absent")
    }
    known = {path for of, path in THEIRS[name].differ if of in (case, "*")}
    if form == "whole":
        assert {path for of, path in THEIRS[name].differ if of == case} <= differ, "no more"
    said = {path: (theirs.get(path), ours.get(path)) for path in differ - known}
    assert not said, "theirs, ours"


@questions
def test_the_address_and_the_headers_are_the_sdks_own(name, case, form, conversations):
    theirs, ours = requests_of(conversations, name, case, form)
    methods, paths = zip(theirs[:2], ours[:2], strict=True)
    assert len(set(methods)) == 1
    assert (len(set(paths)) == 1) is not (("*", "path") in THEIRS[name].differ), paths
    for header in THEIRS[name].headers:
        differs = ("*", header) in THEIRS[name].differ
        assert (theirs[2].get(header) != ours[2].get(header)) is differs, header


@pytest.mark.parametrize("name", THEIRS)
def test_every_question_is_asked_or_refused_before_the_first_call(name):
    theirs = THEIRS[name]
    assert theirs.asked.keys() | theirs.cannot.keys() == ASKED.keys()
    for case, says in theirs.cannot.items():
        asked = ASKED[case]
        with pytest.raises(LimpetError, match=says):
            asyncio.run(asked_and_raised(name, asked))


async def asked_and_raised(name, asked):
    address = "http://127.0.0.1:9"
    model = provider_api(name, address, model="m", key=KEY, **asked.settings)
    await model.ask(asked.messages, schema=asked.schema, **asked.params)


# ---- what is read -------------------------------------------------------------------------------


@questions
def test_both_read_the_same_reply(name, case, form, conversations):
    place = f"{case}|{form}"
    theirs, ours = conversations(name).theirs[place], conversations(name).ours[place]
    if isinstance(ours, LimpetError):
        raise ours
    assert "error" not in theirs, theirs
    calls = [[call["name"], call["arguments"]] for call in ours.tool_calls]
    if ASKED[case].schema is not None:
        replies = [arguments for called, arguments in theirs["calls"] if called == "reply"]
        assert ours.parsed == (replies[0] if replies else json.loads(theirs["text"]))
    assert calls == [call for call in theirs["calls"] if call[0] != "reply"]
    assert ours.text == theirs["text"]
    finish = THEIRS[name].finishes.get(theirs["finish"], theirs["finish"])
    if theirs["calls"] and finish == "stop":  # some have no word of their own for it
        finish = "tool_calls"
    assert ours.finish == finish
    assert [ours.usage.prompt_tokens, ours.usage.completion_tokens] == theirs["usage"]
    assert theirs["model"] in (None, ours.model)
    if hasattr(ours, "reasoning"):
        assert (ours.reasoning or "") == theirs["reasoning"]


# ---- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", THEIRS)
def test_every_error_of_the_sdk_is_in_the_table(name, conversations):
    assert conversations(name).errors.keys() <= THEIRS[name].errors.keys()
    for kind, status in conversations(name).errors.items():
        assert THEIRS[name].errors[kind][0] == status


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, theirs in THEIRS.items() for kind in theirs.errors]
)
def test_every_error_of_the_sdk_is_one_of_ours(name, kind, conversations):
    theirs = conversations(name).theirs[f"{kind}|error"]["error"]
    ours = conversations(name).ours[f"{kind}|error"]
    assert kind in (theirs["class"], theirs["status"]), theirs
    assert isinstance(ours, LimpetError), ours
    assert f"the message of {kind}" in str(ours)
    signal = classify(ours)
    wanted = THEIRS[name].errors[kind][2]
    assert (signal.kind.value, signal.overloaded) == (
        ("transient", True) if wanted == "overloaded" else (wanted, False)
    )
