"""Is every edit of a program seen that changes what it answers?

Programs grow out of a list of numbers: the same numbers, the same program. An edit is another
number in one place, so it may change a value, a body, a kind of thing, or who uses whom.
"""

import itertools
from textwrap import indent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from identity.edits import Edit
from identity.probing import Probe

_VALUES = ["1", "2", "'a'", "'b'", "None", "1.0", "[1, 'a']", "('a',)", "{'k': 1}", "{'k': 2}"]
_VALUES += ["frozenset({1, 2})", "range(3)", "b'a'", "deque([1], 2)", "Counter('aab')", "-0.0"]
_HEAD = """
import functools
from collections import Counter, deque
from dataclasses import dataclass
"""


class _Growing:
    def __init__(self, numbers: list[int]) -> None:
        self._numbers = iter(numbers)
        self._uses = ["x"]  # how to use what there is so far: an expression in `x`
        self.text = _HEAD

    def take(self, choices: int) -> int:
        return next(self._numbers, 0) % choices

    def value(self) -> str:
        return _VALUES[self.take(len(_VALUES))]

    def used(self) -> str:
        return self._uses[-1 - self.take(len(self._uses))]

    def shown(self) -> str:
        return f"[{self.value()}, {self.used()}, {self.used()}]"

    def grow(self, n: int) -> None:
        make = _KINDS[self.take(len(_KINDS))]
        text, use = make(self, n)
        self.text += f"\n{text}\n"
        self._uses.append(use)

    def program(self) -> str:
        for n in range(2 + self.take(6)):
            self.grow(n)
        return self.text + f"\ndef answer(x):\n    return {self.shown()}\n"


def _constant(one: _Growing, n: int) -> tuple[str, str]:
    return f"c{n} = {one.value()}", f"c{n}"


def _function(one: _Growing, n: int) -> tuple[str, str]:
    return f"def f{n}(x, y={one.value()}):\n    z = {one.shown()}\n    return [y, z]", f"f{n}(x)"


def _class(one: _Growing, n: int) -> tuple[str, str]:
    body = f"kept = {one.value()}\ndef __init__(self, given):\n    self.given = given\n"
    body += f"def run(self, x):\n    return [self.kept, self.given, {one.shown()}]"
    text = f"class K{n}:\n{indent(body, '    ')}\n"
    text += f"class L{n}(K{n}):\n    kept = {one.value()}\n"
    text += f"o{n}, p{n} = K{n}({one.value()}), L{n}({one.value()})"
    return text, (f"o{n}.run(x)", f"p{n}.run(x)")[one.take(2)]


def _dataclass(one: _Growing, n: int) -> tuple[str, str]:
    body = f"given: object\n@property\ndef all(self):\n    return [self.given, {one.value()}]"
    text = (
        f"@dataclass(frozen=True)\nclass D{n}:\n{indent(body, '    ')}\nd{n} = D{n}({one.value()})"
    )
    return text, f"d{n}.all"


def _closure(one: _Growing, n: int) -> tuple[str, str]:
    text = f"def make{n}(given):\n    def inner(x):\n        return [given, {one.shown()}]\n"
    text += f"    return inner\nm{n}, n{n} = make{n}({one.value()}), make{n}({one.value()})"
    return text, (f"m{n}(x)", f"n{n}(x)")[one.take(2)]


def _decorated(one: _Growing, n: int) -> tuple[str, str]:
    wrapper = f"@functools.wraps(do)\ndef wrapper(x):\n    return [given, {one.value()}, do(x)]"
    around = f"def around(do):\n{indent(wrapper, '    ')}\n    return wrapper\nreturn around"
    text = f"def deco{n}(given):\n{indent(around, '    ')}\n"
    text += f"@deco{n}({one.value()})\ndef g{n}(x):\n    return {one.shown()}"
    return text, f"g{n}(x)"


def _partial(one: _Growing, n: int) -> tuple[str, str]:
    text = f"def h{n}(given, x):\n    return [given, {one.shown()}]\n"
    return text + f"q{n} = functools.partial(h{n}, {one.value()})", f"q{n}(x)"


def _container(one: _Growing, n: int) -> tuple[str, str]:
    text = f"t{n} = {{'a': [lambda x: {one.shown()}], 'b': [lambda x: {one.value()}]}}"
    return text, f"t{n}['{'ab'[one.take(2)]}'][0](x)"


def _computed(one: _Growing, n: int) -> tuple[str, str]:
    text = f"v{n} = {one.value()}\nNAME{n} = 'v'\ndef w{n}():\n"
    return text + f"    return globals()[NAME{n} + '{n}']", f"w{n}()"


def _registered(one: _Growing, n: int) -> tuple[str, str]:
    text = f"r{n} = {{}}\ndef register{n}(do):\n    r{n}[do.__name__] = do\n    return do\n"
    text += f"@register{n}\ndef tool{n}(x):\n    return {one.shown()}"
    return text, f"[each(x) for each in r{n}.values()]"


_KINDS = [_constant, _function, _class, _dataclass, _closure, _decorated, _partial, _container]
_KINDS += [_computed, _registered]


@pytest.fixture(scope="module")
def probe():
    probe = Probe()
    yield probe
    probe.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return (tmp_path_factory.mktemp(f"program{n}") for n in itertools.count())


@given(
    numbers=st.lists(st.integers(0, 999), min_size=20, max_size=80),
    at=st.integers(0, 79),
    other=st.integers(0, 999),
)
def test_an_edit_that_changes_an_output_changes_the_identity(probe, folders, numbers, at, other):
    edited = [*numbers]
    edited[at % len(numbers)] = other
    programs = [{"app.py": _Growing(each).program()} for each in (numbers, edited)]
    before, after = probe.before_and_after(
        next(folders), Edit("at random", *programs, inputs=(1, 2))
    )
    if before["outputs"] != after["outputs"]:
        assert before["fingerprint"] != after["fingerprint"]
    if programs[0] == programs[1]:
        assert before["parts"] == after["parts"]
