"""Runs whose scores a test chooses, and the `limpet` command in this process.

Each character of a text is one item: `1` right, `0` wrong, `f` the workflow fails, `e` the
evaluator fails. With trials, a word is an item: `"11 10"`. A list has the scores themselves.
"""

import contextlib
import io
import itertools
import json
import sys
from typing import NamedTuple
from unittest import mock

import limpet
from limpet.cli.commands import cli
from limpet.cli.error_exit import report_error


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def command(*words, cwd=None):
    """Run `limpet` in this process, not in a terminal."""
    words = [str(word) for word in words]
    streams = {name: io.TextIOWrapper(io.BytesIO(), "utf-8") for name in ("stdout", "stderr")}
    with (
        contextlib.chdir(cwd or "."),
        mock.patch.multiple(sys, argv=["limpet", *words], **streams),
    ):
        try:
            code = cli(words, standalone_mode=False, prog_name="limpet")
        except (Exception, SystemExit) as error:
            code = report_error(error)
    for stream in streams.values():
        stream.flush()
    return Done(code, *(stream.buffer.getvalue().decode() for stream in streams.values()))


def correct(output):
    if output["score"] == "e":
        raise limpet.PermanentError("the judge refused")
    return output["score"]


def scored_by(function=correct, name="correct", **declared):
    return limpet.evaluator(name=name, **declared)(function)


def rows(number, **fields):
    return [
        {"id": f"q{n}", "question": f"Question {n}?", "answer": f"expected {n}"}
        | {name: value(n) for name, value in fields.items()}
        for n in range(number)
    ]


def make(run, answers, *, trials=1, dataset=None, evaluators=(correct,), say=None, **options):
    """Make a run with these scores, and return its directory."""
    words = answers.split() if isinstance(answers, str) and trials > 1 else answers
    values = [
        [{"1": True, "0": False}.get(one, one) for one in word]
        if isinstance(word, (str, list)) and isinstance(answers, str)
        else [word]
        for word in words
    ]
    dataset = dataset or rows(len(values))
    calls = {str(row["id"]): itertools.cycle(one) for row, one in zip(dataset, values, strict=True)}

    def answer(item):
        score = next(calls[item.id])
        if score == "f":
            raise limpet.PermanentError("the model refused")
        text = f"{item.id} is {score}" if say is None else say(item.id, score)
        return {"say": text, "score": score}

    limpet.evaluate(
        dataset, answer, list(evaluators), run=limpet.Run(run, durability="flush"), trials=trials,
        **{"version": "1", "retry": 0, "fail_fast": False, "pace": 1, "show": False, **options},
    )  # fmt: skip
    return run
