"""`limpet.pairwise`: is an output better than the answer of another run?"""

import os
from collections.abc import Mapping
from typing import Any

from limpet.errors import wrong_argument
from limpet.evaluators import pairwise as pairwise_of_answers
from limpet.evaluators.protocol import Evaluator
from limpet.run.evaluation_result import EvaluationResult, load_run

Against = str | os.PathLike[str] | EvaluationResult | Mapping[str, Any]
"""A run's directory or its name under `./runs`, a result, or answers by the item's id."""


def pairwise(
    model: Any,
    prompt: str | None = None,
    *,
    against: Against,
    votes: int = 1,
    reasks: int = 1,
    name: str = "pairwise",
    params: Mapping[str, Any] | None = None,
) -> Evaluator:
    """Score whether an output is better than the answer of another run to the same item.

    The label is "win" (1), "loss" (0) or "tie" (0.5). The model sees both orders, in two calls per
    item. If they disagree, it is a tie, and the metadata has `flipped: True`. With several votes or
    models, each sees both orders, and the label with the most votes wins; without one, it is a tie.
    Equal answers are a tie without a call.

    Args:
        model: A model, or anything `limpet.models.as_model` takes; a list of them is a jury.
        prompt: What to compare, and how, with `{{first}}` and `{{second}}` for the answers and
            placeholders as for `judge`. It asks for "first", "second" or "tie". None: our own.
        against: The other run: its directory, its name under `./runs`, or its result. Its answers
            are read now, those of its first trial. Or the answers themselves, by the item's id.
        votes: How often each model votes on an item, in both orders.
        reasks: How often a model is asked again after an unusable reply.
        name: Its name.
        params: Parameters for each call, for example `{"temperature": 0}`.

    Raises:
        LimpetError: There is no such run, it has no answer, or the prompt cannot be filled.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a wrong value.
    """
    return pairwise_of_answers(
        model,
        prompt,
        against=answers_of(against),
        votes=votes,
        reasks=reasks,
        name=name,
        params=params,
    )


def answers_of(against: Against) -> Mapping[str, Any]:
    """Return the answers of a run, by the item's id.

    Raises:
        LimpetError: There is no such run, or it has no answer.
        TypeError: It is not a run.
    """
    if isinstance(against, Mapping):
        return against
    run = against if isinstance(against, EvaluationResult) else load_run(against)
    first = ((item.id, item.output) for item in run.items if not item.trial)
    answers = {id_: output.value for id_, output in first if output is not None}
    if not answers:
        raise wrong_argument("against", f"{run.run} has no answers", hint="run it first")
    return answers
