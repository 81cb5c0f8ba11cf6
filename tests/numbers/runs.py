"""Runs, made from a few letters, once in a session of the tests.

Each character of a text is one item: `1` right, `0` wrong, `f` the workflow fails, `e` the
evaluator fails, `q` the quota ends and with it the run, `-` the dataset has no such item. With
trials, a word is an item: `"11 10 00"`. A list has the scores themselves.
"""

import hashlib
import itertools
import threading
from pathlib import Path

from cut_short import ended

import limpet

FAILS, EVALUATOR_FAILS, QUOTA, ABSENT = "f", "e", "q", "-"
_LETTERS = {"1": True, "0": False}
_DECLARED = {}  # what an evaluator's repr does not tell; holds it, so that its id stays its own


def correct(output):
    """Return the score that the answer carries, so that both runs have the same evaluator."""
    if output["score"] == EVALUATOR_FAILS:
        raise limpet.PermanentError("the judge refused")
    return output["score"]


def named(function=correct, name="correct", **declared):
    """Return an evaluator with what can be said of one: range, group, higher_is_better, version."""
    made = limpet.evaluator(name=name, **declared)(function)
    _DECLARED[id(made)] = (made, f"{function.__name__} {name} {declared}")
    return made


def scores(answers, trials=1):
    """Return for each item the scores of its trials."""
    if not isinstance(answers, str):
        return [list(one) if isinstance(one, (list, tuple)) else [one] for one in answers]
    words = answers.split() if trials > 1 else answers
    return [[_LETTERS.get(letter, letter) for letter in word] for word in words]


def rows(count, **fields):
    """Return the rows of a dataset; a field is a function of the row's number."""
    return [
        {
            "id": f"q{n}",
            "question": f"Question {n}?",
            "answer": f"expected {n}",
            **{name: make(n) for name, make in fields.items()},
        }
        for n in range(count)
    ]


def workflow(table, say=None, cost=None):
    """Return a workflow that answers as the table says, each call of an item its next trial."""
    calls = {id_: itertools.cycle(values) for id_, values in table.items()}
    lock = threading.Lock()

    def answer(item):
        with lock:
            score = next(calls[item.id])
        if score == FAILS:
            raise limpet.PermanentError("the model refused")
        if score == QUOTA:
            raise limpet.errors.QuotaExhaustedError("nothing left")
        text = say(item.id, score) if say else f"{item.id} is {score}"
        value = {"say": text, "score": score}
        return value if cost is None else limpet.Output(value, usage=limpet.Usage(cost=cost))

    return answer


def make(
    path,
    answers,
    *,
    trials=1,
    dataset=None,
    limit=None,
    evaluators=(correct,),
    say=None,
    cost=None,
    **options,
):
    """Run it, and return the result."""
    values = scores(answers, trials)
    dataset = [
        row for row, one in zip(dataset or rows(len(values)), values, strict=True)
        if one != [ABSENT]
    ]  # fmt: skip
    given = [one for one in values if one != [ABSENT]]
    table = {str(row["id"]): one for row, one in zip(dataset, given, strict=True)}
    defaults = {"retry": 0, "show": False, "fail_fast": False, "version": "1", "pace": 8}
    return ended(
        limpet.evaluate,
        limpet.Dataset(dataset, limit=limit),
        workflow(table, say, cost),
        list(evaluators),
        run=limpet.Run(path, durability="flush"),
        trials=trials,
        **{**defaults, **options},
    )


class Shelf:
    """Makes each run once, and hands out its directory."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._made = {}

    def __call__(self, answers, *, evaluators=(correct,), **options):
        """Return the directory of a run that was made so."""
        judges = [_DECLARED.get(id(one), (one, repr(one)))[1] for one in evaluators]
        what = repr((answers, judges, sorted(options.items(), key=lambda one: one[0])))
        if what not in self._made:
            path = self.folder / f"run-{hashlib.sha256(what.encode()).hexdigest()[:12]}"
            make(path, answers, evaluators=evaluators, **options)
            self._made[what] = (path, options)  # holds what `repr` shows only the address of
        return self._made[what][0]
