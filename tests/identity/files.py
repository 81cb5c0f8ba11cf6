"""The table of files that are read: after which edits must something run again, and what?

Each case is a small project and what happens to it, step by step: runs, with the calls that must
be made in them, and edits in between. A call is noted outside of the project's folder. `open` says
what the issue of a case is: there a user's expectation stands, and another answer may be right.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
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
early_stop: false
"""
SCORED = EVAL + "evaluators: {grade: app:grade}\n"
SCRIPT = """
import sys
import limpet

result = limpet.evaluate(
    "rows.jsonl", "app:answer", [], run="runs/trial", concurrency=1, early_stop=False,
    on_change=sys.argv[1] if sys.argv[1:] else None,
)
"""
MAP = """
import sys
import limpet
from app import answer

limpet.map(
    answer, "abcd", journal="out.jsonl", concurrency=1, disable_tqdm=True,
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
        open: What the issue leaves open; empty: it does not.
        slow: Whether it takes seconds.
        skip: Why it cannot be tried here.
    """

    name: str
    files: dict
    steps: tuple[Callable[[Project], list[str] | None], ...]
    open: str = ""
    slow: bool = False
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
    **more: Any,
) -> Case:
    """Return a case in which a run asks after an edit and, told so, calls for these items again.

    The question costs nothing, and after the redo nobody asks again. If only some items run again,
    or perhaps more, it is a script: `limpet run --redo` runs them all.
    """
    words = words if (calls, may) == (all_, "") or words != RUN else PYTHON
    redo = "--redo" if words[0] == "limpet" else "redo"
    return Case(
        name,
        project(app, files),
        (
            Run(words, calls=all_, cwd=cwd),
            edit,
            Run(words, asks=names, cwd=cwd),
            Run((*words, redo), calls=calls, may=may, answers=answers, cwd=cwd),
            Run(words, cwd=cwd),
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
        names=(path,),
        **more,
    )


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

    with sqlite3.connect(":memory:") as base:
        base.execute("create table x (tone text)")
        base.execute("insert into x values (?)", (text,))
        base.commit()
        return base.serialize()


WAYS = [
    way("open", f'open("{PROMPT}").read()'),
    way("open in binary", f'open("{PROMPT}", "rb").read()'),
    way("open by a path of bytes", f'open(b"{PROMPT}").read()'),
    way("open by a subclass of str", f'open(Name("{PROMPT}")).read()', "class Name(str): pass"),
    way("open with an opener of one's own", f'open("{PROMPT}", opener=os.open).read()', "import os"),
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
    way("gzip.open", 'gzip.open("a.gz", "rt").read()', "import gzip", path="a.gz", content=_gzipped),
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
        open="an audit hook is told a path without its folder",
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
        words=PYTHON,
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
        open="its name has a secret's word in it, but it is a prompt",
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
        open="a C library reads it, but an audit event has its name; a user would want it seen",
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
            "await asyncio.get_running_loop().run_in_executor("
            f'None, Path("{PROMPT}").read_text)',
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
        "import itertools\n"
        + CLASS.replace("FIRST", f"self.words = itertools.cycle([{_READ}])")
        .replace("SECOND", "pass")
        .replace("{self.text}", "{next(self.words)}"),
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
        reading("next(WORDS)", f"import itertools\nWORDS = itertools.cycle([{_READ}])"),
        answers="v2",
    ),
    again(
        "at import of a module that the first call imports",
        reading("late()", "", "def late():\n    import tone\n    return tone.shown()"),
        files={
            "tone.py": "import itertools\nfrom pathlib import Path\n"
            f"_WORDS = itertools.cycle([{_READ}])\ndef shown():\n    return next(_WORDS)\n"
        },
        answers="v2",
    ),
    again(
        "at import of a script's own module, into a global",
        reading("TEXT", f"TEXT = {_READ}"),
        files={"script.py": SCRIPT.replace('"app:answer"', "answer").replace(
            "import limpet", "import limpet\nfrom app import answer")},
        words=PYTHON,
        names=(),
        answers="v2",
    ),  # fmt: skip
    again(
        "at import of a script's own module, into something that shows no state",
        reading("next(WORDS)", f"import itertools\nWORDS = itertools.cycle([{_READ}])"),
        files={"script.py": SCRIPT.replace('"app:answer"', "answer").replace(
            "import limpet", "import limpet\nfrom app import answer")},
        words=PYTHON,
        answers="v2",
        open="the hook begins when a run begins, after the import",
    ),  # fmt: skip
    again(
        "a script with the workflow in it",
        files={"script.py": READ + SCRIPT.replace('"app:answer"', "answer")},
        words=PYTHON,
        answers="v2",
    ),
    again("limpet.map", files={"script.py": MAP}, words=PYTHON),
    again(
        "by a thread in the background that loads it again and again",
        reading("current()", "import threading, time", """
            HELD = {}

            def reload():
                while True:
                    HELD["text"] = Path("prompts/answer.txt").read_text()
                    time.sleep(0.005)

            def current():
                while "text" not in HELD:
                    time.sleep(0.005)
                return HELD["text"]

            threading.Thread(target=reload, daemon=True).start()
            """),
        answers="v2",
        open="it is read in no call, while the run goes on",
    ),  # fmt: skip
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
        open="is a script's project its own folder, or the one it is started in?",
    ),
]

CASES = [*WAYS, *PLACES]
