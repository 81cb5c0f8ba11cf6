"""What does it cost to tell whether a project's code is still the same?

Projects of 50 and of 500 modules, 200 lines each: docstrings, comments, classes, constants. The
workflow reaches a few functions and a class of each module, as real ones do. Each is looked at in
a process of its own, as when a run is planned.

Seconds say as much about the machine, and who else is using it, as about the look. So the same
process also parses all files, as Python itself does, and the look is measured in that: the limits
are those in seconds, on a machine that parses 100,000 lines in 0.45 s.
"""

import ast
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe, print_table, verdict

from limpet.fingerprints.files.audit_hook import Watch, listen, stop_listening
from limpet.fingerprints.files.file_reads import StepReads
from limpet.fingerprints.files.project import Project

CELL_S = 0.0002  # what benchmarks/run.py allows for a cell

MODULES = {50: 0.150, 500: 1.0}
PARSING_A_MODULE = 0.45 / 500

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


def look(folder: Path) -> None:
    """Print the CPU seconds of a look, and of parsing all files, in this process."""
    sys.path.insert(0, str(folder))
    sys.setrecursionlimit(100_000)  # each module imports the next
    import part_0  # type: ignore[import-not-found]  # noqa: PLC0415

    from limpet.fingerprints.identity import identity_of  # noqa: PLC0415

    begun = time.process_time()
    found = identity_of(part_0.agent.run)
    took = time.process_time() - begun
    gc.disable()  # as during a look
    begun = time.process_time()
    for file in folder.glob("*.py"):
        ast.parse(file.read_text(encoding="utf-8"))
    parsing = time.process_time() - begun
    print(json.dumps({"look": took, "parse": parsing, "parts": len(found.parts)}))


def measure(modules: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        write_project(Path(name), modules)
        lines = sum(len(one.read_text().splitlines()) for one in Path(name).glob("*.py"))
        time.sleep(3)  # a file as old as the process may have been edited since it was imported
        runs = []
        for _ in range(15):  # noise only adds: the least of many counts
            done = subprocess.run(  # noqa: S603 - this very script
                [sys.executable, __file__, name], check=True, capture_output=True, text=True
            )
            runs.append(json.loads(done.stdout))
    best = {name: min(one[name] for one in runs) for name in runs[0]}
    return {**best, "lines": lines}


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


def main() -> None:
    print(describe("limpet"))
    rows = []
    for modules, most in MODULES.items():
        found = measure(modules)
        times, most_times = found["look"] / found["parse"], most / (modules * PARSING_A_MODULE)
        rows.append(
            [
                f"{modules}",
                f"{found['lines']:,}",
                f"{found['parts']:,}",
                f"{found['look'] * 1000:,.0f} ms",
                f"{most * 1000:,.0f} ms",
                verdict(found["look"] <= most),
                f"{times:.1f} ×",
                f"{most_times:.1f} ×",
                verdict(times <= most_times),
            ]
        )
    header = ["modules", "lines", "parts", "a look", "wanted", "reached"]
    print_table([*header, "of parsing", "wanted", "reached"], rows)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        look(Path(sys.argv[1]))
    else:
        main()
