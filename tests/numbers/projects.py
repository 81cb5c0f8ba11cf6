"""A project with an eval.yml, for the commands that run something.

Its answers are letters, as in `runs`, in one file, so that a test may edit them; its module has a
name of its own, since commands run in one process.
"""

import itertools
import json

from tests.numbers.command import limpet
from tests.numbers.runs import rows

_NUMBERS = itertools.count()

_APP = """
import pathlib

import limpet

HERE = pathlib.Path(__file__).parent


def answer(item):
    with (HERE / "calls.txt").open("a") as file:
        file.write(item.id + "\\n")
    letter = (HERE / "letters.txt").read_text()[int(item.id[1:])]
    if letter == "f":
        raise limpet.PermanentError("the model refused")
    return f"{item.id} is {letter}"


def correct(output):
    return output.endswith("1")


def stars(output):
    return 2 + int(output[-1])
"""


class Project:
    """A folder with an eval.yml, its rows and its module."""

    def __init__(self, folder, answers, more="", evaluator="correct", keys="", **fields):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.module = f"numbers_app_{next(_NUMBERS)}"
        (folder / f"{self.module}.py").write_text(_APP, encoding="utf-8")
        # Not in the rows: two projects have the same questions.
        (folder / "letters.txt").write_text(answers, encoding="utf-8")
        lines = [json.dumps(row) for row in rows(len(answers), **fields)]
        (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.write(more, evaluator, keys)

    def write(self, more="", evaluator="correct", keys=""):
        (self.folder / "eval.yml").write_text(
            "name: bot\ndataset: rows.jsonl\nretry: 0\npace: 1\nfail_fast: false\n"
            f"workflow: {{python: '{self.module}:answer', version: '1'}}\n"
            f"evaluators:\n  correct: {{python: '{self.module}:{evaluator}'{keys}}}\n{more}",
            encoding="utf-8",
        )

    def run(self, *words):
        return limpet("run", *words, cwd=self.folder)

    @property
    def path(self):
        return self.folder / "runs/bot"

    @property
    def calls(self):
        notes = self.folder / "calls.txt"
        return notes.read_text(encoding="utf-8").split() if notes.exists() else []
