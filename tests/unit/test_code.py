"""An edit that does something changes the fingerprint; a comment does not."""

import functools
import importlib
import itertools
import sys
import textwrap

import pytest

from holdfast.journal.code import code_parts

PREAMBLE = """
import functools, json
import prompts
from prompts import GREETING
"""

BASE = '''
RETRIES = 3
TEMPLATES = {"a": "Answer: "}
seen = []
calls = 0

def shorten(text):
    """Make it short."""
    return text[:10]

class Bot:
    def __init__(self, name):
        self.name = name
        self.asked = 0

    def ask(self, text):
        self.asked += 1
        return self.name + shorten(text)

bot = Bot("b")

def answer(question, temperature=0.5):
    """Answer it."""
    global calls
    calls += 1  # state
    seen.append(question)
    return TEMPLATES["a"] + GREETING + bot.ask(question) + prompts.ending() + json.dumps(RETRIES)
'''

PROMPTS = """
GREETING = "Hello"
FAREWELL = "Bye"

def ending():
    return FAREWELL

def unused():
    return 1
"""


@pytest.fixture
def parts_of(tmp_path, monkeypatch):
    """Write two modules of a user's own, import them, and read a function of theirs."""
    versions = itertools.count()

    def read(app=BASE, prompts=PROMPTS, show="answer", before=""):
        folder = tmp_path / str(next(versions))
        folder.mkdir()
        (folder / "prompts.py").write_text(prompts)
        (folder / "app.py").write_text(f"{PREAMBLE}{app}\n{before}\nshown = {show}\n")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            for name in ("app", "prompts"):
                sys.modules.pop(name, None)
            return code_parts(importlib.import_module("app").shown)

    yield read
    for name in ("app", "prompts"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# state", "# something else"),
        ('"""Answer it."""', '"""Answer the question."""'),
        ("return text[:10]", "return (text\n        [:10])"),
        ('"""Make it short."""', ""),
        ("calls = 0", "calls = 7"),
        ("seen = []", "seen = ['x']"),
        ("self.asked = 0", "self.asked = 0  # count"),
    ],
)
def test_an_edit_that_does_nothing_changes_nothing(parts_of, old, new):
    assert old in BASE
    assert parts_of() == parts_of(BASE.replace(old, new))


def test_an_edit_of_something_it_does_not_use_changes_nothing(parts_of):
    assert parts_of() == parts_of(prompts=PROMPTS.replace("return 1", "return 2"))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("GREETING + ", "", "answer"),
        ("text[:10]", "text[:20]", "shorten"),
        ("RETRIES = 3", "RETRIES = 4", "RETRIES"),
        ('"Answer: "', '"A: "', "TEMPLATES"),
        ("temperature=0.5", "temperature=0.7", "answer"),
        ("self.name + shorten", "shorten", "Bot"),
    ],
)
def test_an_edit_that_does_something_is_named(parts_of, old, new, named):
    before, after = parts_of(), parts_of(BASE.replace(old, new))
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert named in changed


@pytest.mark.parametrize(("old", "named"), [('"Hello"', "GREETING"), ('"Bye"', "prompts.FAREWELL")])
def test_a_constant_or_function_of_another_own_module_counts(parts_of, old, named):
    before, after = parts_of(), parts_of(prompts=PROMPTS.replace(old, '"X"'))
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == [named]


def test_what_a_partial_has_bound_counts(parts_of):
    one = parts_of(show="functools.partial(answer, temperature=1)")
    two = parts_of(show="functools.partial(answer, temperature=2)")
    assert one != two


def test_a_callable_object_counts_with_what_it_was_made_with(parts_of):
    app = BASE + "\nclass Caller(Bot):\n    def __call__(self, x):\n        return self.ask(x)\n"
    one = parts_of(app, show="Caller('a')")
    assert one != parts_of(app, show="Caller('b')")
    # What its methods change is state.
    assert one == parts_of(app, show="it", before="it = Caller('a')\nit('x')")
    assert "shorten" in one


def test_a_wrapper_counts_and_so_does_what_it_wraps(parts_of):
    wrap = textwrap.dedent("""
        def loud(function):
            @functools.wraps(function)
            def inner(x):
                return function(x).upper()
            return inner
        answer = loud(answer)
    """)
    one = parts_of(BASE + wrap)
    assert one != parts_of(BASE + wrap.replace("upper", "lower"))
    assert one != parts_of(BASE.replace("GREETING + ", "") + wrap)


def test_a_lambda_counts_and_the_line_around_it_does_not(parts_of):
    one = parts_of(show="f", before="f = lambda x: x + RETRIES")
    assert one == parts_of(show="f", before="f  =  (lambda x:\n    x + RETRIES)  # why")
    assert one != parts_of(show="f", before="f = lambda x: x - RETRIES")


def test_libraries_and_builtins_are_not_read():
    assert list(code_parts(len)) == ["len"]
    assert code_parts(functools.partial(int, base=2)) != code_parts(functools.partial(int, base=3))


def test_a_function_without_source_counts_by_its_bytecode():
    def made(source):
        scope = {"__name__": "made"}
        exec(source, scope)  # noqa: S102 - how a shell or a notebook makes functions
        return code_parts(scope["f"])

    assert made("def f(x): return x + 1") == made("def f(x):\n\n    return x + 1")
    assert made("def f(x): return x + 1") != made("def f(x): return x + 2")
