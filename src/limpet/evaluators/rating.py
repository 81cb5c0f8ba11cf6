"""Which whole number on a scale does a model give an output?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from limpet.errors import wrong_type, wrong_value
from limpet.evaluators.builtin import brief
from limpet.evaluators.judge_prompt import Prompt, judged_examples
from limpet.evaluators.judge_replies import invalid, reason_and
from limpet.evaluators.judge_votes import Vote, mean
from limpet.evaluators.model_evaluator import Asking, Ballot, ModelEvaluator, asking
from limpet.evaluators.protocol import Evaluator, Scores
from limpet.models.protocol import Reply
from limpet.shapes import Scale

Ends = tuple[int, int]
_MOST_STEPS = 101


def rating(
    model: Any,
    prompt: str,
    *,
    scale: Ends = (1, 5),
    votes: int = 1,
    examples: Iterable[Mapping[str, Any]] = (),
    reasks: int = 1,
    name: str = "rating",
    params: Mapping[str, Any] | None = None,
) -> Evaluator:
    """Score with the whole number that a model gives, on a scale.

    The value is the number itself, not a share of the scale. With several votes or models, it is
    the mean of theirs, and the reason is that of the vote closest to it.

    Args:
        model: A model, or anything `limpet.models.as_model` takes; a list of them is a jury.
        prompt: What to rate, and what the numbers mean, with placeholders as for `judge`.
        scale: The lowest and the highest number.
        votes: How often each model is asked about an item.
        examples: Rated examples: dicts with a value for each placeholder, `reason` and `rating`.
        reasks: How often a model is asked again after a reply that cannot be used.
        name: Its name.
        params: Parameters for each call, for example `{"temperature": 0}`.

    Raises:
        LimpetError: A placeholder of the prompt is not valid, or it has none.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a wrong value.
    """
    steps = steps_of(scale)
    how = (
        'Reply with a JSON object of "reason" and "rating", in this order, and nothing else. '
        '"reason" is a string: why, in a few sentences. "rating" follows from it, and is a whole '
        f"number from {steps[0]} to {steps[-1]}."
    )
    shown = Prompt(prompt, how, judged_examples(examples, prompt, "rating", steps))
    return _Rating(name, asking(model, votes, reasks, params), shown, steps)


def steps_of(scale: Any) -> range:
    """Return the numbers of a scale.

    Raises:
        TypeError: It is not a pair of whole numbers.
        ValueError: It has no numbers, or too many.
    """
    is_pair = isinstance(scale, (tuple, list)) and len(scale) == 2  # noqa: PLR2004 - a pair
    if not is_pair or any(type(end) is not int for end in scale):
        raise wrong_type("scale", "must be two whole numbers, for example (1, 5)", scale)
    low, high = scale
    if not 1 <= high - low < _MOST_STEPS:
        raise wrong_value(
            "scale",
            f"must go up, and have at most {_MOST_STEPS} numbers: models cannot distinguish more",
            scale,
        )
    return range(low, high + 1)


def checked_rating(reply: Reply, number: Any, steps: range) -> int:
    """Return the number in a reply if it is on the scale; 3.0 is the whole number 3.

    Raises:
        InvalidReplyError: It is something else: nothing is rounded, clipped or read from a text.
    """
    if type(number) not in (int, float) or number not in steps:
        wanted = f"a whole number from {steps[0]} to {steps[-1]}"
        raise invalid(reply, f"the rating must be {wanted}, not {brief(number)}")
    return int(number)


class _Rating(ModelEvaluator):
    """Gives a number; see `rating`."""

    kind = "rating"

    def __init__(self, name: str, asked: Asking, prompt: Prompt, steps: range) -> None:
        schema = {
            "type": "object",
            "properties": {
                "reason": {"type": "string"},
                "rating": {"type": "integer", "enum": list(steps)},
            },
            "required": ["reason", "rating"],
            "additionalProperties": False,
        }
        super().__init__(name, asked, prompt, schema)
        self.scale = Scale(range=(steps[0], steps[-1]))
        self._steps = steps

    def _own_settings(self) -> dict[str, Any]:
        return {"scale": [self._steps[0], self._steps[-1]]}

    def _read(self, reply: Reply) -> dict[str, Any]:
        reason, number = reason_and(reply, "rating")
        return {"rating": checked_rating(reply, number, self._steps), "reason": reason}

    def _scores(self, ballots: Sequence[Ballot]) -> Scores:
        votes: list[Vote[int]] = [Vote(vote["rating"], vote["reason"]) for vote in ballots]
        return {"score": mean(votes, self._jurors)}
