"""Does a model find an output better than another answer to the same item?

Models may prefer the first answer, or the second, because of its position. So both orders are
asked: an answer wins if it is preferred in both. If the orders disagree, that is a flip, and a tie.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from limpet.errors import PermanentError, wrong_argument, wrong_type
from limpet.evaluators.builtin import brief, item_name
from limpet.evaluators.judge_prompt import Prompt, Values
from limpet.evaluators.judge_replies import invalid, reason_and
from limpet.evaluators.judge_votes import TIE, Choices, tally, winners
from limpet.evaluators.model_evaluator import Asking, Ballot, ModelEvaluator, ModelQuestion, asking
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.fingerprints.keys import digest
from limpet.models.protocol import Reply
from limpet.pacing.permits import asks_for_each_call
from limpet.placeholders import value_as_text
from limpet.shapes import Output, Scale, Score

WIN, LOSS = "win", "loss"
VALUES: Choices = {WIN: 1, LOSS: 0, TIE: 0.5}
_FIRST, _SECOND = "first", "second"
_LABELS = (_FIRST, _SECOND, TIE)
_PROMPT = """\
Decide which of two answers to a question is better.

Question:
{{input}}

The first answer:
{{first}}

The second answer:
{{second}}

First say what a good answer needs. Then go through both answers, and compare them. What counts is \
whether they are right, complete and helpful. Length, style and which one stands first do not count.

- "first": the first answer is better.
- "second": the second answer is better.
- "tie": neither is better: both are good, or both fail in the same way."""


def pairwise(
    model: Any,
    prompt: str | None = None,
    *,
    against: Mapping[str, Any],
    votes: int = 1,
    reasks: int = 1,
    name: str = "pairwise",
    params: Mapping[str, Any] | None = None,
) -> Evaluator:
    """Score whether an output is better than another answer to the same item.

    The label is "win" (1), "loss" (0) or "tie" (0.5). Both orders are asked, two calls per item. If
    they disagree, it is a tie, and the metadata says `flipped: True`. With several votes or models,
    each is asked in both orders, and the label with the most votes wins; without one, it is a tie.
    Two equal answers are a tie without a call.

    Args:
        model: A model, or anything `limpet.models.as_model` takes; a list of them is a jury.
        prompt: What to compare, and how, with `{{first}}` and `{{second}}` for the answers and
            placeholders as for `judge`. It asks for "first", "second" or "tie". None: our own.
        against: The other answers, by the item's id.
        votes: How often each model is asked about an item, in both orders.
        reasks: How often a model is asked again after a reply that cannot be used.
        name: Its name.
        params: Parameters for each call, for example `{"temperature": 0}`.

    Raises:
        LimpetError: A placeholder of the prompt is not valid, or one of the answers is missing.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a wrong value.
    """
    if not isinstance(against, Mapping):
        raise wrong_type("against", "must be a dict of answers by id", against)
    shown = Prompt(_PROMPT if prompt is None else prompt, _how_to_reply(), more=(_FIRST, _SECOND))
    for needed in (_FIRST, _SECOND):
        if needed not in shown.names:
            raise wrong_argument(
                "prompt",
                f"does not show {{{{{needed}}}}}",
                hint="write {{first}} and {{second}} where the two answers go",
            )
    return _Pairwise(name, asking(model, votes, reasks, params), shown, against)


def _how_to_reply() -> str:
    labels = ", ".join(map(json.dumps, _LABELS))
    return (
        'Reply with a JSON object of "reason" and "label", in this order, and nothing else. '
        '"reason" is a string: why, in a few sentences. "label" follows from it, and is exactly '
        f"one of: {labels}."
    )


class _Comparison(NamedTuple):
    """A model's verdicts in both orders.

    Attributes:
        verdicts: The verdict on the output as the first answer, and as the second.
        reasons: Why.
    """

    verdicts: tuple[str, str]
    reasons: tuple[str | None, str | None]

    @property
    def is_flipped(self) -> bool:
        return self.verdicts[0] != self.verdicts[1]

    @property
    def label(self) -> str:
        return TIE if self.is_flipped else self.verdicts[0]

    @property
    def why(self) -> str | None:
        if not self.is_flipped or None in self.reasons:
            return self.reasons[0]
        shown_first, shown_second = self.reasons
        return f"shown first: {shown_first}\nshown second: {shown_second}"


class _Pairwise(ModelEvaluator):
    """Compares two answers; see `pairwise`."""

    kind = "pairwise"
    scale = Scale(range=(0, 1))

    def __init__(
        self, name: str, asked: Asking, prompt: Prompt, against: Mapping[str, Any]
    ) -> None:
        schema = {
            "type": "object",
            "properties": {
                "reason": {"type": "string"},
                "label": {"type": "string", "enum": list(_LABELS)},
            },
            "required": ["reason", "label"],
            "additionalProperties": False,
        }
        super().__init__(name, asked, prompt, schema)
        self.reads = prompt.reads | {"output", "id"}
        self.calls_each *= 2  # both orders
        self._against = against

    def _own_settings(self) -> dict[str, Any]:
        return {"against": self._answers}

    @cached_property
    def _answers(self) -> dict[str, Any]:
        answers = dict(self._against)
        return {"answers": len(answers), "digest": digest(answers)}

    async def call(self, scored: Scored) -> Output:
        if self._is_same(scored):
            asks_for_each_call()  # and this time for none
            return Output({"score": Score(VALUES[TIE], TIE, "both answers are the same")})
        return await super().call(scored)

    def replies(self, scored: Scored) -> Sequence[Any]:
        return () if self._is_same(scored) else super().replies(scored)

    def _is_same(self, scored: Scored) -> bool:
        return value_as_text(scored.output) == value_as_text(self._other(scored))

    def _other(self, scored: Scored) -> Any:
        assert scored.item is not None  # it reads the id
        if scored.item.id not in self._against:
            raise PermanentError(
                f"{item_name(scored)} has no answer to compare with",
                hint="run the other evaluation for this item first",
            )
        return self._against[scored.item.id]

    def _questions(self, values: Values, scored: Scored) -> list[ModelQuestion]:
        output, other = value_as_text(scored.output), value_as_text(self._other(scored))
        orders = (
            {**values, _FIRST: output, _SECOND: other},
            {**values, _FIRST: other, _SECOND: output},
        )
        return [
            ModelQuestion(asked.model, asked.vote, order)
            for asked in super()._questions(values, scored)
            for order in orders
        ]

    def _read(self, reply: Reply) -> dict[str, Any]:
        reason, label = reason_and(reply, "label")
        if label not in _LABELS:
            raise invalid(reply, f"label must be one of {', '.join(_LABELS)}, not {brief(label)}")
        return {"label": label, "reason": reason}

    def _scores(self, ballots: Sequence[Ballot]) -> Scores:
        pairs = zip(ballots[::2], ballots[1::2], strict=True)
        compared = [_compared(first, second) for first, second in pairs]
        metadata: dict[str, Any] = {"flipped": any(pair.is_flipped for pair in compared)}
        if len(compared) == 1:
            (pair,) = compared
            metadata["orders"] = list(pair.verdicts)
            return {"score": Score(VALUES[pair.label], pair.label, pair.why, metadata)}
        labels = [pair.label for pair in compared]
        won = winners(labels)
        label = won[0] if len(won) == 1 else TIE
        why = next((pair.why for pair in compared if pair.label == label), compared[0].why)
        metadata |= tally(labels, self._jurors)
        return {"score": Score(VALUES[label], label, why, metadata)}


def _compared(first: Ballot, second: Ballot) -> _Comparison:
    when_first = {_FIRST: WIN, _SECOND: LOSS, TIE: TIE}[first["label"]]
    when_second = {_FIRST: LOSS, _SECOND: WIN, TIE: TIE}[second["label"]]
    return _Comparison((when_first, when_second), (first["reason"], second["reason"]))
