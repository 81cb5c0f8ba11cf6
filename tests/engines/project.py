"""A project of one module, run by any engine, and a look at the processes that it leaves behind.

The module notes each call in `calls.txt`, with the process that made it: calls are counted there
whoever makes them, and a test knows whom to kill.
"""

import collections
import contextlib
import importlib
import itertools
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest
from cut_short import ended
from e2e import ready_limpet

import limpet

ONE, WORKER, PROCESSES = "one", "worker", "processes"

# Other tests show in `make test` that it is so in one process. A second worker takes as long to
# start as the first: where it is not needed, `make test` has one, and `make test-all` several too.
SLOW_ONE, SLOW_PROCESSES = (
    pytest.param(engine, marks=pytest.mark.slow) for engine in (ONE, PROCESSES)
)
BOTH = [SLOW_ONE, WORKER, SLOW_PROCESSES]
both_engines = pytest.mark.parametrize("engine", BOTH)
several_workers = pytest.mark.parametrize("engine", [SLOW_ONE, PROCESSES])

PATIENCE_S = 100
_NUMBERS = itertools.count()

PRELUDE = '''
import asyncio
import ctypes
import os
import pathlib
import signal
import sys
import threading
import time

import limpet

HERE = pathlib.Path(__file__).parent


def record(item, step="workflow"):
    """One write: lines of several processes do not mix."""
    line = f"{step} {getattr(item, 'id', item)} {os.getpid()}\\n"
    file = os.open(HERE / "calls.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)


async def told(word="go"):
    """Wait until the test makes this file."""
    while not (HERE / word).exists():
        await asyncio.sleep(0.01)

'''


class Call(NamedTuple):
    """A call of a step, as its function recorded it."""

    step: str
    id: str
    pid: int


def chosen(engine):
    """Return the arguments of `evaluate` that choose an engine; none for one process."""
    if engine == ONE:
        return {}
    return {"engine": {"processes": 1} if engine == WORKER else engine}


class Project:
    """A folder with a module, rows and an eval.yml.

    Attributes:
        folder: The folder.
        module: The name of its module.
        mark: An environment variable that all processes of its commands have.
    """

    def __init__(self, folder, code, *, rows=6, workflow="answer", evaluators=None, more=""):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.module = f"engines_app_{os.getpid()}_{next(_NUMBERS)}"
        self.workflow = f"{self.module}:{workflow}"
        self.mark = f"limpet-test-{uuid.uuid4().hex}"
        self.rows = rows if isinstance(rows, list) else make_rows(rows)
        self.write_code(code)
        self.write_rows()
        self.write_config(evaluators or {"correct": "exact_match"}, more)

    # ---- its files ------------------------------------------------------------------------------

    def write_code(self, code):
        (self.folder / f"{self.module}.py").write_text(PRELUDE + code, encoding="utf-8")

    def edit_code(self, old, new):
        file = self.folder / f"{self.module}.py"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def write_rows(self):
        lines = [json.dumps(row) for row in self.rows]
        (self.folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def write_config(self, evaluators=None, more="", workflow=None):
        """Write eval.yml. `APP` in a value stands for the module."""
        config = {
            "name": "trial",
            "dataset": "rows.jsonl",
            "workflow": workflow or self.workflow,
            "run": {"path": "runs/trial", "durability": "flush"},
            "evaluators": evaluators or {},
        }
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items())
        text = (text + more).replace("APP", self.module)
        (self.folder / "eval.yml").write_text(text, encoding="utf-8")

    def tell(self, word="go"):
        (self.folder / word).touch()

    # ---- run it ---------------------------------------------------------------------------------

    def evaluate(self, engine=ONE, evaluators=(), run="trial", workflow=None, **options):
        """Evaluate in this process. `"APP:name"` among the evaluators is one of the module."""
        options = {"show": False, "retry": 0, "fail_fast": False} | chosen(engine) | options
        with self.importable():
            return ended(
                limpet.evaluate,
                self.folder / "rows.jsonl",
                self.workflow if workflow is None else workflow,
                {name: self.imported(one) for name, one in dict(evaluators).items()},
                run=limpet.Run(self.folder / "runs" / run, durability="flush"),
                **options,
            )

    def imported(self, thing):
        """Return what the module has under a name."""
        if not isinstance(thing, str) or not thing.startswith("APP:"):
            return thing
        with self.importable():
            return getattr(importlib.import_module(self.module), thing.removeprefix("APP:"))

    @contextlib.contextmanager
    def importable(self):
        """Make the module importable, here and for whom this process starts."""
        sys.path.insert(0, str(self.folder))
        try:
            with contextlib.chdir(self.folder):
                yield
        finally:
            sys.path.remove(str(self.folder))

    def words(self, *words, engine=ONE):
        options = {ONE: (), WORKER: ("--set", "engine.processes=1")}
        return ["run", *words, *options.get(engine, ("--engine", engine))]

    def run(self, *words, engine=ONE, env=None):
        """Run `limpet run`, and wait for its end."""
        return ready_limpet.run(
            self.words(*words, engine=engine), cwd=self.folder, env=self.environment(env)
        )

    def command(self, *words):
        """Run another command on the run; it has to end well."""
        done = ready_limpet.run([words[0], "runs/trial", *words[1:]], cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def started(self, *words, engine=ONE, env=None):
        """Start `limpet run` as the leader of a session, as a terminal would; end it at last."""
        process = ready_limpet.Popen(
            [sys.executable, "-m", "limpet", *self.words(*words, engine=engine)],
            cwd=self.folder, env=self.environment(env), start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            yield process
        finally:
            for pid in {process.pid, *self.left_over()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            process.communicate()

    def environment(self, more=None):
        return {**os.environ, "LIMPET_TEST_MARK": self.mark, **(more or {})}

    # ---- what happened --------------------------------------------------------------------------

    @property
    def path(self):
        return self.folder / "runs/trial"

    @property
    def result(self):
        return limpet.load_run(self.path)

    @property
    def calls(self):
        notes = self.folder / "calls.txt"
        lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
        return [Call(step, id_, int(pid)) for step, id_, pid in map(str.split, lines)]

    def counts(self, step="workflow"):
        return collections.Counter(call.id for call in self.calls if call.step == step)

    @property
    def pids(self):
        """Who made calls."""
        return {call.pid for call in self.calls}

    def forget_calls(self):
        (self.folder / "calls.txt").unlink(missing_ok=True)

    def records(self, file="workflow_output"):
        """Return the whole lines of a column, or of failures.jsonl."""
        column = self.path / f"{file}.jsonl"
        lines = column.read_text(encoding="utf-8").split("\n")[:-1] if column.exists() else []
        return [json.loads(line) for line in lines]

    def recorded(self, file="workflow_output"):
        return [record["_limpet"]["id"] for record in self.records(file)]

    def failures(self):
        """Return the class of what failed, by item: each of its attempts that is on disk."""
        return {one["_limpet"]["id"]: one["_limpet"]["class"] for one in self.records("failures")}

    def events(self):
        return self.records("events")

    @property
    def driver(self):
        """The process that wrote the last session."""
        return json.loads((self.path / "run.json").read_text())["sessions"][-1]["pid"]

    def left_over(self):
        """Return the processes that have this project's mark in their environment."""
        return marked(self.mark)


def make_rows(number):
    return [
        {"id": f"q{n}", "question": f"Say {n}", "answer": str(n), "note": "-"}
        for n in range(number)
    ]


# ---- processes ----------------------------------------------------------------------------------


def processes():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def environ(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def marked(mark):
    """Return the processes with this mark in their environment: the test's own, and no others."""
    return [pid for pid in processes() if f"LIMPET_TEST_MARK={mark}" in environ(pid)]


def stat(pid):
    """Return the state and the parent of a process; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def is_alive(pid):
    found = stat(pid)
    return found is not None and found[0] != "Z"


def zombies_of(parent):
    return [pid for pid in processes() if stat(pid) == ("Z", parent)]


def shared_memory():
    """Return what multiprocessing and others leave in memory when they forget it."""
    names = {entry.name for entry in Path("/dev/shm").iterdir()}  # noqa: S108
    return {name for name in names if not name.startswith("pytest-of-")}


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Wait for something that must come; how long it takes is not under test."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.01)
    return found


def plain(thing):
    """Return a result as text without times and hosts: only computed values may differ."""
    return json.dumps(without(thing), sort_keys=True, default=repr)


TIMES = {
    "seconds", "at", "quantiles", "began", "ended", "pid", "_crc", "last_active", "lasted_s",
    "execution_seconds", "active", "retry_in",
}  # fmt: skip


def without(thing, names=TIMES):
    if isinstance(thing, dict):
        return {key: without(value, names) for key, value in thing.items() if key not in names}
    if isinstance(thing, (list, tuple)):
        return [without(one, names) for one in thing]
    return thing
