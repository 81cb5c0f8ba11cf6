"""How does a model answer several questions about an output, in one call?"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from limpet.errors import wrong_type, wrong_value
from limpet.evaluators.builtin import brief
from limpet.evaluators.judge_prompt import Prompt
from limpet.evaluators.judge_replies import invalid, object_in, reason_and
from limpet.evaluators.judge_votes import Choices, Vote, majority, mean
from limpet.evaluators.model_evaluator import Asking, Ballot, ModelEvaluator, asking
from limpet.evaluators.protocol import Evaluator, Scores
from limpet.evaluators.rating import Ends, checked_rating, steps_of
from limpet.models.protocol import Reply
from limpet.shapes import Scale, Score

YES_OR_NO: Choices = {"yes": 1, "no": 0}
_PROMPT = "Question:\n{{input}}\n\nAnswer to judge:\n{{output}}"
_BRACES = ("{", "}")


def rubric(
    model: Any,
    criteria: Mapping[str, str],
    prompt: str | None = None,
    *,
    scale: Ends | None = None,
    votes: int = 1,
    reasks: int = 1,
    name: str = "rubric",
    params: Mapping[str, Any] | None = None,
) -> Evaluator:
    """Score with a model's answers to several questions, all asked in one call.

    Each criterion is a separate score with its own reason: "yes" is 1 and "no" is 0, or
    with a `scale` the number that the model gives. With several votes or models, the majority
    decides as for `judge`; on a scale, the mean is used as for `rating`.

    Args:
        model: A model, or anything `limpet.models.as_model` takes; a list of them is a jury.
        criteria: The question for each criterion: `{"polite": "Is the answer polite?"}`. Questions
            may have placeholders.
        prompt: What to judge, with placeholders as for `judge`; None: the input and the output.
        scale: The lowest and the highest number; None: the questions are answered with yes or no.
        votes: How often each model is asked about an item.
        reasks: How often a model is asked again after a reply that cannot be used.
        name: Its name.
        params: Parameters for each call, for example `{"temperature": 0}`.

    Raises:
        LimpetError: A placeholder is not valid, or there is none.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a wrong value.
    """
    questions = _checked_criteria(criteria)
    steps = None if scale is None else steps_of(scale)
    lines = [f"- {_quoted(criterion)}: {question}" for criterion, question in questions.items()]
    template = "\n".join([_PROMPT if prompt is None else prompt, "", "Questions:", *lines])
    asked = asking(model, votes, reasks, params)
    return _Rubric(name, asked, Prompt(template, _how_to_reply(steps)), tuple(questions), steps)


def _checked_criteria(criteria: Any) -> dict[str, str]:
    if not isinstance(criteria, Mapping):
        raise wrong_type("criteria", "must be a dict of questions by name", criteria)
    if not criteria:
        raise wrong_value("criteria", "must be at least one question", {})
    for criterion, question in criteria.items():
        if not isinstance(criterion, str) or not isinstance(question, str):
            raise wrong_type("criteria", f"{criterion!r}: {question!r}: both must be strings")
        if not criterion.strip() or not question.strip():
            raise wrong_value("criteria", f"{criterion!r}: {question!r}: must not be empty")
        if any(brace in criterion for brace in _BRACES):
            raise wrong_value("criteria", f"the name {criterion!r} must not contain {{ or }}")
    return dict(criteria)


def _how_to_reply(steps: range | None) -> str:
    answer = '"yes" or "no"' if steps is None else f"a whole number from {steps[0]} to {steps[-1]}"
    return (
        "Answer each question on its own. Reply with a JSON object that has the name of each "
        'question, in their order, and nothing else; under each name an object of "reason" and '
        '"answer", in this order. "reason" is a string: why, in a few sentences. "answer" follows '
        f"from it, and is {answer}."
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _schema(criteria: Sequence[str], steps: range | None) -> dict[str, Any]:
    answer = (
        {"type": "string", "enum": list(YES_OR_NO)}
        if steps is None
        else {"type": "integer", "enum": list(steps)}
    )
    one = {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "answer": answer},
        "required": ["reason", "answer"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": dict.fromkeys(criteria, one),
        "required": list(criteria),
        "additionalProperties": False,
    }


class _Rubric(ModelEvaluator):
    """Answers several questions; see `rubric`."""

    kind = "rubric"

    def __init__(
        self,
        name: str,
        asked: Asking,
        prompt: Prompt,
        criteria: tuple[str, ...],
        steps: range | None,
    ) -> None:
        super().__init__(name, asked, prompt, _schema(criteria, steps))
        self.scale = Scale(range=(0, 1) if steps is None else (steps[0], steps[-1]))
        self._criteria = criteria
        self._steps = steps

    def _own_settings(self) -> dict[str, Any]:
        steps = self._steps
        return {
            "criteria": list(self._criteria),
            "scale": None if steps is None else [steps[0], steps[-1]],
        }

    def _read(self, reply: Reply) -> dict[str, Any]:
        parsed = object_in(reply, self._criteria)
        return {"answers": {name: self._answer(reply, parsed[name]) for name in self._criteria}}

    def _answer(self, reply: Reply, given: Any) -> dict[str, Any]:
        reason, answer = reason_and(reply, "answer", given)
        if self._steps is not None:
            return {"reason": reason, "answer": checked_rating(reply, answer, self._steps)}
        if not isinstance(answer, str) or answer not in YES_OR_NO:
            raise invalid(reply, f"answer must be 'yes' or 'no', not {brief(answer)}")
        return {"reason": reason, "answer": answer}

    def _scores(self, ballots: Sequence[Ballot]) -> Scores:
        return {
            name: self._score([vote["answers"][name] for vote in ballots])
            for name in self._criteria
        }

    def _score(self, answers: Sequence[Mapping[str, Any]]) -> Score:
        if self._steps is not None:
            return mean(
                [Vote[int](given["answer"], given["reason"]) for given in answers], self._jurors
            )
        votes = [Vote[str](given["answer"], given["reason"]) for given in answers]
        return majority(votes, YES_OR_NO, self._jurors)
