"""User objects that do harm when inspected: only their own cell fails."""

import asyncio
import json
import logging
import os
import signal
import traceback
from decimal import Decimal

import pytest
from cut_short import cut_short

import limpet
from limpet.copies import own_copy
from limpet.engines.returned_values import read_output
from limpet.errors import InterruptedRunError
from limpet.foreign import is_interrupt
from limpet.json_values import encode, kept_form
from limpet.text import one_line, text_of
from limpet.usage import usage_of

METHODS = [
    "__repr__",
    "__str__",
    "__getattr__",
    "__getattribute__",
    "__class__",
    "__len__",
    "__iter__",
    "__eq__",
    "__hash__",
    "__bool__",
    "__format__",
    "model_dump",
]
KINDS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
ROWS = [{"id": one, "input": one} for one in "abc"]
HOSTILE_ROWS = [{"id": one, "input": one} for one in ["fine", *METHODS, "fine, too"]]
NO_RETRIES = {"retry": 0, "pace": 8}
ALL = {**NO_RETRIES, "fail_fast": False}


def hostile(method, kind, base=object):
    def bite(*_, **__):
        raise kind("bitten")

    return type("Hostile", (base,), {method: property(bite) if method == "__class__" else bite})


def unharmed(act, *arguments, **options):
    """Run something that must neither end the process nor stop the tests."""
    try:
        return act(*arguments, **options)
    except BaseException as error:
        traceback.print_tb(error.__traceback__)
        pytest.fail(f"{type(error).__name__} came through")


def fared(result):
    return {one.id: (one.status, sorted(one.scores), sorted(one.score_errors)) for one in result}


SCORED = ("completed", ["good"], [])
FAILED = ("failed", [], [])


@pytest.mark.quick(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_returned_value_that_bites_fails_its_own_cell(kind, is_nested, is_async, tmp_path):
    def answer(question):
        if question not in METHODS:
            return question
        bad = hostile(question, kind)()
        return {"deep": [bad]} if is_nested else bad

    async def answer_async(question):
        return answer(question)

    workflow = answer_async if is_async else answer
    scores = {"good": lambda output: 1}
    result = unharmed(limpet.evaluate, HOSTILE_ROWS, workflow, scores, tmp_path / "run", **ALL)
    assert fared(result.items) == {
        "fine": SCORED,
        **dict.fromkeys(METHODS, FAILED),
        "fine, too": SCORED,
    }
    assert result.stop_reason is None


@pytest.mark.quick(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [Exception, ValueError])
def test_an_exception_that_bites_fails_its_own_cell(kind, base, tmp_path):
    async def answer(question):
        if question in METHODS:
            raise hostile(question, kind, base)
        return question

    def good(output):
        if output == "fine, too":
            raise hostile("__getattr__", kind, base)
        return 1

    scores = {"good": good}
    result = unharmed(limpet.evaluate, HOSTILE_ROWS, answer, scores, tmp_path / "run", **ALL)
    assert fared(result.items) == {
        "fine": SCORED,
        **dict.fromkeys(METHODS, FAILED),
        "fine, too": ("completed", [], ["good"]),
    }
    assert result.stop_reason is None


@pytest.mark.quick(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [object, str, float, dict])
def test_a_score_that_bites_fails_its_own_cell(kind, base, tmp_path):
    def good(output):
        if output not in METHODS:
            return 1
        bad = hostile(output, kind, base)()
        return limpet.Score(1, metadata=bad) if base is object else bad

    def answer(question):
        return question

    scores = {"good": good}
    result = unharmed(limpet.evaluate, HOSTILE_ROWS, answer, scores, tmp_path / "run", **ALL)
    found = fared(result.items)
    assert found["fine"] == found["fine, too"] == SCORED
    for status, scored, failed in found.values():
        assert status == "completed"
        assert len(scored) + len(failed) == 1
    assert result.stop_reason is None


@pytest.mark.quick(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_raised", [False, True])
def test_in_a_map_too_it_is_that_input_alone(kind, is_raised, tmp_path):
    def act(text):
        if text not in METHODS:
            return text
        if is_raised:
            raise hostile(text, kind, Exception)
        return hostile(text, kind)()

    inputs, journal = ["fine", *METHODS, "fine, too"], tmp_path / "out.jsonl"
    result = unharmed(limpet.map, act, inputs, journal=journal, version="1", **NO_RETRIES)
    assert (result.outputs[0], result.outputs[-1]) == ("fine", "fine, too")
    assert sorted(one.input for one in result.failures) == sorted(METHODS)


def test_a_workflow_that_raises_keyboard_interrupt_itself_fails_its_own_cell(tmp_path):
    async def answer(question):
        if question == "b":
            raise KeyboardInterrupt("mine")
        return question

    result = unharmed(limpet.evaluate, ROWS, answer, (), tmp_path / "run")
    assert [one.status for one in result.items] == ["completed", "failed", "completed"]
    assert result.items[1].error["message"] == "the workflow raised KeyboardInterrupt: mine"


def test_a_real_ctrl_c_is_heard_while_a_foreign_repr_runs(tmp_path):
    pressed = []

    class Slow(Exception):
        def __str__(self):
            if not pressed:
                pressed.append(1)
                os.kill(os.getpid(), signal.SIGINT)
            return "slow"

    async def answer(question):
        raise Slow

    result = cut_short(limpet.evaluate, ROWS, answer, (), tmp_path / "run", retry=0, pace=1)
    assert isinstance(result.stop_reason, InterruptedRunError)


def test_without_a_handler_of_ours_a_ctrl_c_goes_through_a_foreign_repr():
    class Slow:
        def __repr__(self):
            os.kill(os.getpid(), signal.SIGINT)
            return "slow"

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            one_line(Slow())
        assert is_interrupt(KeyboardInterrupt())
        signal.signal(signal.SIGINT, lambda *_: None)
        assert not is_interrupt(KeyboardInterrupt())
        assert not is_interrupt(SystemExit())
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_real_ctrl_c_passes_a_copy_and_what_is_returned(kind):
    class Uncopyable:
        def __deepcopy__(self, _):
            raise kind("bitten")

    class Odd(limpet.Output):
        @property
        def usage(self):
            raise kind("bitten")

        @usage.setter
        def usage(self, _):
            pass

    class Omissions:
        def say(self, *_):
            pass

    reads = [lambda: own_copy([Uncopyable()]), lambda: read_output(Odd("x"), Omissions())]
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        for read in reads:
            read()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for read in reads:
            if kind is KeyboardInterrupt:
                with pytest.raises(KeyboardInterrupt):
                    read()
            else:
                read()
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_an_odd_object_is_called_is_said():
    assert one_line(hostile("__repr__", SystemExit)()) == (
        "<Hostile, whose repr raised SystemExit>"
    )
    assert text_of(hostile("__str__", SystemExit, Exception)()) == (
        "<Hostile, whose str raised SystemExit>"
    )


# ---- values that are not what their class makes of them -------------------------------------


class SaysNan(float):
    def __float__(self):
        return float("nan")


class SaysOne(float):
    def __float__(self):
        return 1.0


class OddInt(int):
    def __int__(self):
        return 7

    def __repr__(self):
        return "odd"


class OddText(str):
    __slots__ = ()

    def __str__(self):
        return "odd"


class Proxy:
    """Passes itself off for a text, as lazily translated ones do."""

    __class__ = str

    def __str__(self):
        return "said"


@pytest.mark.parametrize(
    ("value", "json_text"),
    [
        (SaysNan(1.5), b"1.5"),
        (SaysNan("nan"), b'"~float:nan"'),
        (SaysOne("nan"), b'"~float:nan"'),
        (SaysOne("-inf"), b'"~float:-inf"'),
        (OddInt(3), b"3"),
        (OddText("a"), b'"a"'),
        (Decimal("NaN"), b'"NaN"'),
        ({OddText("k"): 1, OddInt(2): 2}, b'{"k":1,"2":2}'),
        ({"deep": [(SaysNan(2.5), SaysOne("nan"))]}, b'{"deep":[[2.5,"~float:nan"]]}'),
    ],
)
def test_a_value_is_kept_as_it_is_and_a_nan_is_never_null(value, json_text):
    assert encode(value) == (json_text, True)


def test_what_passes_itself_off_for_a_text_is_asked_for_it():
    assert encode([Proxy()]) == (b'["said"]', True)


def test_numpy_nans_are_marked_too():
    numpy = pytest.importorskip("numpy")
    kept = kept_form({"a": numpy.float64("nan"), "b": numpy.array([numpy.float32("inf")])})
    assert json.dumps(kept) == '{"a": NaN, "b": [Infinity]}'


def test_a_float_that_is_nan_is_no_score_whatever_it_says(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    scores = {"one": lambda output: SaysOne("nan"), "nan": lambda output: SaysNan(0.5)}
    result = limpet.evaluate(ROWS, lambda question: question, scores, tmp_path / "run")
    assert result.summary["evaluators"]["one"]["failed"] == {"evaluator": 3}
    assert result.summary["scores"]["nan"]["mean"] == 0.5


def test_ctrl_c_while_usage_is_read_is_not_swallowed():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            usage_of(hostile("__getattr__", KeyboardInterrupt)())
    finally:
        signal.signal(signal.SIGINT, before)
    usage, wrong = usage_of(hostile("__getattr__", SystemExit)())
    assert usage is None
    assert "cannot be read: SystemExit" in wrong[0]
