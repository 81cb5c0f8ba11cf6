"""Which of a few labels does a model give an output?

The reply is a reason and then a label of a closed set, in this order, so that the label follows
from the reason. Several votes or models decide by majority.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import PermanentError, wrong_type, wrong_value
from limpet.evaluators.builtin import brief
from limpet.evaluators.judge_prompt import Prompt, judged_examples, ready_prompt, with_inputs
from limpet.evaluators.judge_replies import invalid, reason_and
from limpet.evaluators.judge_votes import TIE, Choices, Vote, majority
from limpet.evaluators.model_evaluator import Asking, Ballot, ModelEvaluator, asking
from limpet.evaluators.protocol import Evaluator, Scores
from limpet.models.protocol import Reply
from limpet.shapes import Scale
from limpet.text import quoted

CORRECT: Choices = {"correct": 1, "incorrect": 0}
"""The choices if none are given."""


def judge(
    model: Any,
    prompt: str | None = None,
    *,
    of: str | None = None,
    inputs: Mapping[str, str] | None = None,
    choices: Choices | None = None,
    votes: int = 1,
    examples: Iterable[Mapping[str, Any]] = (),
    reasks: int = 1,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
) -> Evaluator:
    """Score with the label that a model gives, out of a few choices.

    The score has the label, its value and the model's reason. With several votes or models, the
    label with the most votes wins. If several labels have the most votes, the label is "tie", the
    value is the mean of theirs (None if one of them has none), and the metadata says `tie: True`.

    Each vote of each model is recorded separately, and requested only once: five votes instead of
    three cost two calls per item, another model in a jury costs its own calls, other values for the
    choices cost none.

    Args:
        model: A model, or anything `limpet.models.as_model` takes; a list of them is a jury.
        prompt: What to judge, and how, with `{{output}}`, `{{expected}}`, `{{input}}`, `{{trace}}`,
            `{{id}}` and the fields of the row by name. Each value is shown as untrusted data.
        of: The name of a ready prompt instead, for example "correctness".
        inputs: Values for placeholders, if the dataset's names differ from the prompt's:
            `{"context": "{{documents}}"}`.
        choices: The value of each label; None as a value: the label only. By default "correct" (1)
            and "incorrect" (0), or those of the ready prompt.
        votes: How often each model is asked about an item.
        examples: Judged examples: dicts with a value for each placeholder, `reason` and `label`.
        reasks: How often a model is asked again after a reply that cannot be used.
        name: Its name; None: that of the ready prompt, or "judge".
        params: Parameters for each call, for example `{"temperature": 0}`.

    Raises:
        LimpetError: A placeholder of the prompt is not valid, or it has none.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a wrong value, or both or neither of `prompt` and `of`.
    """
    if (prompt is None) == (of is None):
        raise ValueError("give either prompt or of, the name of a ready prompt")
    if of is not None:
        ready = ready_prompt(of)
        prompt, choices = ready.text, _choices_of(of, ready.choices, choices)
    values = checked_choices(CORRECT if choices is None else choices)
    asked = asking(model, votes, reasks, params)
    if len(asked.models) * asked.votes > 1 and TIE in values:
        raise wrong_value("choices", f"{TIE!r} is the label of a tie between votes; use another")
    assert prompt is not None  # checked above
    prompt = with_inputs(prompt, inputs)
    shown = Prompt(
        prompt, _how_to_reply(values), judged_examples(examples, prompt, "label", values)
    )
    return _Judge(name or of or "judge", asked, shown, values)


def checked_choices(choices: Any) -> Choices:
    """Return the choices.

    Raises:
        TypeError: They are not a dict of numbers by label.
        ValueError: There are fewer than two, or one is not valid.
    """
    if not isinstance(choices, Mapping):
        raise wrong_type("choices", f"must be a dict, for example {dict(CORRECT)}", choices)
    if len(choices) < 2:  # noqa: PLR2004 - else there is nothing to choose
        raise wrong_value("choices", "must be at least two labels", dict(choices))
    for label, value in choices.items():
        if not isinstance(label, str):
            raise wrong_type("choices", f"the label {label!r} must be a string; put it in quotes")
        if not label or label != label.strip():
            raise wrong_value("choices", f"the label {label!r} must have no space around it")
        if value is not None and not isinstance(value, (int, float)):
            raise wrong_type("choices", f"the value of {label!r} must be a number, not {value!r}")
        if value is not None and not math.isfinite(value):
            raise wrong_value("choices", f"the value of {label!r} must be a number, not {value!r}")
    return dict(choices)


def _choices_of(of: str, own: Choices, given: Any) -> Choices:
    """Return the choices of a ready prompt, with the given values."""
    if given is None:
        return own
    if not isinstance(given, Mapping) or given.keys() != own.keys():
        labels = ", ".join(own)
        raise wrong_value(
            "choices",
            f"{of} asks for {labels}; give other values for these labels, or a prompt of your own",
            given,
        )
    return {label: given[label] for label in own}


def _how_to_reply(choices: Choices) -> str:
    labels = ", ".join(json.dumps(label, ensure_ascii=False) for label in choices)
    return (
        'Reply with a JSON object of "reason" and "label", in this order, and nothing else. '
        '"reason" is a string: why, in a few sentences. "label" follows from it, and is exactly '
        f"one of: {labels}."
    )


def _schema(choices: Choices) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "label": {"type": "string", "enum": list(choices)},
        },
        "required": ["reason", "label"],
        "additionalProperties": False,
    }


# ---- scores -------------------------------------------------------------------------------------


class _Judge(ModelEvaluator):
    """Gives a label; see `judge`."""

    kind = "judge"

    def __init__(self, name: str, asked: Asking, prompt: Prompt, choices: Choices) -> None:
        super().__init__(name, asked, prompt, _schema(choices))
        values = [value for value in choices.values() if value is not None]
        if values and min(values) < max(values):
            self.scale = Scale(range=(min(values), max(values)))
        self._choices = choices

    def _own_settings(self) -> dict[str, Any]:
        return {"choices": self._choices}

    def _read(self, reply: Reply) -> dict[str, Any]:
        reason, label = reason_and(reply, "label")
        if label not in list(self._choices):  # it may not be hashable
            labels = ", ".join(map(quoted, self._choices))
            raise invalid(reply, f"label must be one of {labels}, not {brief(label)}")
        return {"label": label, "reason": reason}

    def _scores(self, ballots: Sequence[Ballot]) -> Scores:
        for vote in ballots:
            if vote["label"] not in self._choices:  # every reply was checked before it was kept
                raise PermanentError(
                    f"a label is kept as {quoted(vote['label'])}: it is the value of a secret, and "
                    "masked on disk",
                    hint="use other labels",
                )
        votes: list[Vote[str]] = [Vote(vote["label"], vote["reason"]) for vote in ballots]
        score = majority(votes, self._choices, self._jurors)
        if len(ballots) == 1 and "probabilities" in ballots[0]:
            score = replace(score, metadata={"probabilities": ballots[0]["probabilities"]})
        return {"score": score}
