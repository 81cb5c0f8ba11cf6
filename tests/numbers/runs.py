"""Runs, made from a few letters, once in a session of the tests.

Each character of a text is one item: `1` right, `0` wrong, `f` the workflow fails, `e` the
evaluator fails, `q` the quota ends and with it the run, `-` the dataset has no such item. With
trials, a word is an item: `"11 10 00"`. A list has the scores themselves.
"""

import hashlib
import itertools
import threading
from pathlib import Path

import limpet

FAILS, EVALUATOR_FAILS, QUOTA, ABSENT = "f", "e", "q", "-"
_LETTERS = {"1": True, "0": False}


def correct(output):
    """Return the score that the answer carries, so that both runs have the same evaluator."""
    if output["score"] == EVALUATOR_FAILS:
        raise limpet.PermanentError("the judge refused")
    return output["score"]


def named(function=correct, name="correct", **declared):
    """Return an evaluator with what can be said of one: range, group, higher_is_better, version."""
    return limpet.evaluator(name=name, **declared)(function)


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
            raise limpet.QuotaExhaustedError("nothing left")
        text = say(item.id, score) if say else f"{item.id} is {score}"
        value = {"say": text, "score": score}
        return value if cost is None else limpet.Output(value, usage=limpet.Usage(cost=cost))

    return answer


def make(  # noqa: D103
    path, answers, *, trials=1, dataset=None, evaluators=(correct,), say=None, cost=None, **options
):
    values = scores(answers, trials)
    dataset = [
        row for row, one in zip(dataset or rows(len(values)), values, strict=True)
        if one != [ABSENT]
    ]  # fmt: skip
    given = [one for one in values if one != [ABSENT]]
    table = {str(row["id"]): one for row, one in zip(dataset, given, strict=True)}
    defaults = {"retry": 0, "show": False, "early_stop": False, "version": "1", "pace": 8}
    return limpet.evaluate(
        dataset,
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

    def __call__(self, answers, *, like=None, **options):
        """Return the directory of a run; `like` is a name for what a repr does not tell apart."""
        what = repr((answers, like, sorted(options.items(), key=lambda one: one[0])))
        if what not in self._made:
            path = self.folder / f"run-{hashlib.sha256(what.encode()).hexdigest()[:12]}"
            make(path, answers, **options)
            self._made[what] = path
        return self._made[what]
