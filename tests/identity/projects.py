"""Play a case: run a small project, edit it, run it again, and look what was called."""

import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.exported import exported

PLAYER = Path(__file__).with_name("player.py")
PATIENCE_S = 40  # then it hangs

# What a project notes its calls with. It lies beside the project, like an installed package.
TALLY = '''
"""Note calls outside of the project's folder."""
import os
import time

def aside(name):
    return os.path.join(os.environ["ASIDE"], name)

def note(name, kind="call"):
    number = os.open(aside("tally"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(number, f"{kind} {name}\\n".encode())
    os.close(number)

def scored(name):
    note(name, "score")

def wait_at(name):
    """Wait until the case lets it go on; it goes by at once when nobody waits for it."""
    if not os.path.exists(aside("gate")):
        return
    note(name, "at")
    while os.path.exists(aside("gate")):
        time.sleep(0.005)
'''


class Players:
    """Two processes that run commands in turn, which differ in the seed of hashes."""

    def __init__(self) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, str(PLAYER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,  # so that `select` sees each line that was not read yet
                env={**os.environ, "PYTHONHASHSEED": seed},
            )
            for seed in ("1", "2")
        ]
        self._turns = itertools.cycle(self._processes)

    def close(self) -> None:
        for one in self._processes:
            one.communicate()

    def play(self, command: dict, meanwhile: Callable[[int], None]) -> int:
        """Run a command and return its exit code; `meanwhile` is given its process's id."""
        process = next(self._turns)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command).encode() + b"\n")
        child = int(process.stdout.readline())
        try:
            meanwhile(child)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            process.stdout.readline()  # else the next test would take it for its own
            raise
        if not select.select([process.stdout], [], [], PATIENCE_S)[0]:
            os.kill(child, signal.SIGKILL)
            process.stdout.readline()
            raise AssertionError("it hangs")
        return int(process.stdout.readline())


class Project:
    """A project's folder and what lies beside it."""

    def __init__(self, root: Path, players: Players) -> None:
        self.folder = root / "project"
        self.aside = root / "aside"
        self.said = ""
        self._players = players
        self._edits = 0
        packages = self.aside / "site-packages"
        packages.mkdir(parents=True)
        self.folder.mkdir()
        (packages / "tally.py").write_text(TALLY)
        known = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environment = {**known, "PYTHONPATH": str(packages), "ASIDE": str(self.aside)}

    def path(self, name: str | bytes) -> Path:
        """Return where a file is: `aside:` names one beside the project."""
        text = os.fsdecode(name)
        if text.startswith("aside:"):
            return self.aside / text.removeprefix("aside:")
        return self.folder / text

    def write(self, files: dict) -> None:
        """Write files, with a time that tells Python that a source is another one."""
        self._edits += 1
        for name, content in files.items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            if path.suffix == ".py":
                at = time.time() + self._edits
                os.utime(path, (at, at))

    def column(self) -> int:
        """Return how many answers are on disk."""
        return sum(one.read_bytes().count(b"\n") for one in self.folder.glob(
            "runs/*/workflow_output.jsonl"))  # fmt: skip

    def tally(self) -> dict[str, Counter]:
        """Return what was called since the last time, by kind."""
        noted: dict[str, Counter] = {"call": Counter(), "score": Counter(), "at": Counter()}
        path = self.aside / "tally"
        for line in path.read_text().splitlines() if path.exists() else ():
            kind, _, name = line.partition(" ")
            noted[kind][name] += 1
        path.unlink(missing_ok=True)
        return noted

    def run(self, words: tuple[str, ...], cwd: str, meanwhile: Callable[[int], None]) -> int:
        """Run a command in the project; what it says is in `said`."""
        stdout, stderr = self.aside / "stdout", self.aside / "stderr"
        stdout.write_bytes(b"")
        stderr.write_bytes(b"")
        folder = self.folder / cwd
        try:
            if words[0] == "new":
                return self._run_anew(words[1:], folder, stdout, stderr)
            return self._players.play(
                {
                    "folder": str(folder),
                    "words": words,
                    "environment": self.environment,
                    "stdout": str(stdout),
                    "stderr": str(stderr),
                },
                meanwhile,
            )
        finally:
            self.said = (stdout.read_bytes() + stderr.read_bytes()).decode(errors="replace")

    def _run_anew(self, words: tuple[str, ...], folder: Path, stdout: Path, stderr: Path) -> int:
        program = ["-m", "limpet", *words[1:]] if words[0] == "limpet" else words[1:]
        with stdout.open("wb") as out, stderr.open("wb") as err:
            return subprocess.run(
                [sys.executable, *program],
                cwd=folder,
                env=self.environment,
                stdout=out,
                stderr=err,
                timeout=PATIENCE_S,
                check=False,
            ).returncode


@dataclass(frozen=True)
class Meanwhile:
    """What happens while a run is going on, when an item has come to `wait_at`."""

    at: str
    done: int  # how many answers are on disk by then
    edit: Callable[[Project], None] | None = None  # None: kill -9


@dataclass(frozen=True)
class Run:
    """A run, and what must happen in it.

    Attributes:
        words: The command.
        calls: The items the workflow is called for, in any order, once for each letter.
        scores: The items that the evaluators score; None: not looked at.
        may: Items that may be called or scored too: what doubt costs.
        asks: None: it must not ask what to do about a change. Else it must, and say these texts.
        code: Its exit code, if it is not the usual one.
        said: Texts that it says.
        unsaid: Texts that it does not say, nor write into the run's directory.
        answers: A text that each answer of an item that must be called has in it.
        stands: A text that every answer of the run has in it by then.
        cwd: Where it is run, from the project's folder.
        meanwhile: What happens while it runs.
    """

    words: tuple[str, ...] = ("limpet", "run", "eval.yml")
    calls: str = ""
    scores: str | None = None
    may: str = ""
    asks: tuple[str, ...] | None = None
    code: int | None = None
    said: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    answers: str = ""
    stands: str = ""
    cwd: str = "."
    meanwhile: Meanwhile | None = field(default=None)

    def __call__(self, project: Project) -> list[str]:
        if self.meanwhile:
            (project.aside / "gate").touch()
        code = project.run(self.words, self.cwd, lambda child: self._interfere(project, child))
        noted = project.tally()
        problems = [
            *_compared("calls", self.calls, noted["call"], self.may),
            *(_compared("scores", self.scores, noted["score"], self.may)
              if self.scores is not None else ()),
        ]  # fmt: skip
        if code != self._code():
            problems.append(f"exit code {code}, not {self._code()}")
        for text in (*self.said, *(self.asks or ())):
            if text not in project.said:
                problems.append(f"did not say {text!r}")
        problems += [f"said {text!r}" for text in self.unsaid if text in project.said]
        for text in self.unsaid:
            problems += [f"{one} has {text!r}" for one in _holding(project, text)]
        if self.asks is None and "FunctionChangedError" in project.said:
            problems.append("asked")
        if self.answers:
            problems += _wrong_answers(project, set(self.calls), self.answers)
        if self.stands:
            problems += _wrong_answers(project, None, self.stands)
        return problems

    def __str__(self) -> str:
        return " ".join(self.words)

    def _code(self) -> int:
        if self.code is not None:
            return self.code
        if self.meanwhile and not self.meanwhile.edit:
            return -signal.SIGKILL
        if self.asks is None:
            return 0
        return 2 if "limpet" in self.words else 1

    def _interfere(self, project: Project, child: int) -> None:
        if not self.meanwhile:
            return
        deadline = time.monotonic() + PATIENCE_S
        tally = project.aside / "tally"
        while not (
            tally.exists()
            and f"at {self.meanwhile.at}\n" in tally.read_text()
            and project.column() >= self.meanwhile.done
        ):
            if time.monotonic() > deadline or not _is_alive(child):
                break
            time.sleep(0.005)
        if self.meanwhile.edit:
            self.meanwhile.edit(project)
        elif _is_alive(child):
            os.kill(child, signal.SIGKILL)
        (project.aside / "gate").unlink()


def _is_alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()


def _compared(what: str, wanted: str, got: Counter, may: str) -> list[str]:
    letters, found = Counter(wanted), "".join(sorted(got.elements()))
    if letters - got or set(got - letters) - set(may):
        return [f"{what} {found!r}, not {wanted!r}" + (f" (and perhaps {may!r})" if may else "")]
    return []


def _holding(project: Project, text: str) -> list[Path]:
    files = (one for one in project.folder.glob("runs/*/*") if one.is_file())
    return [one for one in files if text.encode() in one.read_bytes()]


def _wrong_answers(project: Project, ids: set[str] | None, text: str) -> list[str]:
    for file in project.folder.glob("runs/*/summary.json"):
        answers = {one["id"]: str(one["generated_answer"]) for one in exported(file.parent)}
        wrong = {
            one: answers.get(one) for one in ids or answers if text not in str(answers.get(one))
        }
        if wrong:
            return [f"answers without {text!r}: {wrong}"]
    return []


# ---- edits: each is given the project -----------------------------------------------------------


@dataclass(frozen=True)
class Edited:
    """Files that are written, by a stranger's editor."""

    files: dict

    def __call__(self, project: Project) -> None:
        project.write(self.files)


@dataclass(frozen=True)
class Deleted:
    names: tuple[str, ...]

    def __call__(self, project: Project) -> None:
        for name in self.names:
            path = project.path(name)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


@dataclass(frozen=True)
class Renamed:
    old: str
    new: str

    def __call__(self, project: Project) -> None:
        new = project.path(self.new)
        new.parent.mkdir(parents=True, exist_ok=True)
        project.path(self.old).rename(new)


@dataclass(frozen=True)
class Touched:
    """The same content, as another file of a later time."""

    name: str

    def __call__(self, project: Project) -> None:
        path = project.path(self.name)
        copy = path.with_name(path.name + ".copy")
        shutil.copyfile(path, copy)
        copy.replace(path)
        later = time.time() + 1000
        os.utime(path, (later, later))


@dataclass(frozen=True)
class EditedInSecret:
    """Other content of the same size, under the same inode and times."""

    name: str
    content: str

    def __call__(self, project: Project) -> None:
        path = project.path(self.name)
        before = path.stat()
        assert before.st_size == len(self.content)
        path.write_text(self.content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@dataclass(frozen=True)
class Linked:
    """A symbolic link that leads to another place from now on."""

    name: str
    target: str  # as it stands in the link; `aside:` names a file beside the project

    def __call__(self, project: Project) -> None:
        path = project.path(self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        aside = self.target.startswith("aside:")
        path.symlink_to(project.path(self.target) if aside else self.target)


@dataclass(frozen=True)
class Moved:
    """The whole project, with its run, in another folder."""

    copied: bool = False

    def __call__(self, project: Project) -> None:
        new = project.folder.parent / "elsewhere" / "moved project"
        if self.copied:
            shutil.copytree(project.folder, new, symlinks=True)
        else:
            new.parent.mkdir()
            project.folder.rename(new)
        project.folder = new


@dataclass(frozen=True)
class Special:
    """Something that no other edit is."""

    what: Callable[[Project], list[str] | None]

    def __call__(self, project: Project) -> list[str] | None:
        return self.what(project)
