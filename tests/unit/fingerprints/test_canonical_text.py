"""Two functions that do different things have different texts."""

import ast

import pytest

from limpet.fingerprints.code import syntax


def text(code: str) -> str:
    return syntax.read(*ast.parse(code).body).text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x < (a < b < c)", "x < (a < b) < c"),
        ("a < (b < c)", "a < b < c"),
        ('f"{a:{b}}{c}"', 'f"{a:{b}{c}}"'),
        ('f"{a!r}"', 'f"{a}"'),
        ("import a as b", "import a, b"),
        ("def f():\n yield\n value", "def f():\n yield value"),
        ("def f():\n x = [(yield), value, y]", "def f():\n x = [(yield y)]"),
        ("@a\ndef f(x): pass", "def f(x=a): pass"),
        ("def f(x=a, *, y): pass", "def f(x, *, y=a): pass"),
        ("f(a, b)", "f(a, b=b)"),
        ("f(*a)", "f(**a)"),
        ("f(a)(b)", "f(a, b)"),
        ("if a:\n b\nelse:\n c", "if a:\n b\nc"),
        ("for a in b:\n c\nelse:\n d", "for a in b:\n c\nd"),
        ("a = b = c", "a = c"),
        ("a, b = c", "a = b = c"),
        ("a += 1", "a -= 1"),
        ("a - b", "a + b"),
        ("a.b.c", "a.c.b"),
    ],
)
def test_other_code_has_another_text(before, after):
    assert text(before) != text(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(): 'says little'", "def f(): pass"),
        ("def f():\n x: int = 1\n return x", "def f():\n y = 1\n return y"),
        ("f((a), b)", "f(a, b)"),
        ("'a' 'b'", "'ab'"),
    ],
)
def test_the_same_code_has_the_same_text(before, after):
    assert text(before) == text(after)
