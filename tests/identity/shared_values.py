"""Edits beside values that Python keeps once: which parts do they touch?

`()` is one object in a process, equal constants are one object in a module, and a name that two
modules import is one object. Whoever edits one of its uses has not touched the other. `ONLY` names
the parts that an edit touches; all others must stay as they were.
"""

from identity.edits import Edit, swap

_TWO = """
    FIRST = {0}
    SECOND = {0}

    def answer(question):
        return f"{{FIRST}}{{SECOND}}" + question
"""
_DEFAULTS = """
    def first(text, labels=("good", "bad")):
        return text + labels[0]

    def second(text, labels=("good", "bad")):
        return text + labels[1]

    def answer(question):
        return first(question) + second(question)
"""
_AGENTS = """
    class Agent:
        def __init__(self, stop, tools):
            self.stop = stop
            self.tools = tools

    planner = Agent(("end", 1), ())
    writer = Agent(("end", 1), ())

    def answer(question):
        return f"{planner.stop}{planner.tools}{writer.stop}{writer.tools}" + question
"""
_TYPES = """
    from typing import Generic, TypeVar

    T = TypeVar("T")

    class Box(Generic[T]):
        def __init__(self, held):
            self.held = held

    class Agent:
        def __init__(self, more):
            self.more = more

    AGENT = Agent(())

    def answer(question):
        return Box(T).held.__name__ + f"{AGENT.more}" + question
"""
_IMPORTED = {
    "words": "WORDS = ('be', 'kind')\n",
    "pa": "from words import WORDS\n\ndef ask(question):\n    return WORDS[0] + question\n",
    "pb": "from words import WORDS\n\ndef ask(question):\n    return WORDS[1] + question\n",
}
_TWO_MODULES = """
    import pa
    import pb

    def answer(question):
        return pa.ask(question) + pb.ask(question)
"""
_CLASSES = """
    from collections import OrderedDict

    FIRST = OrderedDict
    SECOND = OrderedDict

    def answer(question):
        return f"{FIRST()}{SECOND()}" + question
"""
_MEMBERS = """
    from enum import Enum

    class Style(Enum):
        KIND = "kind"
        RUDE = "rude"

    FIRST = Style.KIND
    SECOND = Style.KIND

    def answer(question):
        return FIRST.value + SECOND.value + question
"""


def first_of_two(name: str, value: str, new: str) -> tuple[Edit, list[str]]:
    text = _TWO.format(value)
    return swap(name, text, f"FIRST = {value}", f"FIRST = {new}"), ["FIRST"]


ONLY: list[tuple[Edit, list[str]]] = [
    first_of_two("the first of two constant tuples", "('a', 1)", "('b', 1)"),
    first_of_two("the first of two empty tuples", "()", "('a',)"),
    first_of_two("the first of two empty frozensets", "frozenset()", "frozenset('a')"),
    first_of_two("the first of two tuples of tuples", "(('a', 1), ('b', ()))", "(('a', 1),)"),
    first_of_two("a tuple becomes a list", "('a', 'b')", "['a', 'b']"),
    (
        swap("the second of two constant tuples", _TWO.format("(1,)"), "ND = (1,)", "ND = (2,)"),
        ["SECOND"],
    ),
    (
        swap(
            "the default of the first function",
            _DEFAULTS,
            '"bad")):\n        return text + labels[0]',
            '"poor")):\n        return text + labels[0]',
        ),
        ["first", "first(labels)"],
    ),
    (
        swap(
            "an attribute of the first object",
            _AGENTS,
            '("end", 1), ())\n    w',
            '("stop", 1), ())\n    w',
        ),
        ["planner.stop"],
    ),
    (
        swap(
            "an empty attribute of the first object", _AGENTS, "1), ())\n    w", "1), (2,))\n    w"
        ),
        ["planner.tools"],
    ),
    (
        swap("an empty attribute beside a TypeVar", _TYPES, "Agent(())", "Agent((1,))"),
        ["AGENT.more"],
    ),
    (
        swap(
            "one of two modules no longer uses a tuple",
            _TWO_MODULES,
            _IMPORTED["pa"],
            "def ask(question):\n    return question\n",
            file="pa.py",
            **_IMPORTED,
        ),
        ["pa.WORDS (no longer used)", "pa.ask"],
    ),
    (
        swap(
            "the first of two names of a library's class",
            _CLASSES,
            "FIRST = OrderedDict",
            "FIRST = dict",
        ),
        ["FIRST"],
    ),
    (
        swap(
            "the first of two names of an enum's member",
            _MEMBERS,
            "FIRST = Style.KIND",
            "FIRST = Style.RUDE",
        ),
        ["FIRST"],
    ),
]

_LISTS = """
    FIRST = [{0}]
    SECOND = FIRST

    def answer(question):
        FIRST.append(question)
        return f"{{SECOND}}"
"""
_IN_TUPLES = """
    FIRST = ([], 1)
    SECOND = FIRST

    def answer(question):
        FIRST[0].append(question)
        return f"{SECOND}"
"""

RERUN: list[Edit] = [
    swap("a list is no longer shared", _LISTS.format(""), "SECOND = FIRST", "SECOND = []"),
    swap("a tuple with a list is no longer shared", _IN_TUPLES, "D = FIRST", "D = ([], 1)"),
    swap(
        "the second of two equal tuples gets True for 1",
        _TWO.format("(1,)"),
        "ND = (1,)",
        "ND = (True,)",
    ),
    swap("the second of two equal tuples is another", _TWO.format("()"), "ND = ()", "ND = ((),)"),
    swap("a tuple becomes a frozenset", _TWO.format("('a',)"), "D = ('a',)", "D = frozenset('a')"),
]

KEEP: list[Edit] = [
    swap(
        "two tuples change places",
        _TWO.format("('a', 1)"),
        "FIRST = ('a', 1)\n    SECOND = ('a', 1)",
        "SECOND = ('a', 1)\n    FIRST = ('a', 1)",
    ),
    swap(
        "a tuple is made, not written",
        _TWO.format("('a', 1)"),
        "D = ('a', 1)",
        "D = tuple(['a', 1])",
    ),
    swap(
        "a frozenset is made twice",
        "\n    X = frozenset()" + _TWO.format("X"),
        "D = X",
        "D = frozenset([])",
    ),
    swap("a tuple gets a second name", _TWO.format("(1, 2)"), "SECOND = (1, 2)", "SECOND = FIRST"),
]
