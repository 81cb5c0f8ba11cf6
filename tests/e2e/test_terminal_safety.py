"""Nothing from a dataset, a model or a path is obeyed by the terminal, whatever the command."""

import json
import re

import pytest
from e2e.project import COMMAND
from e2e.terminal import Terminal

# A title (OSC), a colour, the same as one C1 character, an override of the direction of writing,
# an isolate, line ends of Unicode's, DEL, BEL. No lone surrogate: with one, JSON escapes it all.
EVIL = "\x1b]0;owned\x07\x1b[35;7mred\x9b31m\x9d0;x\x9c\u202eabc\u2066d\u2028e\u2029\x7f\x85"
OBEYED = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\x1b\\]|\x1b\\[35;7m|\x07"
)
APP = """
import limpet

EVIL = {evil!r}

async def answer(question):
    if question.endswith("2"):
        raise ValueError(EVIL)
    return EVIL + question

def label(output):
    return limpet.Score(0.5, label=EVIL, explanation=EVIL)

def several(output):
    if output.endswith("1"):
        raise TypeError(EVIL)
    return {{EVIL: 0.5, "word": EVIL}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    (folder / "app.py").write_text(APP.format(evil=EVIL), encoding="utf-8")
    rows = [{"id": f"{EVIL}{n}", "question": f"{EVIL} {n}", "answer": EVIL} for n in range(4)]
    lines = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / "rows.jsonl").write_text(lines, encoding="utf-8")
    (folder / "eval.yml").write_text(
        "dataset: rows.jsonl\nworkflow: app:answer\n"
        "evaluators:\n  label: app:label\n  several: app:several\n"
        f"run: {json.dumps('runs/a' + EVIL)}\n"
        "pace: 2\nretry: 0\n",
        encoding="utf-8",
    )
    return folder


def on_terminal(folder, *arguments):
    terminal = Terminal([*COMMAND, *arguments], cwd=folder, columns=200, lines=60)
    try:
        terminal.wait(100)
        return terminal.transcript
    finally:
        terminal.close()


@pytest.mark.slow
def test_no_command_lets_a_terminal_obey_what_it_shows(folder):
    run = ["runs/a" + EVIL]
    said = {}
    for command in (
        ["run", "eval.yml", "--plan"],
        ["run", "eval.yml", "--plan", "--json"],
        ["run", "eval.yml", "--json"],
        ["run", "eval.yml"],
        ["status", *run],
        ["status", *run, "--json"],
        ["show", *run],
        ["show", *run, "--json"],
        ["show", *run, "--failed"],
        ["show", *run, "--evaluator", "label"],
        ["show", *run, "--item", "nobody"],
        ["list"],
        ["list", "--json"],
        ["export", *run, "--to", "csv"],
        ["export", *run, "--to", "jsonl"],
        ["verify", *run],
        ["verify", *run, "--json"],
        ["repair", *run],
    ):
        transcript = on_terminal(folder, *command)
        found = OBEYED.search(transcript)
        assert found is None, (command, transcript[max(0, found.start() - 80) : found.end() + 40])
        said[tuple(command[:1] + command[-1:])] = transcript
    lines = [json.loads(line) for line in said["run", "--json"].splitlines()]
    failed = [one for one in lines if one.get("event") == "finished" and "message" in one]
    assert failed
    assert {one["message"] for one in failed} == {EVIL}  # escaped, and the same when it is read
    exported = [json.loads(line) for line in said["export", "jsonl"].splitlines()]
    assert exported[0]["output"].startswith(EVIL)
