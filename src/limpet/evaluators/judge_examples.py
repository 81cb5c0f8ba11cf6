"""How are judged examples shown to a model: as earlier turns of the conversation."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from limpet.evaluators.builtin import brief
from limpet.evaluators.judge_prompt import Prompt, Values
from limpet.templates import value_as_text


def judged_examples(
    examples: Any, prompt: str, answer: str, allowed: Iterable[Any]
) -> list[tuple[Values, str]]:
    """Return the values and the reply of each example.

    Args:
        examples: Dicts with a value for each placeholder, a `reason` and the answer.
        prompt: The template.
        answer: The key of the answer.
        allowed: The answers that there are.

    Raises:
        TypeError: They are not a list of dicts, or a reason is not a string.
        ValueError: One lacks a value, has one too many, or another answer.
    """
    if isinstance(examples, (str, Mapping)) or not isinstance(examples, Iterable):
        raise TypeError(f"examples={examples!r}: must be a list of dicts")
    names, answers = Prompt(prompt, "").names, list(allowed)
    return [
        _example(example, f"examples: number {number}", names, answer, answers)
        for number, example in enumerate(examples, 1)
    ]


def _example(
    example: Any, where: str, names: Sequence[str], answer: str, allowed: list[Any]
) -> tuple[Values, str]:
    if not isinstance(example, Mapping):
        raise TypeError(f"{where} is {brief(example)}: must be a dict")
    keys = (*names, "reason", answer)
    for key in keys:
        if key not in example:
            raise ValueError(f"{where} has no {key!r}; it needs {', '.join(keys)}")
    for key in example:
        if key not in keys:
            raise ValueError(f"{where} has {key!r}, which the prompt does not show")
    reason, given = example["reason"], example[answer]
    if not isinstance(reason, str):
        raise TypeError(f"{where}: its reason {brief(reason)} must be a string")
    if given not in allowed or isinstance(given, bool):
        one_of = ", ".join(map(str, allowed))
        raise ValueError(f"{where}: its {answer} {brief(given)} must be one of {one_of}")
    reply = json.dumps({"reason": reason, answer: given}, ensure_ascii=False)
    return {name: value_as_text(example[name]) for name in names}, reply
