"""What all adapters share: names, fields, fingerprints, failures, recognition."""

import asyncio
import inspect
import json
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from limpet.errors import InvalidReplyError, LimpetError, PermanentError
from limpet.evaluators import Scored, as_evaluator
from limpet.evaluators.libraries import recognised as recognising
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields
from limpet.evaluators.libraries.overrides import Overrides
from limpet.evaluators.libraries.recognised import recognised
from limpet.evaluators.libraries.shapes import has, plain, settings_of, valid_name
from limpet.shapes import Item

KEY = "sk-a-key-that-nobody-may-write-123"


class Theirs:
    """An evaluator of a library that does not exist."""

    def __init__(self, name="Answer Quality", **settings):
        self.name, self.returned = name, 1.0
        self.prompt = "Is it right?"
        vars(self).update(settings)

    def judge_it(self, values):
        self.seen = values
        if isinstance(self.returned, Exception):
            raise self.returned
        return self.returned


class TheirsAdapter(Adapter):
    library, package = "Theirs", "limpet"
    bad_replies = ("ValueError",)

    @classmethod
    def fits(cls, thing):
        return has(thing, "judge_it")

    def own_name(self):
        return self.theirs.name

    def wanted(self):
        return EvaluatorFields(("question", "response", "context"), ("style",))

    def parts(self):
        return {"prompt": self.theirs.prompt, "settings": settings_of(self.theirs)}

    def model(self):
        return getattr(self.theirs, "url", None), "m"

    async def score(self, values):
        return self.theirs.judge_it(values)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(recognising, "ADAPTERS", (*recognising.ADAPTERS, TheirsAdapter))


def adapted(theirs=None, **options):
    return as_evaluator(theirs or Theirs(), inputs={"context": "{{docs}}"}, **options)


ITEM = Item("1", "q", "a", {"docs": ["x", "y"], "note": "n"})
SCORED = Scored("4", "a", "q", ITEM, where="item '1'")


def called(returned, **settings):
    theirs = Theirs(returned=returned, **settings)
    return asyncio.run(adapted(theirs).call(SCORED)).value["score"]


def test_its_fields_are_filled_by_their_usual_names_and_by_inputs():
    theirs = Theirs()
    evaluator = adapted(theirs)
    asyncio.run(evaluator.call(SCORED))
    assert theirs.seen == {"question": "q", "response": "4", "context": ["x", "y"]}
    assert evaluator.reads == {"input", "output", "row.docs"}
    assert evaluator.name == "Answer_Quality"


def test_a_field_without_a_value_is_an_error_that_says_what_to_write():
    with pytest.raises(TypeError) as raised:
        as_evaluator(Theirs())
    assert "takes question, response, context, style" in str(raised.value)
    assert 'inputs={"context": "{{your field}}"}' in str(raised.value)


def test_an_unknown_field_and_an_open_placeholder_are_errors():
    with pytest.raises(TypeError, match="inputs names 'contxt', but Theirs takes question, resp"):
        as_evaluator(Theirs(), inputs={"contxt": "{{docs}}"})
    with pytest.raises(LimpetError, match=r"inputs.context: '\{\{docs' has no '\}\}'"):
        as_evaluator(Theirs(), inputs={"context": "{{docs"})
    with pytest.raises(TypeError, match="must be a dict of templates"):
        as_evaluator(Theirs(), inputs={1: "x", "context": "y"})


def test_a_field_that_the_item_lacks_is_a_failure_of_that_item():
    evaluator = as_evaluator(Theirs(), inputs={"context": "{{documents}}"})
    with pytest.raises(PermanentError, match="item '1' has no field 'documents'"):
        asyncio.run(evaluator.call(SCORED))


@pytest.mark.parametrize("returned", [None, float("nan"), float("inf"), {}, print], ids=str)
def test_what_is_not_a_score_is_a_failure(returned):
    with pytest.raises(PermanentError):
        called(returned)


def test_a_bad_reply_is_an_invalid_reply_with_its_cause():
    with pytest.raises(InvalidReplyError, match="ValueError: no JSON") as raised:
        called(ValueError("no JSON"))
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_refusal_that_the_library_wrapped_keeps_its_meaning():
    class WrappedError(ValueError):
        pass

    class RateLimitError(Exception):
        status_code = 429

    error = WrappedError("gave up")
    error.__cause__ = RateLimitError("slow down")
    with pytest.raises(WrappedError):
        called(error)


def test_a_failure_that_is_no_bad_reply_is_raised_unchanged():
    with pytest.raises(ZeroDivisionError):
        called(ZeroDivisionError())


FINGERPRINTS = """
recognising.ADAPTERS = (*recognising.ADAPTERS, TheirsAdapter)

def fingerprint(inputs="{{docs}}", **settings):
    return as_evaluator(Theirs(**settings), inputs={"context": inputs}).fingerprint

print(json.dumps({
    "first": fingerprint(),
    "again": fingerprint(),
    "prompt": fingerprint(prompt="Is it wrong?"),
    "inputs": fingerprint(inputs="{{note}}"),
    "setting": fingerprint(temperature=1),
    "url": fingerprint(url="http://localhost:8000/v1"),
    "secrets": fingerprint(api_key=KEY, client=object()),
}))
"""


@pytest.fixture
def fingerprints(tmp_path):
    """Made in a project of its own: in this one, all of Limpet's code would count."""
    script = tmp_path / "theirs.py"
    imports = (
        "import json",
        "from limpet.evaluators import as_evaluator",
        "from limpet.evaluators.libraries import recognised as recognising",
        "from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields",
        "from limpet.evaluators.libraries.shapes import has, settings_of",
        f"KEY = {KEY!r}",
    )
    parts = (*imports, inspect.getsource(Theirs), inspect.getsource(TheirsAdapter), FINGERPRINTS)
    script.write_text("\n".join(parts), encoding="utf-8")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_an_edit_of_the_prompt_the_inputs_or_a_setting_changes_the_fingerprint(fingerprints):
    first = fingerprints.pop("first")
    same = {name for name, other in fingerprints.items() if other == first}
    assert same == {"again", "secrets"}
    assert any("Theirs" in part for part in first), "the user's own class counts as code"


def test_a_key_is_in_no_fingerprint():
    theirs = Theirs(api_key=KEY, headers={"Authorization": KEY, "x": [{"api_key": KEY}]})
    assert KEY not in json.dumps(adapted(theirs).described)


def test_its_endpoint_is_its_server_and_model_or_its_own():
    assert adapted(Theirs(url="http://LOCALHOST:8000/v1")).endpoint == "http://localhost:8000 m"
    assert adapted(Theirs(url="https://user:pw@host/v1")).endpoint == "https://host:443 m"
    assert adapted(Theirs(url=object())).endpoint == "Answer_Quality"
    assert adapted(Theirs(), endpoint="mine").endpoint == "mine"


def test_a_name_and_a_version_can_be_given():
    evaluator = adapted(name="mine", version="3")
    assert evaluator.name == "mine"
    assert set(evaluator.fingerprint) == {"version"}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Answer Relevancy", "Answer_Relevancy"), ("Quality [GEval]", "Quality_GEval"),
        ("2nd", "_2nd"), ("summary", "summary_score"), ("", "evaluator"), ("größe", "gr_e"),
    ],
)  # fmt: skip
def test_a_name_is_made_valid(theirs, ours):
    assert valid_name(theirs) == ours


def test_inputs_are_not_for_evaluators_of_ours():
    with pytest.raises(TypeError, match="inputs is for functions"):
        as_evaluator("exact_match", inputs={"output": "{{output}}"})


# ---- what is recognised -----------------------------------------------------------------------


class Hostile:
    def __getattribute__(self, name):
        raise SystemExit(3)


class RaisingClass:
    @property
    def __class__(self):
        raise SystemExit(3)


class AlmostPhoenix:
    async_evaluate = None

    @property
    def input_schema(self):
        raise RuntimeError("not now")


@pytest.mark.parametrize("make", [Mock, Hostile, RaisingClass, SimpleNamespace, str, object])
def test_nothing_else_is_recognised_and_nothing_breaks_it(make):
    assert recognised(make()) is None
    assert recognised(make) is None


def test_recognising_reads_no_attribute():
    assert recognised(AlmostPhoenix()) is not None


def test_recognising_imports_nothing():
    before = set(sys.modules)
    recognised(object())
    recognised(AlmostPhoenix())
    assert set(sys.modules) == before


def test_a_class_instead_of_an_object_is_said():
    class Judge:
        def __init__(self, prompt):
            raise AssertionError

        def judge_it(self):
            raise AssertionError

    with pytest.raises(TypeError, match="Judge is a class: give an instance of it"):
        as_evaluator(Judge)


def test_plain_never_shows_an_address_or_raises():
    class Odd:
        def to_dict(self):
            raise SystemExit(1)

    assert plain(Odd()).endswith("Odd")
    assert plain({"a": Odd(), "api_key": KEY}) == {"a": plain(Odd())}
    assert plain([object]) == ["builtins.object"]


# ---- overrides --------------------------------------------------------------------------------


def test_the_last_to_close_restores_a_shared_setting():
    client, environment = SimpleNamespace(max_retries=2), {"OTHER": "1"}
    first, second = Overrides(), Overrides()
    for override in (first, second):
        override.set(client, "max_retries", 0)
        override.set(environment, "RETRIES", "1")
    first.restore()
    assert (client.max_retries, environment["RETRIES"]) == (0, "1")
    second.restore()
    second.restore()
    assert (client.max_retries, environment) == (2, {"OTHER": "1"})


def test_a_setting_that_is_not_there_is_not_made():
    override, client = Overrides(), SimpleNamespace()
    override.set(client, "max_retries", 0)
    override.set(None, "max_retries", 0)
    assert vars(client) == {}
