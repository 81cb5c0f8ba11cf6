"""A difference shows the lines that count, under names that people know."""

import importlib
import itertools
import sys
import textwrap

import pytest

from limpet.fingerprints.differences import compared_lines, differences
from limpet.fingerprints.identity import changed_parts, identity_of
from limpet.fingerprints.part_contents import PartContent

_NUMBERS = itertools.count()
RETRY = """
    import functools

    def retry(times, wait=1.0):
        def decorate(fn):
            @functools.wraps(fn)
            def go(*given):
                for _ in range(times):
                    try:
                        return fn(*given)
                    except OSError:
                        wait * 2
            return go
        return decorate
"""
CLIENT = """
    from {retrying} import retry
    class Client:
        @retry(3, 0.5)
        def complete(self, q):
            return "Answer: " + q
    def answer(q): return Client().complete(q)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module of the user's own, and import it."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def make(code):
        name = f"lines_{next(_NUMBERS)}"
        names.append(name)
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def edited(module):
    """Return two versions of a module's `answer`, and the differences between them."""

    def compare(code, *swaps):
        was, now = identity_of(module(code).answer), None
        for old, new in swaps:
            assert old in code
            code = code.replace(old, new)
        now = identity_of(module(code).answer)
        known = {(n, one.parts[n]): s for one in (was, now) for n, s in one.shown.parts.items()}
        return was, now, differences(was.parts, now.parts, known)

    return compare


def test_a_method_under_a_decorator_of_another_module_is_shown_by_its_lines(module, edited):
    code = CLIENT.format(retrying=module(RETRY).__name__)
    was, now, found = edited(code, ("Answer: ", "Reply: "))
    [one] = found
    assert one.name == "Client.complete"
    assert one.lines == (
        "  def complete(self, q):",
        '-     return "Answer: " + q',
        '+     return "Reply: " + q',
    )
    assert changed_parts(was.parts, now.parts) == ["Client.complete"]


def test_what_a_wrapper_closes_over_is_called_by_its_variable(module, edited):
    code = CLIENT.format(retrying=module(RETRY).__name__)
    was, now, found = edited(code, ("0.5", "0.75"))
    [_, one] = found
    assert (one.name, one.lines) == (
        "wait, closed over by Client.complete",
        ("- 0.5", "+ 0.75"),
    )
    assert "closed over 1" not in str(changed_parts(was.parts, now.parts))


def test_an_attribute_of_what_is_closed_over_is_called_by_both(edited):
    _, _, [one] = edited(
        """
        class Policy:
            def __init__(self, wait): self.wait = wait
        def make(policy):
            def answer(q): return q * policy.wait
            return answer
        answer = make(Policy(1))
        """,
        ("Policy(1)", "Policy(2)"),
    )
    assert one.name == "policy.wait, closed over by make.answer"


def test_hints_and_renamed_locals_are_not_among_the_lines(edited):
    _, _, [one] = edited(
        """
        def answer(q, tone="mild", *, deep=1):
            first = q.strip()
            count = len(first)
            for one in range(count):
                first += str(one)
            return "Say: " + first
        """,
        ('q, tone="mild", *, deep=1)', 'q: str, tone: str = "mild", *, deep: "int" = 1) -> str'),
        ("count = len", "length: int = len"),
        ("range(count)", "range(length)"),
        ("first", "text"),
        ("Say", "Tell"),
    )
    assert one.lines == (
        "          text += str(one)",
        '-     return "Say: " + first',
        '+     return "Tell: " + text',
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def f(q):\n    a = 1\n    return a\n", "def f(q):\n    b = 2\n    return b\n"),
        ("def f(q):\n    a = g(q)\n    return a\n", "def f(q):\n    a = g(q)\n    b = 1\n"),
        ("def f(q):\n    return q\n", "def f(p):\n    return p\n"),
        ("def f():\n    global a\n    a = 1\n", "def f():\n    global b\n    b = 1\n"),
        ('def f():\n    return "a: int = 1"\n', 'def f():\n    return "a=1"\n'),
        ("def f(q=1): return q", "def f(q=2): return q"),
        ("class A:\n    x: int = 1\n", "class A:\n    x: str = 1\n"),
        ("x = 'é'; f(1)\n", "x = 'é'; f(2)\n"),
    ],
)
def test_lines_that_count_are_never_taken_for_the_same(old, new):
    a, b = compared_lines(old, new)
    assert [one for one, _ in a] != [one for one, _ in b]


def test_a_folder_is_shown_by_the_names_that_came_and_went():
    known = {
        ("docs/", "1"): PartContent("file", "a.md\nb.md\nc.md"),
        ("docs/", "2"): PartContent("file", "a.md\nc.md\nd.md"),
    }
    [one] = differences({"docs/": "1"}, {"docs/": "2"}, known)
    assert (one.name, one.lines) == ("docs/", ("- b.md", "+ d.md"))


def test_what_changed_has_names_without_the_numbers_of_their_likes():
    now = {"answer": "2", "limpet": "3", "limpet (2)": "4", "file a (2)": "5"}
    assert changed_parts({"answer": "1"}, now) == [
        "answer",
        "file a (2) (now used)",
        "limpet (now used)",
    ]
