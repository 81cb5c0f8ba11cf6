"""A small project with an eval.yml, as a user would have it, and the real command run on it."""

import json
import sys

from e2e import ready_limpet

COMMAND = [sys.executable, "-m", "limpet"]

APP = '''
"""Answers by repeating, and notes each call in calls.txt."""
import asyncio
import pathlib

NOTES = pathlib.Path(__file__).with_name("calls.txt")
GO = pathlib.Path(__file__).with_name("go")


def note(question):
    with NOTES.open("a") as file:
        file.write(question + "\\n")


async def answer(question):
    note(question)
    await asyncio.sleep({seconds})
    return question.split()[-1]


async def answer_when_told(question):
    """Waits until somebody makes the file `go`; the first {free} do not wait."""
    note(question)
    while int(question.split()[-1]) >= {free} and not GO.exists():
        await asyncio.sleep(0.02)
    return question.split()[-1]


async def hang(question):
    note(question)
    await asyncio.sleep(600)


async def fail_some(question):
    if question.endswith("3"):
        raise ValueError("cannot do \\x1b[31mthis\\x1b[0m one")
    return question.split()[-1]


def out_of_quota(question):
    import limpet

    if question.endswith("5"):
        raise limpet.errors.QuotaExhaustedError("the account is empty", hint="top it up")
    return question.split()[-1]


def talkative(question):
    print("user code says", question)
    return question.split()[-1]
'''


def make(folder, *, rows=20, workflow="app:answer", seconds=0.01, free=0, more=""):
    """Write app.py, rows.jsonl and eval.yml; return the folder."""
    app = APP.replace("{seconds}", str(seconds)).replace("{free}", str(free))
    (folder / "app.py").write_text(app, encoding="utf-8")
    lines = [
        json.dumps({"id": f"q{n}", "question": f"Repeat {n}", "answer": str(n)})
        for n in range(rows)
    ]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "eval.yml").write_text(
        f"name: trial\ndataset: rows.jsonl\nworkflow: {workflow}\n"
        f"evaluators:\n  correct: exact_match\n{more}",
        encoding="utf-8",
    )
    return folder


def run(folder, *arguments, command="run", env=None):
    """Run the command, not in a terminal."""
    return ready_limpet.run([command, *arguments], cwd=folder, env=env)


def calls(folder):
    """Return what was asked of the workflow, in order."""
    notes = folder / "calls.txt"
    return notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []


def answered(folder):
    """Return the ids of the answers that are on disk."""
    column = folder / "runs" / "trial" / "workflow_output.jsonl"
    lines = column.read_text(encoding="utf-8").split("\n")[:-1] if column.exists() else []
    return [json.loads(line)["id"] for line in lines]
