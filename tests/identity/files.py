"""The table of files that are read: after which edits must something run again, and what?

Each case is a small project and what happens to it, step by step: runs, with the calls that must
be made in them, and edits in between. A call is noted outside of the project's folder. Where a case
is `open`, what stands there is a user's expectation, and another answer may be right.
"""

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from textwrap import dedent
from typing import Any

from identity.projects import (
    Deleted,
    Edited,
    EditedInSecret,
    Linked,
    Meanwhile,
    Moved,
    Project,
    Renamed,
    Run,
    Special,
    Touched,
)

PROMPT = "prompts/answer.txt"
V1, V2, V3 = "v1 of it", "v2 of it", "v3 of it"
EDIT = Edited({PROMPT: V2})
ALL = "abcd"

ROWS = "".join(f'{{"id": "{one}", "question": "{one}", "answer": "{one}"}}\n' for one in ALL)
EVAL = """
name: trial
dataset: rows.jsonl
workflow: app:answer
pace: 1
fail_fast: false
run: {path: runs/trial, durability: flush}
"""
SCORED = EVAL + "evaluators: {grade: app:grade}\n"
SCRIPT = """
import sys
import limpet

result = limpet.evaluate(
    "rows.jsonl", "app:answer", [], run=limpet.Run("runs/trial", durability="flush"),
    pace=1, fail_fast=False,
    on_change=sys.argv[1] if sys.argv[1:] else None,
)
"""
MAP = """
import sys
import limpet
from app import answer

limpet.map(
    answer, "abcd", journal="out.jsonl", pace=1,
    on_change=sys.argv[1] if sys.argv[1:] else None,
)
"""

RUN = ("limpet", "run", "eval.yml")
PYTHON = ("python", "script.py")


@dataclass(frozen=True)
class Case:
    """A project and what happens to it.

    Attributes:
        name: What is tried.
        files: The project at first.
        steps: Runs and edits; each is called with the project, and tells what is wrong.
        unseen: Why Limpet cannot see it, as the docs say; empty: it can.
        slow: Whether it takes seconds.
        alike: Whether others try nearly the same.
        skip: Why it cannot be tried here.
    """

    name: str
    files: dict
    steps: tuple[Callable[[Project], list[str] | None], ...]
    unseen: str = ""
    slow: bool = False
    alike: bool = False
    skip: str = ""


def reading(expression: str, imports: str = "", before: str = "") -> str:
    """Return an app whose workflow evaluates an expression in each call, and answers with it."""
    return (
        f"from pathlib import Path\nfrom tally import aside, note, scored, wait_at\n"
        f"{dedent(imports)}\n\n{dedent(before)}\n\n"
        f"def answer(question):\n    note(question)\n    text = {expression}\n"
        f'    return f"{{text}} {{question}}"\n'
    )


READ = reading(f'Path("{PROMPT}").read_text()')


def project(app: str = READ, files: dict[Any, Any] | None = None) -> dict[Any, Any]:
    """Return the files of a project: those every case has, and more."""
    return {
        "app.py": dedent(app),
        "rows.jsonl": ROWS,
        "eval.yml": EVAL,
        "script.py": SCRIPT,
        PROMPT: V1,
        **(files or {}),
    }


def again(
    name: str,
    app: str = READ,
    edit: Callable[[Project], None] = EDIT,
    *,
    files: dict | None = None,
    calls: str = ALL,
    may: str = "",
    names: tuple[str, ...] = (PROMPT,),
    answers: str = "",
    words: tuple[str, ...] = RUN,
    all_: str = ALL,
    cwd: str = ".",
    settled: bool = True,
    **more: Any,
) -> Case:
    """Return a case in which a run asks after an edit and, told so, calls for these items again.

    The question costs nothing, and after the redo nobody asks again (`settled`). If only some
    items run again, or perhaps more, it is a script: `limpet run --redo` runs them all.
    """
    words = words if (calls, may) == (all_, "") or words != RUN else PYTHON
    redo = "--redo" if "limpet" in words else "redo"
    after = (
        Run(words, asks=names, cwd=cwd),
        Run((*words, redo), calls=calls, may=may, answers=answers, cwd=cwd),
    )
    if words[0] == "new":  # a process in which few answers are made anew without a question
        after = (Run(words, calls=calls, may=may, answers=answers, said=names, cwd=cwd),)
    return Case(
        name,
        project(app, files),
        (
            Run(words, calls=all_, cwd=cwd),
            edit,
            *after,
            *([Run(words, cwd=cwd)] if settled else ()),
        ),
        **more,
    )


def kept(
    name: str,
    app: str = READ,
    edit: Callable[[Project], None] = EDIT,
    *,
    files: dict | None = None,
    words: tuple[str, ...] = RUN,
    all_: str = ALL,
    **more: Any,
) -> Case:
    """Return a case in which an edit changes nothing: no call, no question."""
    return Case(name, project(app, files), (Run(words, calls=all_), edit, Run(words)), **more)


def nothing(_: Project) -> None:
    """Edit nothing."""


# ---- ways to read a file ------------------------------------------------------------------------


def way(name: str, expression: str, imports: str = "", *, path: str = PROMPT, **more: Any) -> Case:
    """Return a case of one way to read a text, in each call."""
    more.setdefault("answers", "v2")
    before = more.pop("before", "")
    content = more.pop("content", lambda text: text)
    return again(
        name,
        reading(expression, imports, before),
        Edited({path: content(V2)}),
        files={path: content(V1), **more.pop("files", {})},
        names=more.pop("names", (path,)),
        settled=False,
        **more,
    )


_LOADER = {
    "core/__init__.py": "",
    "core/loading.py": "import importlib\n\ndef load(name):\n"
    "    return importlib.import_module(name).TONE\n",
}


def _gzipped(text: str) -> bytes:
    import gzip

    return gzip.compress(text.encode(), mtime=0)


def _zipped(text: str) -> bytes:
    import io
    import zipfile

    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt"), text)
    return held.getvalue()


def _array(text: str) -> bytes:
    import io

    import numpy as np

    held = io.BytesIO()
    np.save(held, np.frombuffer(text.encode(), dtype=np.uint8))
    return held.getvalue()


def _pickled(text: str) -> bytes:
    import pickle

    return pickle.dumps(text)


def _database(text: str) -> bytes:
    import sqlite3

    with closing(sqlite3.connect(":memory:")) as base:
        base.execute("create table x (tone text)")
        base.execute("insert into x values (?)", (text,))
        base.commit()
        return base.serialize()


WAYS = [
    way("open", f'open("{PROMPT}").read()'),
    way("open in binary", f'open("{PROMPT}", "rb").read()'),
    way("open by a path of bytes", f'open(b"{PROMPT}").read()'),
    way("open by a subclass of str", f'open(Name("{PROMPT}")).read()', "class Name(str): pass"),
    way(
        "open with an opener of one's own", f'open("{PROMPT}", opener=os.open).read()', "import os"
    ),
    way("Path.read_bytes", f'Path("{PROMPT}").read_bytes().decode()'),
    way("os.open", f'os.read(os.open("{PROMPT}", os.O_RDONLY), 99)', "import os"),
    way("open of a number from os.open", f'open(os.open("{PROMPT}", 0)).read()', "import os"),
    way("io.open", f'io.open("{PROMPT}").read()', "import io"),
    way("io.FileIO", f'io.FileIO("{PROMPT}").read()', "import io"),
    way("codecs.open", f'codecs.open("{PROMPT}", encoding="utf-8").read()', "import codecs"),
    way("an absolute path", f'Path("{PROMPT}").absolute().read_text()'),
    way("a path beside __file__", f'(Path(__file__).parent / "{PROMPT}").read_text()'),
    way("a path with dots and slashes", 'open("./prompts//../prompts/answer.txt").read()'),
    way("a name beginning with a dot", 'open(".prompts/answer").read()', path=".prompts/answer"),
    way("a file at the project's top", 'open("SYSTEM.md").read()', path="SYSTEM.md"),
    way(
        "json.load",
        'json.load(open("config.json"))["tone"]',
        "import json",
        path="config.json",
        content=lambda text: f'{{"tone": "{text}"}}',
    ),
    way(
        "yaml.safe_load",
        'yaml.safe_load(Path("config.yaml").read_text())["tone"]',
        "import yaml",
        path="config.yaml",
        content=lambda text: f"tone: {text}\n",
    ),
    way(
        "tomllib.load",
        'tomllib.load(open("config.toml", "rb"))["tone"]',
        "import tomllib",
        path="config.toml",
        content=lambda text: f'tone = "{text}"\n',
    ),
    way(
        "configparser",
        'read("settings.ini")["x"]["tone"]',
        """
        import configparser

        def read(name):
            parser = configparser.ConfigParser()
            parser.read(name)
            return parser
        """,
        path="settings.ini",
        content=lambda text: f"[x]\ntone = {text}\n",
    ),
    way(
        "csv.reader",
        'list(csv.reader(open("shots.csv")))[1][0]',
        "import csv",
        path="shots.csv",
        content=lambda text: f"tone\n{text}\n",
    ),
    way(
        "pickle.load",
        'pickle.load(open("shots.pkl", "rb"))',
        "import pickle",
        path="shots.pkl",
        content=_pickled,
    ),
    way(
        "gzip.open", 'gzip.open("a.gz", "rt").read()', "import gzip", path="a.gz", content=_gzipped
    ),
    way(
        "zipfile",
        'zipfile.ZipFile("a.zip").read("a.txt")',
        "import zipfile",
        path="a.zip",
        content=_zipped,
    ),
    way(
        "numpy.load",
        'bytes(np.load("a.npy")).decode()',
        "import numpy as np",
        path="a.npy",
        content=_array,
    ),
    way(
        "numpy.memmap",
        'bytes(np.memmap("a.bin", mode="r")).decode()',
        "import numpy as np",
        path="a.bin",
    ),
    way(
        "mmap",
        f'mapped("{PROMPT}")',
        """
        import mmap

        def mapped(name):
            with open(name, "rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[:]
        """,
    ),
    way("fileinput", f'"".join(fileinput.input("{PROMPT}"))', "import fileinput"),
    way("linecache, which keeps it", f'linecache.getline("{PROMPT}", 1)', "import linecache"),
    way(
        "a copy of it that is read outside of the project",
        f'Path(shutil.copyfile("{PROMPT}", aside(question))).read_text()',
        "import shutil",
    ),
    way(
        "jinja2's FileSystemLoader, which keeps it",
        'TEMPLATES.get_template("answer.txt").render()',
        'import jinja2\nTEMPLATES = jinja2.Environment(loader=jinja2.FileSystemLoader("prompts"))',
    ),
    way(
        "importlib.resources",
        'importlib.resources.files("kit").joinpath("tone.txt").read_text()',
        "import importlib.resources",
        path="kit/tone.txt",
        files={"kit/__init__.py": ""},
    ),
    way(
        "pkgutil.get_data",
        'pkgutil.get_data("kit", "tone.txt")',
        "import pkgutil",
        path="kit/tone.txt",
        files={"kit/__init__.py": ""},
    ),
    way(
        "after os.chdir",
        "changed()",
        """
        import os

        def changed():
            os.chdir(Path(__file__).parent / "prompts")
            return open("answer.txt").read()
        """,
    ),
    way(
        "a folder that is open, by dir_fd",
        'os.read(os.open("answer.txt", 0, dir_fd=os.open("prompts", 0)), 99)',
        "import os",
        unseen="an audit hook is told a path without its folder",
    ),
    way(
        "in a thread of the user's",
        "in_thread()",
        f"""
        import threading

        def in_thread():
            found = []
            thread = threading.Thread(target=lambda: found.append(open("{PROMPT}").read()))
            thread.start()
            thread.join()
            return found[0]
        """,
    ),
    way(
        "in a pool of threads that is a global",
        f'POOL.submit(Path("{PROMPT}").read_text).result()',
        """
        from concurrent.futures import ThreadPoolExecutor

        POOL = ThreadPoolExecutor(2)
        """,
    ),
    way(
        "in a generator",
        "next(lines())",
        f"""
        def lines():
            with open("{PROMPT}") as file:
                yield from file
        """,
    ),
    way(
        "a sample of Python that is read as text",
        'Path("samples/sort.py").read_text()',
        path="samples/sort.py",
        content=lambda text: f"# {text}\n",
    ),
    way(
        "a script that is read and run",
        'run("steps/tone.py")',
        """
        def run(name):
            names = {}
            exec(Path(name).read_text(), names)
            return names["TONE"]
        """,
        path="steps/tone.py",
        content=lambda text: f"TONE = {text!r}\n",
    ),
    way(
        "a plugin that is imported under a computed name",
        'importlib.import_module("plugins." + "formal").TONE',
        "import importlib",
        path="plugins/formal.py",
        content=lambda text: f"TONE = {text!r}\n",
        names=(),  # perhaps the module
    ),
    way(
        "a plugin that a library finds by its name",
        'locate("plugins.formal.TONE")',
        "from pydoc import locate",
        path="plugins/formal.py",
        content=lambda text: f"TONE = {text!r}\n",
    ),
    way(
        "a module that is imported by one found by its name",
        'resolve_name("plugins.formal:TONE")',
        "from pkgutil import resolve_name",
        path="plugins/words.py",
        content=lambda text: f"TONE = {text!r}\n",
        files={"plugins/formal.py": "from plugins.words import TONE\n"},
    ),
    way(
        "a plugin beside the folder of its loader",
        'load("plugins.formal")',
        "from core.loading import load",
        path="plugins/formal.py",
        content=lambda text: f"TONE = {text!r}\n",
        files=_LOADER,
    ),
    way(
        "a plugin beside the folder of its loader, in a worker",
        'load("plugins.formal")',
        "from core.loading import load",
        path="plugins/formal.py",
        content=lambda text: f"TONE = {text!r}\n",
        files=_LOADER,
        words=(*RUN, "--engine", "processes"),
        slow=True,
    ),
    way(
        "a name with the word of a secret in another one",
        'open("models/tokenizer.json").read()',
        path="models/tokenizer.json",
    ),
    way(
        "a prompt about passwords",
        'open("prompts/password_reset.txt").read()',
        path="prompts/password_reset.txt",
    ),
    way("a page about passwords", 'open("kb/password.md").read()', path="kb/password.md"),
    way(
        "a page in a folder of pages about secrets",
        'open("kb/secrets/rotate.md").read()',
        path="kb/secrets/rotate.md",
    ),
    way(
        "a database of sqlite",
        "asked()",
        """
        import sqlite3

        def asked():
            with sqlite3.connect("file:kb.db?mode=ro", uri=True) as base:
                return base.execute("select tone from x").fetchone()[0]
        """,
        path="kb.db",
        content=_database,
        unseen="a C library reads it, but an audit event has its name",
    ),
]


# ---- where in the code it is read ---------------------------------------------------------------

ASYNC = """
import asyncio
from pathlib import Path
from tally import note

async def answer(question):
    note(question)
    text = HOW
    return f"{text} {question}"
"""
CLASS = """
from pathlib import Path
from tally import note

class Answer:
    def __init__(self):
        FIRST

    def setup(self):
        SECOND

    def __call__(self, question):
        note(question)
        return f"{self.text} {question}"
"""
_CLASS_EVAL = {"eval.yml": EVAL.replace("app:answer", "app:Answer")}
_READ = f'Path("{PROMPT}").read_text()'

_OPAQUE = f"""
    def words():
        text = {_READ}
        while True:
            yield text

    WORDS = words()
    next(WORDS)
"""

PLACES = [
    again("an async workflow", ASYNC.replace("HOW", _READ), answers="v2"),
    again(
        "asyncio.to_thread",
        ASYNC.replace("HOW", f'await asyncio.to_thread(Path("{PROMPT}").read_text)'),
        answers="v2",
    ),
    again(
        "run_in_executor",
        ASYNC.replace(
            "HOW",
            f'await asyncio.get_running_loop().run_in_executor(None, Path("{PROMPT}").read_text)',
        ),
        answers="v2",
    ),
    again(
        "a task of its own",
        ASYNC.replace("HOW", "await asyncio.create_task(read())")
        + f"\nasync def read():\n    return {_READ}\n",
        answers="v2",
    ),
    again(
        "in __init__",
        CLASS.replace("FIRST", f"self.text = {_READ}").replace("SECOND", "pass"),
        files=_CLASS_EVAL,
        answers="v2",
        names=(),  # perhaps the attribute alone
    ),
    again(
        "in __init__, into something that shows no state",
        CLASS.replace("FIRST", f"self.words = words({_READ})\n        next(self.words)")
        .replace("SECOND", "pass")
        .replace("{self.text}", "{next(self.words)}")
        + "\ndef words(text):\n    while True:\n        yield text\n",
        files=_CLASS_EVAL,
        answers="v2",
    ),
    again(
        "in setup()",
        CLASS.replace("FIRST", "pass").replace("SECOND", f"self.text = {_READ}"),
        files=_CLASS_EVAL,
        answers="v2",
    ),
    again(
        "in a class that is made for each item",
        CLASS.replace("FIRST", f"self.text = {_READ}")
        .replace("SECOND", "pass")
        .replace("class Answer:", "class Answer:\n    per_item = True\n"),
        files=_CLASS_EVAL,
        answers="v2",
    ),
    again(
        "at import, into a global",
        reading("TEXT", f"TEXT = {_READ}"),
        names=(),  # perhaps the global alone
        answers="v2",
    ),
    again(
        "at import, into something that shows no state",
        reading("next(WORDS)", _OPAQUE),
        answers="v2",
    ),
    again(
        "at import of a module that the first call imports",
        reading("late()", "", "def late():\n    import tone\n    return tone.shown()"),
        files={
            "tone.py": "from pathlib import Path\n"
            + dedent(_OPAQUE)
            + "\ndef shown():\n    return next(WORDS)\n"
        },
        answers="v2",
    ),
    again(
        "at import of a script's own module, into a global",
        reading("TEXT", f"TEXT = {_READ}"),
        files={
            "script.py": SCRIPT.replace('"app:answer"', "answer").replace(
                "import limpet", "import limpet\nfrom app import answer"
            )
        },
        words=PYTHON,
        names=(),
        answers="v2",
    ),
    again(
        "at import of a script's own module, into something that shows no state",
        reading("next(WORDS)", _OPAQUE),
        files={
            "script.py": SCRIPT.replace('"app:answer"', "answer").replace(
                "import limpet", "import limpet\nfrom app import answer"
            )
        },
        words=PYTHON,
        names=(),  # what the walk found is named: the hook begins when a run begins
        answers="v2",
    ),
    again(
        "a script with the workflow in it",
        files={"script.py": READ + SCRIPT.replace('"app:answer"', "answer")},
        words=PYTHON,
        answers="v2",
    ),
    again("limpet.map", files={"script.py": MAP}, words=PYTHON),
    again(
        "by a thread in the background that loads it again and again",
        reading(
            "current()",
            "import queue, threading, time",
            """
            LOADED = queue.SimpleQueue()  # shows no state, or what is in it would count, too

            def reload():
                while True:
                    LOADED.put(Path("prompts/answer.txt").read_text())
                    time.sleep(0.005)

            def current():
                while not LOADED.empty():
                    LOADED.get()
                LOADED.get()  # it may have been read before this call
                return LOADED.get()

            threading.Thread(target=reload, daemon=True).start()
            """,
        ),
        answers="v2",
    ),
    again(
        "the command in another folder",
        reading(f'(Path(__file__).parent / "{PROMPT}").read_text()'),
        files={"work/empty": ""},
        words=("limpet", "run", "../eval.yml"),
        cwd="work",
        answers="v2",
    ),
    again(
        "a script in another folder",
        reading(f'(Path(__file__).parent / "{PROMPT}").read_text()'),
        files={
            "work/empty": "",
            "script.py": SCRIPT.replace('"rows.jsonl"', 'Path(__file__).parent / "rows.jsonl"')
            .replace('"runs/trial"', 'Path(__file__).parent / "runs/trial"')
            .replace("import limpet", "import limpet\nfrom pathlib import Path"),
        },
        words=("python", "../script.py"),
        cwd="work",
        answers="v2",
    ),
]


# ---- caches: read once, used by all -------------------------------------------------------------

EACH = {"styles/x.txt": V1, "styles/y.txt": V1}
STYLE = '("x" if question in "ac" else "y")'


def cache(name: str, expression: str, before: str, **more: Any) -> Case:
    """Return a case in which the first call reads a file for all."""
    return again(name, reading(expression, "import functools", before), answers="v2", **more)


_LRU = """
    @functools.lru_cache
    def prompt(name):
        return Path("prompts", name).read_text()
"""
CACHES = [
    cache("lru_cache", 'prompt("answer.txt")', _LRU),
    cache("functools.cache without arguments", "prompt()", """
        @functools.cache
        def prompt():
            return Path("prompts/answer.txt").read_text()
        """),
    cache("a global that the first call fills", "prompt()", """
        TEXT = None

        def prompt():
            global TEXT
            if TEXT is None:
                TEXT = Path("prompts/answer.txt").read_text()
            return TEXT
        """),
    cache("a dict that is a global", 'HELD.setdefault("x", None) or prompt()', """
        HELD = {}

        def prompt():
            HELD["x"] = Path("prompts/answer.txt").read_text()
            return HELD["x"]
        """),
    cache("an attribute of a class", "Prompts.get()", """
        class Prompts:
            text = None

            @classmethod
            def get(cls):
                if cls.text is None:
                    cls.text = Path("prompts/answer.txt").read_text()
                return cls.text
        """),
    cache("cached_property of one object", "PROMPTS.answer", """
        class Prompts:
            @functools.cached_property
            def answer(self):
                return Path("prompts/answer.txt").read_text()

        PROMPTS = Prompts()
        """),
    cache("a default that is a list", "prompt()", """
        def prompt(held=[]):
            if not held:
                held.append(Path("prompts/answer.txt").read_text())
            return held[0]
        """),
    cache("an attribute of a function", "prompt()", """
        def prompt():
            if not hasattr(prompt, "text"):
                prompt.text = Path("prompts/answer.txt").read_text()
            return prompt.text
        """),
    cache("a closure", "prompt()", """
        def make():
            text = None
            def get():
                nonlocal text
                if text is None:
                    text = Path("prompts/answer.txt").read_text()
                return text
            return get

        prompt = make()
        """),
    cache("one for each thread", "prompt()", """
        import threading

        HELD = threading.local()

        def prompt():
            if not hasattr(HELD, "text"):
                HELD.text = Path("prompts/answer.txt").read_text()
            return HELD.text
        """),
    cache("a context variable that an object in it holds", "prompt()", """
        import contextvars

        HELD = contextvars.ContextVar("HELD", default=[])

        def prompt():
            if not HELD.get():
                HELD.get().append(Path("prompts/answer.txt").read_text())
            return HELD.get()[0]
        """),
    cache("a variable of the environment", "prompt()", """
        import os

        NAME = "_" + "TEXT"

        def prompt():
            if NAME not in os.environ:
                os.environ[NAME] = Path("prompts/answer.txt").read_text()
            return os.environ[NAME]
        """),
    cache("a generator that goes on", "next(WORDS)", """
        def words():
            text = Path("prompts/answer.txt").read_text()
            while True:
                yield text

        WORDS = words()
        """),
    cache("a file that stays open", "prompt()", """
        FILE = None

        def prompt():
            global FILE
            FILE = FILE or open("prompts/answer.txt")
            FILE.seek(0)
            return FILE.read()
        """),
    cache("a module that the first call makes", "prompt()", """
        import sys, types

        def prompt():
            if "made" not in sys.modules:
                sys.modules["made"] = types.SimpleNamespace(
                    text=Path("prompts/answer.txt").read_text())
            return sys.modules["made"].text
        """),
    cache("by key: whoever has the style runs again", f"prompt({STYLE})", """
        @functools.lru_cache
        def prompt(style):
            return Path(f"styles/{style}.txt").read_text()
        """, files=EACH, edit=Edited({"styles/x.txt": V2}), names=("styles/x.txt",),
        calls="ac", may="bd"),
    cache("the first call loads all that any item may need", "texts()[question]", """
        @functools.lru_cache
        def texts():
            return {one.stem: one.read_text() for one in sorted(Path("docs").iterdir())}
        """, files={f"docs/{one}.txt": V1 for one in ALL}, edit=Edited({"docs/c.txt": V2}),
        names=("docs/c.txt",), calls="c", may="abd"),
    again(
        "an async cache that the first call fills and all others wait for",
        ASYNC.replace("HOW", "await prompt()") + """
LOCK = asyncio.Lock()
HELD = []

async def prompt():
    async with LOCK:
        if not HELD:
            HELD.append(await asyncio.to_thread(Path("prompts/answer.txt").read_text))
    return HELD[0]
""",
        files={"eval.yml": EVAL.replace("pace: 1", "pace: 4")},
        answers="v2",
    ),
    again(
        "lru_cache in limpet.map",
        reading('prompt("answer.txt")', "import functools", _LRU),
        files={"script.py": MAP},
        words=PYTHON,
    ),
    again(
        "a cache that was filled before the run began",
        reading('prompt("answer.txt")', "import functools", _LRU),
        files={"script.py": SCRIPT.replace("import limpet", "import limpet, app").replace(
            "result =", 'app.prompt("answer.txt")\nresult =')},
        words=PYTHON,
        answers="v2",
        unseen="nothing is read while the run goes on",
    ),
]  # fmt: skip


# ---- a file that some items read ----------------------------------------------------------------

PARTS = {f"docs/{one}.txt": V1 for one in ALL}
OWN = reading('Path(f"docs/{question}.txt").read_text()')
ODD = reading(f'Path("styles", {STYLE} + ".txt").read_text()')
BARRIER = """
    import threading

    TOGETHER = threading.Barrier(4)

    def together(name):
        if not Path(aside("alone")).exists():
            TOGETHER.wait(30)
        return Path(f"docs/{name}.txt").read_text()
"""
_AT_ONCE = {**PARTS, "script.py": SCRIPT.replace("pace=1", "pace=4")}


def alone(one: Project) -> None:
    """Edit one document; from now on no call waits for others."""
    one.write({"docs/c.txt": V2, "aside:alone": ""})


SOME = [
    again(
        "each second item reads the one file, the others another",
        ODD,
        Edited({"styles/x.txt": V2}),
        files=EACH,
        names=("styles/x.txt",),
        calls="ac",
        answers="v2",
    ),
    again(
        "a file for each item",
        OWN,
        Edited({"docs/c.txt": V2}),
        files=PARTS,
        names=("docs/c.txt",),
        calls="c",
        answers="v2",
    ),
    again(
        "a file for each item, in limpet.map",
        OWN,
        Edited({"docs/c.txt": V2}),
        files={**PARTS, "script.py": MAP},
        words=PYTHON,
        names=("docs/c.txt",),
        calls="c",
    ),
    again(
        "a file for each item, four at once in threads",
        reading("together(question)", "", BARRIER),
        alone,
        files=_AT_ONCE,
        names=("docs/c.txt",),
        calls="c",
        answers="v2",
    ),
    again(
        "a file for each item, four at once in one loop",
        ASYNC.replace("HOW", "await own(question)")
        + "\nfrom tally import aside\n\nasync def own(name):\n"
        "    await asyncio.sleep(0.02)\n"
        '    text = Path(f"docs/{name}.txt").read_text()\n'
        "    await asyncio.sleep(0.02)\n    return text\n",
        Edited({"docs/c.txt": V2}),
        files=_AT_ONCE,
        names=("docs/c.txt",),
        calls="c",
        answers="v2",
    ),
    again(
        "a file for each item, in a thread of the user's",
        reading(
            "in_thread(question)",
            "import threading",
            """
            def in_thread(name):
                found = []
                one = threading.Thread(
                    target=lambda: found.append(Path(f"docs/{name}.txt").read_text()))
                one.start()
                one.join()
                return found[0]
            """,
        ),
        Edited({"docs/c.txt": V2}),
        files=PARTS,
        names=("docs/c.txt",),
        calls="c",
        may="abd",
        answers="v2",
    ),
    again(
        "a file for each item, and one for all that they share",
        reading(f'Path("{PROMPT}").read_text() + Path(f"docs/{{question}}.txt").read_text()'),
        Edited({"docs/b.txt": V2, "docs/c.txt": V2}),
        files=PARTS,
        names=("docs/b.txt", "docs/c.txt"),
        calls="bc",
        answers="v2",
    ),
    Case(
        "a file for each item: at the command line, what runs again can be only that",
        project(OWN, PARTS),
        (
            Run(calls=ALL),
            Edited({"docs/c.txt": V2}),
            Run(asks=("docs/c.txt",)),
            Run((*RUN, "--redo-item", "c", "--keep"), calls="c"),
            Run(),
        ),
    ),
    Case(
        "the plan says how many would run again, and asks nothing",
        project(OWN, PARTS),
        (
            Run(calls=ALL),
            Edited({"docs/c.txt": V2}),
            Run((*RUN, "--plan"), said=("docs/c.txt", "3 kept", "1 call of workflow")),
        ),
    ),
    Case(
        "what a file says is to be read: the file of before counts no more",
        project(
            reading('Path("prompts", Path("which").read_text()).read_text()'),
            {"which": "one.txt", "prompts/one.txt": V1, "prompts/two.txt": V2},
        ),
        (
            Run(calls=ALL),
            Edited({"prompts/two.txt": V2 + "!"}),
            Run(),
            Edited({"which": "two.txt"}),
            Run(asks=("which",)),
            Run((*RUN, "--redo"), calls=ALL, answers="v2"),
            Edited({"prompts/one.txt": V3}),
            Run(),
            Edited({"prompts/two.txt": V3}),
            Run(asks=("prompts/two.txt",)),
        ),
    ),
    Case(
        "only a run's own files count for it, of two that go on at once",
        project(
            'import asyncio\nfrom pathlib import Path\nfrom tally import note\n'
            'async def read(name, question):\n    note(question)\n    await asyncio.sleep(0.01)\n'
            '    return Path(f"styles/{name}.txt").read_text()\n'
            'async def one(question):\n    return await read("x", question)\n'
            'async def two(question):\n    return await read("y", question)\n',
            {
                **EACH,
                "script.py": """
import asyncio
import limpet
from app import one, two

async def main():
    rows = [{"id": one, "question": one} for one in "ab"], [{"id": "c", "question": "c"}]
    found = await asyncio.gather(
        limpet.aevaluate(rows[0], one, [], run="runs/one"),
        limpet.aevaluate(rows[1], two, [], run="runs/two"),
        return_exceptions=True,
    )
    for name, result in zip(("one", "two"), found):
        print(f"{name}: {type(result).__name__} {result}")

asyncio.run(main())
""",
            },
        ),
        (
            Run(PYTHON, calls="abc"),
            Edited({"styles/y.txt": V2}),
            Run(
                PYTHON,
                asks=("one: EvaluationResult", "two: FunctionChangedError", "styles/y.txt"),
                code=0,
            ),
        ),
    ),
]  # fmt: skip


# ---- evaluators ---------------------------------------------------------------------------------

GRADE = """
from pathlib import Path
from tally import note, scored

def answer(question):
    note(question)
    return ANSWER

def grade(output, item):
    scored(item.id)
    return GRADE
"""
RUBRIC = 'len(Path("rubric.md").read_text())'


def graded(answer: str, grade: str, more: str = "") -> str:
    return GRADE.replace("ANSWER", answer).replace("GRADE", grade) + dedent(more)


_SCORED = {"eval.yml": SCORED, "rubric.md": "be strict"}
_SHARED = """
    import functools

    @functools.lru_cache
    def rubric():
        return Path("rubric.md").read_text()
"""
EVALUATORS = [
    Case(
        "an evaluator's file: all scores are made again, no answer, and nobody asks",
        project(graded("question", RUBRIC), _SCORED),
        (
            Run(calls=ALL, scores=ALL),
            Run(scores=""),
            Edited({"rubric.md": "be kind"}),
            Run(scores=ALL),
            Run(scores=""),
        ),
    ),
    Case(
        "an evaluator's file, read once",
        project(graded("question", "len(rubric())", _SHARED), _SCORED),
        (
            Run(calls=ALL, scores=ALL),
            Edited({"rubric.md": "be kind"}),
            Run(scores=ALL),
            Run(scores=""),
        ),
    ),
    Case(
        "an evaluator's file for each item",
        project(
            graded("question", 'len(Path(f"docs/{item.id}.txt").read_text())'),
            {**_SCORED, **PARTS},
        ),
        (
            Run(calls=ALL, scores=ALL),
            Edited({"docs/c.txt": V2 + "!"}),
            Run(scores="c"),
            Run(scores=""),
        ),
    ),
    Case(
        "the workflow's file does not count for the evaluator: same answers, same scores",
        project(
            graded("question + str(len(Path('prompts/answer.txt').read_text()))", "1"), _SCORED
        ),
        (
            Run(calls=ALL, scores=ALL),
            EDIT,
            Run(asks=(PROMPT,), scores=""),
            Run((*RUN, "--redo"), calls=ALL, scores=""),
            Run(scores=""),
        ),
    ),
    Case(
        "a file that both read: both run again",
        project(graded(RUBRIC.replace("len", "str") + " * 0", RUBRIC), _SCORED),
        (
            Run(calls=ALL, scores=ALL),
            Edited({"rubric.md": "be kind"}),
            Run(asks=("rubric.md",), scores=""),
            Run((*RUN, "--redo"), calls=ALL, scores=ALL),
            Run(scores=""),
        ),
    ),
    Case(
        "a file that both read: --keep keeps the answers, and scores them again",
        project(graded(RUBRIC, RUBRIC), _SCORED),
        (
            Run(calls=ALL, scores=ALL),
            Edited({"rubric.md": "be kind"}),
            Run((*RUN, "--keep"), scores=ALL),
            Run(scores=""),
        ),
    ),
    Case(
        "a cache that both use, which the workflow fills: both run again",
        project(graded('f"{question}{rubric()[:0]}"', "len(rubric())", _SHARED), _SCORED),
        (
            Run(calls=ALL, scores=ALL),
            Edited({"rubric.md": "be kind"}),
            Run(asks=("rubric.md",), scores=""),
            Run((*RUN, "--redo"), calls=ALL, scores=ALL),
            Run(scores=""),
        ),
    ),
    Case(
        "of two evaluators, only the one that read the file scores again",
        project(
            graded("question", RUBRIC)
            + "\ndef other(output, item):\n    scored(item.id.upper())\n    return 1\n",
            {**_SCORED, "eval.yml": EVAL + "evaluators: {grade: app:grade, other: app:other}\n"},
        ),
        (
            Run(calls=ALL, scores=ALL + ALL.upper()),
            Edited({"rubric.md": "be kind"}),
            Run(scores=ALL),
        ),
    ),
    Case(
        "what the workflow writes and the evaluator reads does not count",
        project(
            graded(
                "str(put(question))",
                'len(Path(f"out/{item.id}.html").read_text())',
                """
                def put(name):
                    Path("out").mkdir(exist_ok=True)
                    return Path(f"out/{name}.html").write_text("<p>")
                """,
            ),
            _SCORED,
        ),
        (Run(calls=ALL, scores=ALL), Run(scores=""), Deleted(("out",)), Run(scores="")),
    ),
    Case(
        "an evaluator with a version: its files do not count",
        project(
            graded("question", RUBRIC),
            {
                **_SCORED,
                "eval.yml": EVAL + 'evaluators: {grade: {python: "app:grade", version: "1"}}\n',
            },
        ),
        (Run(calls=ALL, scores=ALL), Edited({"rubric.md": "be kind"}), Run(scores="")),
    ),
]


# ---- files that come and go, and files that are written ----------------------------------------

OVERRIDE = """
    def override():
        try:
            return Path("prompts/override.txt").read_text()
        except FileNotFoundError:
            return "default"
"""
_EXISTS = """
    def override():
        path = Path("prompts/override.txt")
        return path.read_text() if path.exists() else "default"
"""


def stepwise(name: str, app: str, *steps: Callable, files: dict | None = None, **more: Any) -> Case:
    return Case(name, project(app, files), steps, **more)


COMING = [
    again(
        "an override that is tried and not there at first",
        reading("override()", "", OVERRIDE),
        Edited({"prompts/override.txt": V2}),
        names=("prompts/override.txt",),
        answers="v2",
    ),
    again(
        "an override that is looked for and not there at first",
        reading("override()", "", _EXISTS),
        Edited({"prompts/override.txt": V2}),
        names=("prompts/override.txt",),
        answers="v2",
        unseen="nothing is opened: no hook is told that somebody looked",
    ),
    again(
        "an override that is deleted",
        reading("override()", "", OVERRIDE),
        Deleted(("prompts/override.txt",)),
        files={"prompts/override.txt": V1},
        names=("prompts/override.txt",),
        answers="default",
    ),
    again(
        "an override that is looked for, and deleted",
        reading("override()", "", _EXISTS),
        Deleted(("prompts/override.txt",)),
        files={"prompts/override.txt": V1},
        names=("prompts/override.txt",),
        answers="default",
    ),
    again(
        "a file that is moved away",
        reading("override()", "", OVERRIDE),
        Renamed("prompts/override.txt", "prompts/old/override.txt"),
        files={"prompts/override.txt": V1},
        names=("prompts/override.txt",),
        answers="default",
    ),
    again(
        "a folder in whose place there is a file",
        reading("override()", "", OVERRIDE.replace("FileNotFoundError", "OSError")),
        Special(lambda one: (one.path("prompts/override.txt").unlink(),
                             one.path("prompts/override.txt").mkdir())[1]),
        files={"prompts/override.txt": V1},
        names=("prompts/override.txt",),
        answers="default",
    ),
    again(
        "one more file in a folder of which all are read",
        reading('"".join(one.read_text() for one in sorted(Path("shots").glob("*.txt")))'),
        Edited({"shots/2.txt": V2}),
        files={"shots/1.txt": V1},
        names=("shots",),
        answers="v2",
    ),
    again(
        "one file less in a folder of which all are read",
        reading('"".join(one.read_text() for one in sorted(Path("shots").glob("*.txt")))'),
        Deleted(("shots/2.txt",)),
        files={"shots/1.txt": V1, "shots/2.txt": V2},
        names=("shots/2.txt",),
    ),
    again(
        "two files that change places",
        reading('Path("styles/x.txt").read_text() + Path("styles/y.txt").read_text()'),
        Edited({"styles/x.txt": V2, "styles/y.txt": V1}),
        files={"styles/x.txt": V1, "styles/y.txt": V2},
        names=("styles/x.txt", "styles/y.txt"),
    ),
    again("a file that is emptied", READ, Edited({PROMPT: ""})),
    again("other content of the same size and time", READ, EditedInSecret(PROMPT, V2)),
    again("one line end more", READ, Edited({PROMPT: V1 + "\n"})),
    again("a file that is replaced by a folder's new one", READ,
          Special(lambda one: (one.write({"new.txt": V2}),
                               one.path("new.txt").replace(one.path(PROMPT)))[0])),
    again(
        "through a link whose target is edited",
        READ.replace("answer.txt", "current.txt"),
        Edited({"prompts/v1.txt": V2}),
        files={"prompts/v1.txt": V1, "prompts/current.txt": ""},
        names=("prompts/",),
        answers="v2",
    ),
    again(
        "through a link that leads elsewhere from now on",
        READ.replace("answer.txt", "current.txt"),
        Linked("prompts/current.txt", "v2.txt"),
        files={"prompts/v1.txt": V1, "prompts/v2.txt": V2},
        names=("prompts/current.txt",),
        answers="v2",
    ),
    again(
        "through a linked folder that leads elsewhere from now on",
        reading('Path("current/answer.txt").read_text()'),
        Linked("current", "new"),
        files={"old/answer.txt": V1, "new/answer.txt": V2},
        names=("answer.txt",),
        answers="v2",
    ),
    again(
        "through a link to a file outside of the project",
        READ.replace("answer.txt", "shared.txt"),
        Edited({"aside:shared.txt": V2}),
        files={"aside:shared.txt": V1},
        names=("prompts/shared.txt",),
        answers="v2",
    ),
    again(
        "by another name of the project's folder",
        reading(f'Path(aside("link"), "{PROMPT}").read_text()'),
        answers="v2",
    ),
]  # fmt: skip


def linked_first(case: Case, name: str, target: str) -> Case:
    """Return a case that begins with a link."""
    return Case(case.name, case.files, (Linked(name, target), *case.steps), case.unseen)


LINKS = {
    "through a link whose target is edited": ("prompts/current.txt", "v1.txt"),
    "through a link that leads elsewhere from now on": ("prompts/current.txt", "v1.txt"),
    "through a linked folder that leads elsewhere from now on": ("current", "old"),
    "through a link to a file outside of the project": ("prompts/shared.txt", "aside:shared.txt"),
    "by another name of the project's folder": ("aside:link", "aside:../project"),
}
COMING = [linked_first(one, *LINKS[one.name]) if one.name in LINKS else one for one in COMING]
REDO = Run((*RUN, "--redo"), calls=ALL)


def written(name: str, before: str, *steps: Callable, **more: Any) -> Case:
    """Return a case of a file that the workflow writes, too: it runs once, also after a redo."""
    app = reading("use(question)", "import os, json", before)
    rest = steps or (Run(), REDO, Run())
    return stepwise(name, app, Run(calls=ALL), *rest, **more)


WRITTEN = [
    written("a counter that each call reads and writes", """
        def use(name):
            path = Path("count")
            count = int(path.read_text()) if path.exists() else 0
            path.write_text(str(count + 1))
        """),
    written("a cache in a file that is read first", """
        def use(name):
            path = Path("cache.json")
            try:
                held = json.loads(path.read_text())
            except FileNotFoundError:
                held = {}
            held[name] = len(held)
            path.write_text(json.dumps(held))
        """),
    written("a file that is replaced by one that was renamed", """
        def use(name):
            path, new = Path("state.txt"), Path("state.tmp")
            text = path.read_text() if path.exists() else ""
            new.write_text(text + name)
            new.replace(path)
        """),
    written("a log that is appended and read", """
        def use(name):
            with open("app.log", "a") as log:
                log.write(name)
            return len(Path("app.log").read_text()) > 0
        """),
    written("a file open for both", """
        def use(name):
            with open("both.txt", "a+") as file:
                file.seek(0)
                file.read()
                file.write(name)
        """),
    written("a file open for both by os.open", """
        def use(name):
            number = os.open("both.txt", os.O_RDWR | os.O_CREAT)
            os.read(number, 99)
            os.write(number, name.encode())
            os.close(number)
        """),
    written("a log that logging writes from the import on", """
        import logging

        logging.basicConfig(filename="app.log", level="INFO", force=True)

        def use(name):
            logging.getLogger("app").info("asked %s", name)
            return len(Path("app.log").read_text()) > 0
        """),
    written("a file that the first call writes and all others read", """
        def use(name):
            path = Path("built.txt")
            if not path.exists():
                path.write_text(str(os.getpid()))
            return path.read_text() != ""
        """, Run(), Edited({"built.txt": "other"}), Run()),
    written("a cache of answers, which a redo only reads, is deleted", """
        def use(name):
            path = Path("cache", name)
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.write_text(name)
            return path.read_text()
        """, Run(), REDO, Run(), Deleted(("cache",)), Run()),
    written("a temporary file with a new name each time", """
        import tempfile

        def use(name):
            with tempfile.NamedTemporaryFile("w+", dir=".", suffix=".txt") as file:
                file.write(name)
                file.flush()
                return Path(file.name).read_text()
        """),
    written("a folder of its own for each call, which is removed", """
        import tempfile

        def use(name):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                path = Path(folder, "a.txt")
                path.write_text(name)
                return path.read_text()
        """),
    written("a scratch file of a child process", """
        import subprocess, sys, uuid

        def use(name):
            path = f"scratch-{uuid.uuid4().hex}.txt"
            subprocess.run(["cp", "prompts/answer.txt", path], check=True)
            text = Path(path).read_text()
            os.unlink(path)
            return text
        """),
    Case(
        "a file that the script writes before each run is an input",
        project(READ, {"script.py": SCRIPT.replace(
            "import limpet",
            "import limpet\nfrom pathlib import Path\n"
            'Path("prompts/answer.txt").write_text(Path("source.txt").read_text())\n',
        ), "source.txt": V1}),
        (
            Run(PYTHON, calls=ALL),
            Run(PYTHON),
            Edited({"source.txt": V2}),
            Run(PYTHON, asks=(PROMPT,)),
            Run((*PYTHON, "redo"), calls=ALL, answers="v2"),
            Run(PYTHON),
        ),
    ),
    Case(
        "two runs in one process, which edits a file in between",
        project(READ, {"script.py": """
import limpet
from pathlib import Path

for text in ("v1 of it", "v1 of it", "v2 of it"):
    Path("prompts/answer.txt").write_text(text)
    try:
        limpet.evaluate("rows.jsonl", "app:answer", [], run="runs/trial", pace=1)
    except limpet.FunctionChangedError as error:
        print("FunctionChangedError:", error)
"""}),
        (Run(PYTHON, calls=ALL, asks=("FunctionChangedError", PROMPT), code=0),),
    ),
    Case(
        "a redo in the process whose cache has the text of before: the next one does it again",
        project(reading('prompt("answer.txt")', "import functools", _LRU), {"script.py": """
import sys
import limpet
from pathlib import Path

def run(**more):
    limpet.evaluate("rows.jsonl", "app:answer", [], run="runs/trial", pace=1, **more)

run()
if sys.argv[1:]:
    Path("prompts/answer.txt").write_text("v2 of it")
    run(on_change="redo")
"""}),
        (
            Run((*PYTHON, "edit"), calls=ALL, may=ALL, answers="v1"),
            Run(PYTHON, calls=ALL, stands="v2"),
        ),
    ),
]  # fmt: skip


# ---- what does not count ------------------------------------------------------------------------

_VENV = ".venv/lib/python3.11/site-packages"
SECRETS = {
    ".env": "",
    ".env.local": "",
    "credentials.json": "",
    "id_rsa": "",
    "keys/server.pem": "",
    "keys/server.key": "which names are secrets'? Nothing else ends so",
    "config/secrets.yaml": "which names are secrets'? Most such files hold some",
    "api_key.txt": "which names are secrets'? In code, api_key is one",
}


_IN_SRC = reading(
    f'(ROOT / "{PROMPT}").read_text()', "import os",
    'ROOT = Path(__file__).parent\nDATA = {"at": str(ROOT / "x"), "runs": os.path.abspath(ROOT)}',
).replace("text =", "DATA; text =")  # fmt: skip
_ABOVE = ("limpet", "run", "project/eval.yml")


def unseen(name: str, expression: str, edit: Callable, imports: str = "", **more: Any) -> Case:
    """Return a case in which something is read in each call that does not count."""
    return kept(name, reading(expression, imports), edit, **more)


LEFT_OUT = [
    kept("nothing at all is edited", READ, nothing),
    kept("the same content with another time and inode", READ, Touched(PROMPT)),
    kept("edited and edited back", READ, Special(lambda one: (
        one.write({PROMPT: V2}), one.write({PROMPT: V1}))[0])),
    kept("another mode", READ, Special(lambda one: one.path(PROMPT).chmod(0o600))),
    kept("a file that nobody read", READ, Edited({"prompts/other.txt": V2})),
    kept("a link to the same content", READ, Special(lambda one: (
        one.path(PROMPT).rename(one.path("prompts/real.txt")),
        one.path(PROMPT).symlink_to("real.txt"))[1])),
    kept("the project in another folder", reading(
        f'Path("{PROMPT}").read_text() + (Path(__file__).parent / "{PROMPT}").read_text()'),
        Moved()),
    stepwise(
        "started above the project's folder, in it, and above it again",
        _IN_SRC,
        Run(_ABOVE, calls=ALL, cwd=".."), Run(), Run(_ABOVE, cwd=".."), EDIT, Run(asks=(PROMPT,)),
        files={"pyproject.toml": ""},
    ),
    stepwise(
        "a copy of the project in another folder, then an edit there",
        reading(f'Path("{PROMPT}").absolute().read_text()'),
        Run(calls=ALL), Moved(copied=True), Run(), EDIT, Run(asks=(PROMPT,)),
        Run((*RUN, "--redo"), calls=ALL, answers="v2"), Run(),
    ),
    stepwise(
        "a copy of the project in another folder, and an edit where it was",
        reading(f'Path("{PROMPT}").absolute().read_text()'),
        Run(calls=ALL),
        Special(lambda one: (Moved(copied=True)(one), (
            one.folder.parent.parent / "project" / PROMPT).write_text(V2))[0]),
        Run(),
    ),
    unseen("the dataset, which the workflow reads itself",
           'len(Path("rows.jsonl").read_text()) * 0',
           Edited({"rows.jsonl": ROWS.replace(' "answer": "a"', ' "answer":  "a"')})),
    stepwise(
        "one more row in a dataset that the workflow reads itself",
        reading('len(Path("rows.jsonl").read_text())'),
        Run(calls=ALL),
        Edited({"rows.jsonl": ROWS + '{"id": "e", "question": "e", "answer": "e"}\n'}),
        Run(calls="e"),
    ),
    stepwise(
        "what the function that makes the rows reads",
        READ + "\ndef rows():\n    import json\n    text = Path('raw.json').read_text()\n"
        "    return [{'id': one, 'question': one} for one in json.loads(text)]\n",
        Run(calls="ab"), Edited({"raw.json": '["a", "b", "c"]'}), Run(calls="c"),
        files={"raw.json": '["a", "b"]',
               "eval.yml": EVAL.replace("dataset: rows.jsonl", "dataset: {python: app:rows}")},
    ),
    kept("eval.yml: another pace", READ,
         Edited({"eval.yml": EVAL.replace("pace: 1", "pace: 2")})),
    again("eval.yml, which the workflow reads itself",
          reading('len(Path("eval.yml").read_text()) * "v"'),
          Edited({"eval.yml": EVAL + "retry: 3\n"}), names=("eval.yml",)),
    unseen("the run's directory", 'sum(1 for one in Path("runs").rglob("*.json*") '
           "if one.read_bytes()) * 0", nothing),
    unseen("the result of another run", 'Path("runs/other/summary.json").read_text()',
           nothing, files={"runs/other/summary.json": V1}),
    again("the result of another run that changes",
          reading('Path("runs/other/summary.json").read_text()'),
          Edited({"runs/other/summary.json": V2}),
          files={"runs/other/summary.json": V1}, names=("runs/other/summary.json",)),
    *(
        Case(
            f"a secret: {name}",
            project(reading(f'len(Path("{name}").read_text()) * 0'), {name: "hunter2-hunter2"}),
            (Run(calls=ALL, unsaid=("hunter2-hunter2",)), Edited({name: "correct-horse-9"}),
             Run(unsaid=("hunter2-hunter2", "correct-horse-9"))),
        )
        for name in SECRETS
    ),
    unseen(".git", 'Path(".git/HEAD").read_text()', Edited({".git/HEAD": V2}),
           files={".git/HEAD": V1, ".git/config": ""}),
    unseen("a data file of a package in the project's virtual environment", "kit.tone()",
           Edited({f"{_VENV}/kit/tone.txt": V2}), f"import sys\nsys.path.insert(0, '{_VENV}')\n"
           "import kit",
           files={f"{_VENV}/kit/tone.txt": V1, ".venv/pyvenv.cfg": "home = /usr/bin\n",
                  f"{_VENV}/kit/__init__.py": "from pathlib import Path\ndef tone():\n"
                  "    return Path(__file__).with_name('tone.txt').read_text()\n"}),
    unseen("a file outside of the project", 'Path(aside("tone.txt")).read_text()',
           Edited({"aside:tone.txt": V2}), files={"aside:tone.txt": V1}),
    unseen("a file outside of the project, by dots", 'Path("../aside/tone.txt").read_text()',
           Edited({"aside:tone.txt": V2}), files={"aside:tone.txt": V1}),
    unseen("a folder whose name begins like the project's",
           'Path("../project-2/tone.txt").read_text()',
           Edited({"aside:../project-2/tone.txt": V2}), files={"aside:../project-2/tone.txt": V1}),
    unseen("files of the system", 'len(Path("/etc/hosts").read_text()) * 0', nothing),
    unseen("a module whose bytecode is thrown away", "helper.TONE",
           Special(lambda one: [cache.unlink() for cache in one.folder.rglob("*.pyc")] and None),
           "import helper", files={"helper.py": "TONE = 'x'\n"}),
    unseen("a comment in a module that the first call imports", "late()",
           Edited({"tone.py": "# a comment\nTONE = 'x'\n"}),
           "def late():\n    import tone\n    return tone.TONE",
           files={"tone.py": "TONE = 'x'\n"}),
    unseen("a comment in a plugin that is imported under a computed name",
           'importlib.import_module("plug" + "in").TONE',
           Edited({"plugin.py": "# a comment\nTONE = 'x'\n"}), "import importlib",
           files={"plugin.py": "TONE = 'x'\n"}),
    kept("a comment in plugins that a function loads at import, in a worker", reading(
        "PLUGINS[0].TONE", "from core.loading import importlib", """
        PLUGINS = []
        def load(name):
            PLUGINS.append(importlib.import_module("plugins." + name))
        load("formal")
        """), Edited({"plugins/formal.py": "TONE = 'x'  # formal\n"}),
         files={**_LOADER, "plugins/formal.py": "TONE = 'x'\n", "plugins/__init__.py": ""},
         words=(*RUN, "--engine", "processes"), slow=True),
    kept("plugins in a listed folder, whose bytecode the run writes", reading(
        "PLUGINS()", "import importlib, os", """
        def PLUGINS():
            names = [one[:-3] for one in sorted(os.listdir("plugins")) if one.endswith(".py")]
            return [importlib.import_module("plugins." + name).TONE for name in names]
        """), nothing, files={"plugins/formal.py": "TONE = 'x'\n"}),
    kept("a comment in a source that a traceback has shown", reading(
        "shown()", "import traceback", """
        def shown():
            try:
                1 / 0
            except ZeroDivisionError:
                return len(traceback.format_exc()) > 0
        """), Special(lambda one: one.write(
            {"app.py": one.path("app.py").read_text() + "\n# the end\n"}))),
    kept("what a hook of the caller reads", READ, Edited({"notes.txt": V2}),
         files={"notes.txt": V1, "script.py": SCRIPT.replace(
             "on_change=", "watcher=lambda _: open('notes.txt').close(), on_change=")},
         words=PYTHON),
    kept("what the script itself reads", READ, Edited({"notes.txt": V2}),
         files={"notes.txt": V1, "script.py": "print(open('notes.txt').read())\n" + SCRIPT
                + "\nprint(open('notes.txt').read())\n"}, words=PYTHON),
    kept("a version that is declared, at the command line", READ, files={
        "eval.yml": EVAL.replace("app:answer", '{python: "app:answer", version: "1"}')}),
    kept("a version that is declared, in Python", READ, files={
        "script.py": SCRIPT.replace("[],", '[], version="1",')}, words=PYTHON),
    kept("a version that is declared, in limpet.map", READ, files={
        "script.py": MAP.replace('"abcd",', '"abcd", version="1",')}, words=PYTHON),
    kept("what a child process reads is not seen", reading(
        'subprocess.run(["cat", "prompts/answer.txt"], capture_output=True).stdout',
        "import subprocess")),
    kept("what a process of a pool reads is not seen", reading(
        "pooled()", "import concurrent.futures, multiprocessing", """
        def read():
            return Path("prompts/answer.txt").read_text()

        def pooled():
            fork = multiprocessing.get_context("fork")
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=fork) as pool:
                return pool.submit(read).result()
        """)),
    kept("a file of which only size and time are asked", reading(
        f'os.stat("{PROMPT}").st_mode', "import os")),
]  # fmt: skip


# ---- sessions -----------------------------------------------------------------------------------


def halting(expression: str, imports: str = "", before: str = "") -> str:
    """Return an app whose workflow halts at item c, before it reads, if somebody waits for that."""
    app = reading(expression, imports, before)
    return app.replace("    text = ", '    if question == "c":\n        wait_at("c")\n    text = ')


HALTING = halting(_READ)
HALTING_LRU = halting('prompt("answer.txt")', "import functools", _LRU)
HALTING_OWN = halting('Path(f"docs/{question}.txt").read_text()')
KILL = Meanwhile("c", done=2)
KILLED = Run(calls="abc", meanwhile=KILL)
KEEP = (*RUN, "--keep")
REDONE = Run((*RUN, "--redo"), calls=ALL, stands="v2")
ASKS = Run(asks=(PROMPT,))
_FEW = {"eval.yml": EVAL + "retry: 0\n"}

SESSIONS = [
    stepwise("killed, and it goes on", HALTING, KILLED, Run(calls="cd"), Run()),
    stepwise("killed, then edited", HALTING, KILLED, EDIT, ASKS, REDONE, Run()),
    stepwise("killed, then edited: what the first call read for all",
             HALTING_LRU, KILLED, EDIT, ASKS, REDONE, Run()),
    stepwise("killed, then edited, and kept: it is said that answers of two versions stand there",
             HALTING, KILLED, EDIT, Run(KEEP, calls="cd", said=("the current version",)), Run()),
    stepwise("killed, gone on, then edited: both halves", HALTING_LRU,
             KILLED, Run(calls="cd"), EDIT, ASKS, REDONE, Run()),
    stepwise("killed, then the file of an item that was not done is edited", HALTING_OWN,
             KILLED, Edited({"docs/c.txt": V2, "docs/d.txt": V2}), Run(calls="cd", answers="v2"),
             Run(), files=PARTS),
    stepwise("killed, then the file of an item that was done is edited", HALTING_OWN,
             Run(PYTHON, calls="abc", meanwhile=KILL), Edited({"docs/b.txt": V2}),
             Run(PYTHON, asks=("docs/b.txt",)),
             Run((*PYTHON, "redo"), calls="bcd"), Run(PYTHON), files=PARTS),
    stepwise("killed in limpet.map, then edited", HALTING,
             Run(PYTHON, calls="abc", meanwhile=Meanwhile("c", done=2)), EDIT,
             Run(PYTHON, asks=(PROMPT,)), Run((*PYTHON, "redo"), calls=ALL), Run(PYTHON),
             files={"script.py": MAP.replace("out.jsonl", "runs/m/workflow_output.jsonl").replace(
                 "import sys", "import os, sys\nos.makedirs('runs/m', exist_ok=True)")}),
    stepwise("edited while the run goes on: those before the edit", HALTING,
             Run(PYTHON, calls=ALL, meanwhile=Meanwhile("c", 2, EDIT)),
             Run(PYTHON, asks=(PROMPT,)), Run((*PYTHON, "redo"), calls="ab", stands="v2"),
             Run(PYTHON)),
    stepwise("edited while the run goes on, and edited back: those in between", HALTING,
             Run(PYTHON, calls=ALL, meanwhile=Meanwhile("c", 2, EDIT)), Edited({PROMPT: V1}),
             Run(PYTHON, asks=(PROMPT,)), Run((*PYTHON, "redo"), calls="cd", stands="v1"),
             Run(PYTHON)),
    stepwise("edited while the run goes on, which has read it before: all", HALTING_LRU,
             Run(calls=ALL, meanwhile=Meanwhile("c", 2, EDIT), stands="v1"), ASKS, REDONE, Run()),
    stepwise(
        "edited while a run with on_change=keep goes on: nobody has decided about that",
        HALTING,
        Run((*PYTHON, "keep"), calls=ALL, meanwhile=Meanwhile("c", 2, EDIT)),
        Run(PYTHON, asks=(PROMPT,)),
    ),
    stepwise("kept, and the next run does not ask again", READ,
             Run(calls=ALL), EDIT, ASKS, Run(KEEP), Run(), Run()),
    stepwise("kept, and edited again", READ,
             Run(calls=ALL), EDIT, Run(KEEP), Edited({PROMPT: V3}), ASKS,
             Run((*RUN, "--redo"), calls=ALL, stands="v3"), Run()),
    stepwise("kept, and edited back", READ,
             Run(calls=ALL), EDIT, Run(KEEP), Edited({PROMPT: V1}), Run(stands="v1")),
    stepwise("kept, and another file is edited", reading(
        f'{_READ} + Path("prompts/b.txt").read_text()'),
             Run(calls=ALL), EDIT, Run(KEEP), Edited({"prompts/b.txt": V2}),
             Run(asks=("prompts/b.txt",)), files={"prompts/b.txt": V1}),
    stepwise("kept, one more row, and edited back: the new row's answer is of another version",
             READ, Run(PYTHON, calls=ALL), EDIT,
             Edited({"rows.jsonl": ROWS + '{"id": "e", "question": "e"}\n'}),
             Run(PYTHON, asks=(PROMPT,)), Run((*PYTHON, "keep"), calls="e"), Run(PYTHON),
             Edited({PROMPT: V1}), Run(PYTHON, asks=(PROMPT,)),
             Run((*PYTHON, "redo"), calls="e", stands="v1"), Run(PYTHON)),
    stepwise("run again, and edited back", READ,
             Run(calls=ALL), EDIT, REDONE, Edited({PROMPT: V1}), ASKS,
             Run((*RUN, "--redo"), calls=ALL, stands="v1"), Run()),
    stepwise("a redo that is killed goes on without asking", HALTING,
             Run(calls=ALL), EDIT,
             Run((*RUN, "--redo"), calls="abc", meanwhile=Meanwhile("c", done=6)),
             Run(calls="cd", stands="v2"), Run()),
    stepwise("a redo that is killed, and one more edit: it asks", HALTING,
             Run(calls=ALL), EDIT,
             Run((*RUN, "--redo"), calls="abc", meanwhile=Meanwhile("c", done=6)),
             Edited({PROMPT: V3}), ASKS),
    stepwise("on_change=redo that is killed: the next one pays for nothing twice",
             HALTING, Run(PYTHON, calls=ALL), EDIT,
             Run((*PYTHON, "redo"), calls="abc", meanwhile=Meanwhile("c", done=6)),
             Run((*PYTHON, "redo"), calls="cd", stands="v2"), Run(PYTHON)),
    stepwise("on_change=keep", READ, Run(PYTHON, calls=ALL), EDIT, Run((*PYTHON, "keep")),
             Run(PYTHON)),
    stepwise("on_change=keep in limpet.map", READ, Run(PYTHON, calls=ALL), EDIT,
             Run(PYTHON, asks=(PROMPT,)), Run((*PYTHON, "keep")), Run(PYTHON),
             files={"script.py": MAP}),
    stepwise("on_change=redo when nothing changed", READ, Run(PYTHON, calls=ALL),
             Run((*PYTHON, "redo"))),
    stepwise("--redo when nothing changed, then an edit", READ, Run(calls=ALL),
             Run((*RUN, "--redo"), calls=ALL), Run(), EDIT, ASKS),
    stepwise("first with a limit, then whole, then edited", HALTING_LRU,
             Run((*RUN, "--limit", "2"), calls="ab"), Run(calls="cd"), EDIT, ASKS, REDONE, Run()),
    stepwise("first with a limit, then edited, then whole", READ,
             Run((*RUN, "--limit", "2"), calls="ab"), EDIT, ASKS, Run(KEEP, calls="cd"), Run()),
    stepwise("the file of an item that a limit leaves out is edited", OWN, Run(calls=ALL),
             Edited({"docs/d.txt": V2}), Run((*RUN, "--limit", "2")), Run(asks=("docs/d.txt",)),
             files=PARTS),
    stepwise("the file of an item whose row is gone is edited", OWN, Run(calls=ALL),
             Edited({"docs/d.txt": V2, "rows.jsonl": "".join(ROWS.splitlines(keepends=True)[:3])}),
             Run(), files=PARTS),
    stepwise("an edited row reads an edited file: nobody need be asked", OWN.replace(
        "{question}", "{question[0]}").replace("note(question)", "note(question[0])"),
             Run(calls=ALL),
             Edited({"docs/d.txt": V2,
                     "rows.jsonl": ROWS.replace('"question": "d"', '"question": "d?"')}),
             Run(calls="d", stands="of it"), Run(), files=PARTS),
    stepwise("--redo-item of the one item whose file is edited", OWN, Run(calls=ALL),
             Edited({"docs/c.txt": V2}), Run((*RUN, "--redo-item", "c"), calls="c", answers="v2"),
             Run(), files=PARTS),
    stepwise("more than one trial", HALTING_LRU, Run(calls=ALL * 2), EDIT, ASKS,
             Run((*RUN, "--redo"), calls=ALL * 2, stands="v2"), Run(),
             files={"eval.yml": EVAL + "trials: 2\n"}),
    stepwise("more than one trial, with a file for each item", OWN, Run(PYTHON, calls=ALL * 2),
             Edited({"docs/c.txt": V2}), Run(PYTHON, asks=("docs/c.txt",)),
             Run((*PYTHON, "redo"), calls="cc"), Run(PYTHON),
             files={**PARTS, "script.py": SCRIPT.replace("[],", "[], trials=2,")}),
    stepwise("one more trial after an edit", READ, Run(calls=ALL), EDIT,
             Run((*RUN, "--trials", "2"), asks=(PROMPT,)),
             Run((*KEEP, "--trials", "2"), calls=ALL)),
    stepwise("a file that only an item which failed has read is mended", OWN,
             Run(calls=ALL, code=1), Edited({"docs/b.txt": V2}), Run(calls="b", answers="v2"),
             Run(), files={**_FEW, "docs/a.txt": V1, "docs/c.txt": V1, "docs/d.txt": V1}),
    stepwise("a file that all items miss is made", reading('Path("late.txt").read_text()'),
             Run(calls=ALL, code=1), Edited({"late.txt": V2}), Run(calls=ALL, answers="v2"), Run(),
             files=_FEW),
    stepwise("a file that makes one item fail is mended, which others have read",
             reading(f'str(1 // (question != "b" or {_READ} != "{V1}")) + {_READ}'),
             Run(calls=ALL, code=1), EDIT, ASKS, Run(KEEP, calls="b", answers="v2"), Run(),
             files=_FEW),
    stepwise("a row more, read with the same file", HALTING_LRU, Run(calls=ALL),
             Edited({"rows.jsonl": ROWS + '{"id": "e", "question": "e"}\n'}), Run(calls="e"),
             EDIT, ASKS, Run((*RUN, "--redo"), calls=ALL + "e", stands="v2"), Run()),
    stepwise("the row of the item that has read a file for all is gone", HALTING_LRU,
             Run(calls=ALL), Edited({"rows.jsonl": "".join(ROWS.splitlines(keepends=True)[1:])}),
             Run(), EDIT, ASKS, Run((*RUN, "--redo"), calls="bcd", answers="v2"), Run()),
    stepwise("the item that has read a file for all has failed", HALTING_LRU.replace(
        "    return f", '    if question == "a" and text == "v1 of it":\n        raise ValueError\n'
        "    return f"), Run(calls=ALL, code=1), EDIT, ASKS, REDONE, Run(), files=_FEW),
    stepwise("one item is run again after an edit, the others are kept", READ, Run(calls=ALL),
             EDIT, Run((*KEEP, "--redo-item", "b"), calls="b", answers="v2"), Run()),
    stepwise("code and a file are edited at once: both are named", READ, Run(calls=ALL),
             Special(lambda one: one.write({PROMPT: V2, "app.py": READ.replace(
                 "return f", "SUFFIX = 1\n    return f")})),
             Run(asks=(PROMPT, "answer")), REDONE, Run()),
    stepwise("code is edited so that it reads another file: the one before counts no more",
             READ, Run(calls=ALL),
             Edited({"app.py": READ.replace("answer.txt", "new.txt"), "prompts/new.txt": V2}),
             Run((*RUN, "--redo"), calls=ALL, stands="v2"), Edited({PROMPT: V3}), Run()),
    stepwise("a file that is declared and read", READ, Run(calls=ALL), EDIT, ASKS, REDONE, Run(),
             files={"eval.yml": EVAL.replace(
                 "app:answer", "{python: app:answer, depends_on: {files: ['prompts/*']}}")}),
    stepwise("a plan after an edit names the file, and does nothing", READ,
             Run(calls=ALL), EDIT, Run((*RUN, "--plan"), said=(PROMPT, "4 calls of workflow")),
             ASKS),
    again("real processes, at the command line", HALTING_LRU, answers="v2",
          words=("new", *RUN), slow=True),
    again("real processes, as a script", HALTING_LRU, answers="v2", words=("new", *PYTHON),
          slow=True),
]  # fmt: skip


# ---- odd files and odd code ---------------------------------------------------------------------

LONG = "prompts/" + "x" * 250 + ".md"


def sparse(one: Project) -> None:
    with one.path("big.bin").open("wb") as file:
        file.write(b"v1 of it")
        file.truncate(200 * 1024 * 1024)


def last_byte(one: Project) -> None:
    with one.path("big.bin").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")


def named(name: str | bytes, kind: str, says: str, **more: Any) -> Case:
    """Return a case of a file with an odd name."""
    path = os.fsencode(name)
    return again(
        f"a name with {kind}",
        reading(f"open({path!r}).read()"),
        Edited({path: V2}),
        files={path: V1},
        names=(says,),
        **more,
    )


ODD_FILES = [
    named("prompts/two\nlines.txt", "a line end", "two"),
    named("prompts/\x1b[31mred\x07.txt", "escape sequences", "red"),
    named(b"prompts/caf\xe9.txt", "bytes that are no UTF-8", "caf"),
    named("prompts/🐚 limpet.txt", "an emoji and a blank", "🐚 limpet.txt"),
    named("prompts/[red]x[/red].txt", "markup", "prompts/[red]x[/red].txt"),
    named("prompts/{0}%s$HOME.txt", "placeholders", "prompts/{0}%s$HOME.txt"),
    named("-rf", "a dash first", "-rf"),
    named(LONG, "all the letters it may have", "xxxxxxxxxxxx"),
    stepwise("escape sequences in a name do not reach the terminal",
             reading("open('prompts/\\x1b[31mred').read()"), Run(calls=ALL),
             Edited({"prompts/\x1b[31mred": V2}), Run(asks=("red",), unsaid=("\x1b",)),
             files={"prompts/\x1b[31mred": V1}),
    stepwise("a big file of which little is read",
             reading('open("big.bin", "rb").read(8)'), sparse, Run(calls=ALL), Run(), last_byte,
             Run(asks=("big.bin",)), slow=True),
    kept("a folder that is opened", reading('os.close(os.open("prompts", os.O_RDONLY))',
                                            "import os"), nothing),
    kept("a FIFO", reading("through()", "import os, subprocess", """
        def through():
            if not os.path.exists("pipe"):
                os.mkfifo("pipe")
            with subprocess.Popen("echo x > pipe", shell=True), open("pipe") as pipe:
                return pipe.read()
        """), nothing),
    stepwise("a link to a device", reading('len(open("noise", "rb", 0).read(4))'),
             Linked("noise", "/dev/urandom"), Run(calls=ALL), Run()),
    again("a file that may not be read any more", reading("override()", "", OVERRIDE.replace(
        "FileNotFoundError", "PermissionError")),
          Special(lambda one: one.path("prompts/override.txt").chmod(0)),
          files={"prompts/override.txt": V1}, names=("prompts/override.txt",),
          skip="root may read everything" if os.geteuid() == 0 else ""),
    stepwise("2,000 files that each item reads: one is named, and not all of them",
             reading('sum(len(one.read_text()) for one in sorted(Path("many").iterdir()))'),
             Run(calls="abc"), Run(), Edited({"many/1234": V2 + "!"}),
             Run(asks=("many/1234",)),
             Edited({f"many/{one}": V3 for one in range(2000)}),
             Run(asks=("many/",)),
             Special(lambda one: ["it says a lot"] if len(one.said) > 4000 else None),
             Run((*RUN, "--redo"), calls="abc"), Run(),
             files={**{f"many/{one}": V1 for one in range(2000)},
                    "rows.jsonl": "".join(ROWS.splitlines(keepends=True)[:3])}),
    again("a hot loop", reading(
        f'[Path("{PROMPT}").read_text() for _ in range(3000)][0]'), answers="v2"),
    kept("open is replaced by a test's stand-in", reading(
        "mocked()", "from unittest import mock", """
        def mocked():
            with mock.patch(f"{__name__}.open", mock.mock_open(read_data="x"), create=True):
                return open("prompts/answer.txt").read()
        """)),
    kept("a hook of the user's own that refuses to open", reading(
        "refused()", "import sys", """
        def refuse(event, given):
            if event == "open" and given[0] == "prompts/forbidden.txt":
                raise PermissionError("not this one")

        sys.addaudithook(refuse)

        def refused():
            try:
                return open("prompts/forbidden.txt").read()
            except PermissionError as error:
                return str(error)
        """), nothing, files={"prompts/forbidden.txt": V1}),
    stepwise("what open raises is what it raises without us", """
        import os
        from pathlib import Path
        from tally import note

        class Bad:
            def __fspath__(self):
                raise RuntimeError("no path")

        class Odd:
            def __fspath__(self):
                return 3

        TRIED = [
            lambda: open("nope.txt"),
            lambda: open("prompts/nope.txt", "rb"),
            lambda: open("prompts"),
            lambda: open("prompts/answer.txt/x"),
            lambda: open("nope/", "w"),
            lambda: open("a\\0b"),
            lambda: open("x" * 300),
            lambda: open(b"\\xff nope"),
            lambda: open("\\ud800nope"),
            lambda: open(["x"]),
            lambda: open(None),
            lambda: open(99999),
            lambda: open(-1),
            lambda: open(1.5),
            lambda: open("prompts/answer.txt", "q"),
            lambda: open("prompts/answer.txt", encoding="no-such"),
            lambda: open("prompts/answer.txt", opener=lambda *given: 1 / 0),
            lambda: open(Bad()),
            lambda: open(Odd()),
            lambda: os.open("nope.txt", os.O_RDONLY),
            lambda: os.open("prompts/answer.txt", os.O_RDONLY | os.O_DIRECTORY),
            lambda: os.open("answer.txt", os.O_RDONLY, dir_fd=99999),
            lambda: Path("nope.txt").read_text(),
            lambda: Path("prompts").read_text(),
        ]

        def errors():
            found = []
            for one in TRIED:
                try:
                    one()
                    found.append("no error")
                except Exception as error:
                    more = getattr(error, "errno", None), getattr(error, "filename", None)
                    frames, trace = 0, error.__traceback__
                    while trace:
                        frames, trace = frames + 1, trace.tb_next
                    found.append(repr((type(error), str(error), more, frames,
                                       error.__context__, getattr(error, "__notes__", ()))))
            return found

        def answer(question):
            note(question)
            return errors()
        """,
             Run(PYTHON, calls=ALL, said=("the same: True",)),
             files={"script.py": SCRIPT.replace(
                 "result =", "import app\nbare = app.errors()\nresult =")
                 + "\nprint('the same:', all(one.output.value == bare for one in result.items))\n"
                 "print(next(([x for x in zip(one.output.value, bare) if x[0] != x[1]] "
                 "for one in result.items), None))\n"}),
    Case(
        "an inbox whose files are deleted when they were read",
        project(reading('taken(Path("inbox", question))', "import os", """
            def taken(path):
                text = path.read_text()
                os.unlink(path)
                return text
            """), {f"inbox/{one}": V1 for one in ALL}),
        (Run(calls=ALL), Run()),
    ),
]  # fmt: skip

CASES = [
    *(replace(one, alike=True) for one in (*WAYS, *CACHES, *WRITTEN, *LEFT_OUT, *ODD_FILES)),
    *PLACES,
    *SOME,
    *EVALUATORS,
    *COMING,
    *SESSIONS,
]
