"""What a run left in an object is state of that object: another one under its name is an edit."""

import functools
import gc
import itertools
import linecache
import sys
import textwrap
import weakref
from types import ModuleType

import pytest

import limpet

INPUTS = ["a", "b", "c", "d"]
_NUMBERS = itertools.count()

ADAPTS = """
    class Agent:
        def __init__(self, heat): self.heat = heat
        def ask(self, q):
            heat, self.heat = self.heat, min(0.5, self.heat + 0.25)
            return str(heat) + q
    AGENT = Agent(0.0)
    def answer(q): return AGENT.ask(q)
"""
SWITCHES = """
    CONFIG = {"models": {"m": "v1"}}
    def answer(q):
        if q == "c": CONFIG["models"]["m"] = "v2"
        return CONFIG["models"]["m"] + q
"""
COUNTS = """
    def make(n):
        def answer(q):
            nonlocal n
            n += 1
            return str(n) + q
        return answer
    answer = make(0)
"""
IN_A_CLASS = """
    class Agent:
        asked = 0
    def answer(q):
        Agent.asked += 1
        return str(Agent.asked) + q
"""
LOSES = """
    class Agent:
        def __init__(self, **given): vars(self).update(given)
    AGENT = Agent(tone="kind")
    def answer(q):
        tone = vars(AGENT).pop("tone", "rude")
        return tone + q
"""


@pytest.fixture
def cells(monkeypatch, tmp_path):
    """Run code in one scope, cell by cell, as a notebook does."""
    module = ModuleType(f"cells_{next(_NUMBERS)}")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def run(code):
        text = textwrap.dedent(code)
        file = str(tmp_path / f"cell_{next(_NUMBERS)}.py")
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), vars(module))  # noqa: S102 - what a notebook does
        return module

    return run


def answers(function, at):
    return limpet.map(function, INPUTS, journal=at, pace=1).outputs


@pytest.mark.parametrize(
    ("code", "edit"),
    [
        (ADAPTS, "AGENT = Agent(0.5)"),
        (SWITCHES, 'CONFIG = {"models": {"m": "v2"}}'),
        (SWITCHES, 'CONFIG["models"] = {"m": "v2"}'),
        (COUNTS, "answer = make(4)"),
        (IN_A_CLASS, "class Agent:\n    asked = 4"),
        (LOSES, "AGENT = Agent()"),
    ],
    ids=["an object", "a dict", "a dict in it", "a closure", "a class", "without an attribute"],
)
def test_a_new_object_with_what_a_run_left_in_the_old_one_is_an_edit(tmp_path, cells, code, edit):
    app = cells(code)
    answers(app.answer, tmp_path / "run.jsonl")
    cells(edit)
    with pytest.raises(limpet.FunctionChangedError):
        answers(app.answer, tmp_path / "run.jsonl")


@pytest.mark.parametrize("code", [ADAPTS, SWITCHES, COUNTS, IN_A_CLASS, LOSES])
def test_the_same_object_keeps_everything_and_so_does_its_cell_run_again(tmp_path, cells, code):
    app = cells(code)
    first = answers(app.answer, tmp_path / "run.jsonl")
    assert answers(app.answer, tmp_path / "run.jsonl") == first
    cells(code)
    assert answers(app.answer, tmp_path / "run.jsonl") == first


def test_a_method_and_a_partial_are_made_anew_each_time_and_their_object_is_the_same(
    tmp_path, cells
):
    agent = cells(ADAPTS).AGENT
    first = answers(agent.ask, tmp_path / "method.jsonl")
    assert agent.heat == 0.5
    assert answers(agent.ask, tmp_path / "method.jsonl") == first

    app = cells(
        "class Bot:\n    n = 0\n    def ask(self, q, mode):\n"
        "        self.n = self.n + 1\n        return mode + q\nBOT = Bot()"
    )
    for _ in range(2):
        given = functools.partial(app.BOT.ask, mode="x")
        assert answers(given, tmp_path / "partial.jsonl") == ["xa", "xb", "xc", "xd"]


def test_objects_in_turn_each_keep_their_own_state(tmp_path, cells):
    app = cells(ADAPTS)
    agents = [app.Agent(0.0) for _ in range(5)]
    for _ in range(2):
        for number, agent in enumerate(agents):
            answers(agent.ask, tmp_path / f"{number}.jsonl")


def test_what_a_run_left_does_not_keep_an_object_alive(tmp_path, cells):
    app = cells(ADAPTS)
    answers(app.answer, tmp_path / "run.jsonl")
    gone = weakref.ref(app.AGENT)
    app.AGENT = None
    gc.collect()
    assert gone() is None
