"""An edit that does something changes the fingerprint; a comment does not."""

import functools
import importlib
import itertools
import operator
import os
import posixpath
import subprocess
import sys
import textwrap

import pytest

from limpet.fingerprints.identity import identity_of, record_state
from limpet.fingerprints.walk import modules


def parts(thing):
    return dict(identity_of(thing).parts)


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
            return parts(importlib.import_module("app").shown)

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
        ("temperature=0.5", "temperature=0.7", "answer(temperature)"),
        ("self.name + shorten", "shorten", "Bot.ask"),
        ("calls = 0", "calls = 7", "calls"),
        ("seen = []", "seen = ['x']", "seen"),
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
    # Nobody saw that a run changed it: then it is an edit.
    assert one != parts_of(app, show="it", before="it = Caller('a')\nit('x')")
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
    assert list(parts(len)) == ["function", "len"]
    assert parts(len) != parts(abs)
    assert parts(str.upper) != parts(str.lower)
    assert parts(operator.itemgetter(0)) != parts(operator.itemgetter(1))
    assert parts(posixpath.basename) != parts(posixpath.dirname)
    assert parts(functools.partial(int, base=2)) != parts(functools.partial(int, base=3))


def test_a_function_without_source_counts_by_its_bytecode():
    def made(source):
        scope = {"__name__": "made"}
        exec(source, scope)  # noqa: S102 - how a shell or a notebook makes functions
        return parts(scope["f"])

    assert made("def f(x): return x + 1") == made("def f(x):\n\n    return x + 1")
    assert made("def f(x): return x + 1") != made("def f(x): return x + 2")


@pytest.mark.parametrize(
    "code",
    [
        "def make(p):\n    def f(x): return p['a']\n    return f\nshown = make({'a': '¤'})",
        "def make(p):\n    def f(x): return p\n    return f\nshown = make('¤')",
        "P = '¤'\ndef shown(x, *, p=P): return p",
        (
            "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n    m: str\n"
            "c = C('¤')\ndef shown(x): return c.m"
        ),
        (
            "import pydantic\nclass C(pydantic.BaseModel):\n    m: str\n"
            "c = C(m='¤')\ndef shown(x): return c.m"
        ),
        "import types\nns = types.SimpleNamespace(model='¤')\ndef shown(x): return ns.model",
        "import re\np = re.compile('¤')\ndef shown(x): return p.match(x)",
        "def g(x): return '¤'\nTABLE = {'a': g}\ndef shown(x): return TABLE[x](x)",
        "import functools\n@functools.lru_cache\ndef h(x): return '¤'\ndef shown(x): return h(x)",
        (
            "class B:\n    __slots__ = ('m',)\n    def __init__(self, m): self.m = m\n"
            "    def __call__(self, x): return self.m\nshown = B('¤')"
        ),
        "P = '¤'\nclass B:\n    def __call__(self, x, p=P): return p\nshown = B()",
        (
            "P = '¤'\nclass B:\n    @property\n    def p(self): return P\n"
            "    def __call__(self, x): return self.p\nshown = B()"
        ),
        (
            "import functools, json\nD = functools.partial(json.dumps, indent='¤')\n"
            "def shown(x): return D([x])"
        ),
        "import datetime\nD = datetime.date(2020, 1, len('¤'))\ndef shown(x): return D",
        "class K: m = 'x'\nK.m = '¤'\ndef shown(x): return K.m",
    ],
)
def test_an_edit_anywhere_that_changes_the_answer_is_noticed(parts_of, code):
    assert parts_of("", show="shown", before=code.replace("¤", "1")) != parts_of(
        "", show="shown", before=code.replace("¤", "22")
    )


def test_what_is_imported_inside_a_function_counts(parts_of):
    code = "def shown(x):\n    from prompts import GREETING\n    return GREETING"
    one = parts_of("", show="shown", before=code)
    assert one == parts_of("", PROMPTS + "# a comment", show="shown", before=code)
    assert one != parts_of("", PROMPTS.replace("Hello", "Hi"), show="shown", before=code)


def test_files_too_many_to_count_are_listed(tmp_path, monkeypatch):
    for number in range(3):
        (tmp_path / f"plugin_{number}.py").write_text(f"X = {number}\n")
    code = "import importlib\ndef answer(q):\n    return importlib.import_module(q)\n"
    (tmp_path / "many_plugins.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(modules, "_MOST_FILES", 3)
    found = identity_of(importlib.import_module("many_plugins").answer)
    sys.modules.pop("many_plugins")
    assert found.left_out == {
        "many_plugins.py: 4 files": "imports a module by a computed name: the first 3 files count"
    }


@pytest.mark.parametrize(
    "code",
    [
        (
            "class B:\n    def __init__(self): self.h = []\n"
            "    def __call__(self, x): self.h.append(x)\nshown = B()"
        ),
        (
            "class B:\n    def __init__(self): self.h = {}\n"
            "    def __call__(self, x): self.h[x] = 1\nshown = B()"
        ),
        "def shown(x, cache={}): cache[x] = 1",
        (
            "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n        n += 1\n"
            "    return f\nshown = make()"
        ),
        "n = 0\ndef count():\n    global n\n    n += 1\ndef shown(x):\n    count()\n    return n",
        "CACHE = {}\ndef shown(x): CACHE[x] = 1",
        "seen = set()\ndef shown(x): seen.add(x)",
    ],
)
def test_what_changes_while_a_run_goes_on_is_state(parts_of, code):
    parts_of("", show="shown", before=code)
    app = sys.modules["app"]
    planned = identity_of(app.shown)
    app.shown("x")
    assert record_state(app.shown, planned)
    assert parts(app.shown) == planned.parts


def test_a_secret_does_not_count_and_a_timeout_does(parts_of):
    code = "API_KEY = 'k'\nTIMEOUT = 3\ndef shown(x): return API_KEY, TIMEOUT"
    one = parts_of("", show="shown", before=code)
    assert one == parts_of("", show="shown", before=code.replace("'k'", "'other'"))
    assert one != parts_of("", show="shown", before=code.replace("3", "4"))


def test_a_path_counts_from_the_project_on(parts_of):
    code = "from pathlib import Path\nP = Path(__file__).parent / '¤'\ndef shown(x): return P"
    one = parts_of("", show="shown", before=code.replace("¤", "a"))
    assert one == parts_of("", show="shown", before=code.replace("¤", "a"))  # another folder
    assert one != parts_of("", show="shown", before=code.replace("¤", "b"))


def test_a_file_that_was_edited_after_its_import_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "edited_later.py"
    module.write_text("def f(x):\n    return 'old'\n")
    old = importlib.import_module("edited_later").f
    in_memory = parts(old)
    module.write_text("def f(x):\n    return 'newer'\n")
    stale = parts(old)
    sys.modules.pop("edited_later")
    importlib.invalidate_caches()
    new = parts(importlib.import_module("edited_later").f)
    assert new != stale
    assert new != in_memory
    sys.modules.pop("edited_later")


def test_objects_that_answer_to_everything_are_survived(parts_of):
    code = (
        "from unittest import mock\n"
        "class Proxy:\n"
        "    def __getattr__(self, name): return self\n"
        "    @property\n"
        "    def __class__(self): raise RuntimeError('nobody home')\n"
        "a, b, c = mock.call, Proxy(), mock.MagicMock()\n"
        "def shown(x): return a.b(x), b.c(x), c(x)"
    )
    assert "shown" in parts_of("", show="shown", before=code)


def test_the_fingerprint_is_the_same_in_every_process():
    script = (
        "from limpet.fingerprints.identity import identity_of\n"
        "parts = lambda thing: dict(identity_of(thing).parts)\n"
        "S = frozenset('abcdef')\n"
        "f, g = (lambda x: x in {'a', 'b', 'c', 'd'}), (lambda x: x in S)\n"
        "print(parts(f), parts(g))\n"
    )
    shown = {
        subprocess.check_output(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2", "3")
    }
    assert len(shown) == 1


def test_a_name_of_a_library_counts_the_same_before_and_after_it_was_looked_up(parts_of):
    code = "import limpet\ndef shown(x): return limpet.Output(x)"
    vars(sys.modules["limpet"]).pop("Output", None)
    before = parts_of("", show="shown", before=code)
    assert sys.modules["limpet"].Output
    assert parts_of("", show="shown", before=code) == before
