"""What does it cost to tell whether a project's code is still the same?

Projects of 50 and of 500 modules, 200 lines each: docstrings, comments, classes, constants. The
workflow reaches a few functions and a class of each module, as real ones do. Each is looked at in
a process of its own, as when a run is planned.

Seconds say as much about the machine, and who else is using it, as about the look. So the same
process also parses all files, as Python itself does, and the look is measured in that: the limits
are those in seconds, on a machine that parses 100,000 lines in 0.45 s.

A script may import a module by a computed name: then all files below its folder count. Its project
has the files of Limpet as a package of the user's own, and is looked at twice, as in a run.

Knowing which files are read must not slow down imports. So a library of 10,000 modules is imported
with the audit hook and without, and after it 574 modules of the user's own.
"""

import ast
import compileall
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

from machine import describe, print_table, verdict

import limpet
from limpet.fingerprints.files.audit_hook import Watch, importing, listen, stop_listening
from limpet.fingerprints.files.file_reads import StepReads
from limpet.fingerprints.files.project import Project
from limpet.fingerprints.identity import identity_of

CELL_S = 0.0002  # what benchmarks/run.py allows for a cell

MODULES = {50: 0.150, 500: 1.0}
SCRIPT_S = 1.5
PARSING_A_MODULE = 0.45 / 500
PARSING_A_LINE = 0.45 / 100_000

IMPORTED = {"library": 10_000, "own": 574}
MOST_TIMES = {"library": 1.05}
PLAIN, *WAYS = "no hook", "while it is imported", "in a set-up", "in a call"
_IN_PACKAGE, _CHAIN = 20, 60

_FUNCTION = '''
def step_{n}(question, limit=3):
    """Take the {n}th step towards an answer.

    Args:
        question: What is asked.
        limit: How many words are kept.
    """
    # Short words say little: they go first.
    words = [word for word in question.split() if len(word) > limit]
    total = 0
    for number, word in enumerate(words):
        total += number * len(word)
    if total > 1_000:
        return f"{{LABEL_{n}}}: {{total}}"
    return {rest}


LABEL_{n} = "the {n}th label"
'''
_CLASS = '''
class Agent:
    """Answers with a prompt of its own."""

    def __init__(self, prompt, *, temperature=0.0):
        self.prompt = prompt
        self.temperature = temperature

    def run(self, question):
        """Answer one question."""
        # The prompt comes first, so that a cache can be used.
        return f"{self.prompt} {step_0(question)}"


agent = Agent("Be brief.")
'''
_SCRIPT = """
import importlib
import sys

importlib.import_module(sys.argv[1])


def answer(question):
    return question


if __name__ == "__main__":
    sys.path.append(sys.argv[2])
    importlib.import_module("identity").print_looks(answer, 2, sys.path[0])
"""


def write_project(folder: Path, modules: int) -> None:
    for number in range(modules):
        text = f'"""Part {number} of a project."""\n\nimport json\nimport re\n'
        last = number + 1 == modules
        text += "" if last else f"\nimport part_{number + 1}\n"
        for n in range(9):
            # Of nine functions, the workflow reaches four.
            rest = f"step_{n + 1}(question)" if n < 3 or 4 <= n < 8 else "question"
            if n == 3 and not last:
                rest = f"part_{number + 1}.agent.run(question)"
            text += _FUNCTION.format(n=n, rest=rest)
        text += _CLASS
        (folder / f"part_{number}.py").write_text(text, encoding="utf-8")


def write_script(folder: Path) -> None:
    """Write a script that imports a module by a computed name, and a package as large as ours."""
    (folder / "script.py").write_text(_SCRIPT, encoding="utf-8")
    package = Path(limpet.__file__).parent
    for file in package.rglob("*.py"):
        copy = folder / "tool" / file.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text(encoding="utf-8").replace("limpet", "tool")
        copy.write_text(text, encoding="utf-8")


def write_modules(folder: Path, name: str, modules: int) -> None:
    """Write packages of modules that import each other, in chains of sixty."""
    for number in range(modules):
        package, after = folder / f"{name}_{number // _IN_PACKAGE}", number + 1
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        is_last = after % _CHAIN == 0 or after == modules
        text = "" if is_last else f"import {name}_{after // _IN_PACKAGE}.part_{after}\n"
        text += _FUNCTION.format(n=0, rest="question") + _CLASS
        (package / f"part_{number}.py").write_text(text, encoding="utf-8")
    compileall.compile_dir(folder, quiet=1)


def look(folder: str) -> None:
    sys.path.insert(0, folder)
    sys.setrecursionlimit(100_000)  # each module imports the next
    print_looks(import_module("part_0").agent.run, 1, folder)


def print_looks(workflow: Callable[..., object], looks: int, folder: str) -> None:
    """Print the CPU seconds of some looks, and of parsing all files, in this process."""
    begun = time.process_time()
    for _ in range(looks):
        found = identity_of(workflow)
    took = time.process_time() - begun
    gc.disable()  # as during a look
    begun = time.process_time()
    for file in Path(folder).rglob("*.py"):
        ast.parse(file.read_text(encoding="utf-8"))
    parsing = time.process_time() - begun
    print(json.dumps({"look": took, "parse": parsing, "parts": len(found.parts)}))


def measure(folder: Path, *command: str) -> dict[str, float]:
    lines = sum(len(one.read_text().splitlines()) for one in folder.rglob("*.py"))
    time.sleep(3)  # a file as old as the process may have been edited since it was imported
    runs = [said_by(*command) for _ in range(15)]  # noise only adds: the least of many counts
    best = {name: min(one[name] for one in runs) for name in runs[0]}
    return {**best, "lines": lines}


def said_by(*command: str) -> dict[str, float]:
    done = subprocess.run(  # noqa: S603 - this very script, or the one it wrote
        [sys.executable, *command], check=True, capture_output=True, text=True
    )
    said: dict[str, float] = json.loads(done.stdout)
    return said


def time_imports(folder: str, way: str) -> None:
    """Print the CPU seconds of importing a library, then modules of the user's own, by chain."""
    project = Path(folder)
    sys.path[:0] = [folder, str(project / "site-packages")]
    watch = Watch(Project([project]), [StepReads("workflow")])
    took: dict[str, float] = {}
    with ExitStack() as hooked:
        if way == "while it is imported":
            hooked.enter_context(importing())
        elif way != PLAIN:
            listen(watch)
        if way == "in a set-up":
            hooked.enter_context(watch.setting_up("workflow"))
        if way == "in a call":
            watch.begin("workflow", ("q1", "What?"))
        for name, modules in IMPORTED.items():
            for first in range(0, modules, _CHAIN):
                begun = time.process_time()
                import_module(f"{name}_{first // _IN_PACKAGE}.part_{first}")
                took[f"{name} {first}"] = time.process_time() - begun
    print(json.dumps(took))


def least(runs: list[dict[str, float]], whose: str) -> float:
    """Return the sum of the least that each chain took."""
    chains = [name for name in runs[0] if name.startswith(whose)]
    return sum(min(one[name] for one in runs) for name in chains)


def print_imports() -> None:
    with tempfile.TemporaryDirectory() as name:
        write_modules(Path(name, "site-packages"), "library", IMPORTED["library"])
        write_modules(Path(name), "own", IMPORTED["own"])
        runs: dict[str, list[dict[str, float]]] = {way: [] for way in (PLAIN, *WAYS)}
        for _ in range(7):
            for way, found in runs.items():  # in turn: the machine may be busy for a while
                found.append(said_by(__file__, "time_imports", name, way))
    rows = []
    for whose, modules in IMPORTED.items():
        plain, *hooked = (least(found, whose) for found in runs.values())
        for way, took in zip(WAYS, hooked, strict=True):
            most = MOST_TIMES.get(whose)
            row = [f"{modules:,}, {whose}", way, f"{plain:.2f} s", f"{took:.2f} s"]
            wanted = ["", ""] if most is None else [f"{most:.2f} ×", verdict(took <= most * plain)]
            rows.append([*row, f"{took / plain:.2f} ×", *wanted])
    header = ["modules", "imported", "without the hook", "with it", "ratio", "wanted", "reached"]
    print_table(header, rows)


def note_calls() -> tuple[float, float]:
    """Return the seconds that noting a call takes, and a file that it opens besides opening it."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "prompt.txt")
        file.write_text("Be brief.")
        watch = Watch(Project([Path(name)]), [StepReads("workflow")])
        calls, opened = 100_000, 10_000
        begun = time.process_time()
        for _ in range(opened):
            file.read_bytes()
        plain = time.process_time() - begun
        listen(watch)
        begun = time.process_time()
        for _ in range(calls):
            watch.end(*watch.begin("workflow", ("q1", "What?")))
        noted = (time.process_time() - begun) / calls
        call, token = watch.begin("workflow", ("q1", "What?"))
        begun = time.process_time()
        for _ in range(opened):
            file.read_bytes()
        more = (time.process_time() - begun - plain) / opened
        watch.end(call, token)
        stop_listening(watch)
    return noted, more


def row_of(what: str, found: dict[str, float], most: float, parsing: float) -> list[str]:
    times, most_times = found["look"] / found["parse"], most / parsing
    return [
        what,
        f"{found['lines']:,}",
        f"{found['parts']:,}",
        f"{found['look'] * 1000:,.0f} ms",
        f"{most * 1000:,.0f} ms",
        verdict(found["look"] <= most),
        f"{times:.1f} ×",
        f"{most_times:.1f} ×",
        verdict(times <= most_times),
    ]


def main() -> None:
    print(describe("limpet"))
    rows = []
    for modules, most in MODULES.items():
        with tempfile.TemporaryDirectory() as name:
            write_project(Path(name), modules)
            found = measure(Path(name), __file__, "look", name)
        rows.append(row_of(f"{modules}", found, most, modules * PARSING_A_MODULE))
    with tempfile.TemporaryDirectory() as name:
        write_script(Path(name))
        here = str(Path(__file__).parent)
        found = measure(Path(name), str(Path(name, "script.py")), "tool", here)
    rows.append(row_of("a script", found, SCRIPT_S, found["lines"] * PARSING_A_LINE))
    header = ["modules", "lines", "parts", "a look", "wanted", "reached"]
    print_table([*header, "of parsing", "wanted", "reached"], rows)
    print()
    print_imports()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        globals()[sys.argv[1]](*sys.argv[2:])
    else:
        main()
