"""Which ready prompts are there for judges?

Their texts are files in `prompts/`. Each has a page in docs/reference/judges.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from limpet.text import did_you_mean, one_line

_TEXTS = Path(__file__).with_name("prompts")


@dataclass(frozen=True, slots=True)
class ReadyPrompt:
    """A prompt that asks one question well.

    Attributes:
        text: The template.
        choices: The value of each of its labels.
    """

    text: str
    choices: Mapping[str, float]


READY: Mapping[str, Mapping[str, float]] = {
    "correctness": {"correct": 1, "incorrect": 0},
    "faithfulness": {"faithful": 1, "unfaithful": 0},
    "relevance": {"relevant": 1, "irrelevant": 0},
    "document_relevance": {"relevant": 1, "irrelevant": 0},
    "refusal": {"refused": 1, "answered": 0},
    "toxicity": {"toxic": 1, "acceptable": 0},
    "conciseness": {"concise": 1, "wordy": 0},
    "tool_choice": {"right": 1, "wrong": 0},
    "tool_arguments": {"right": 1, "wrong": 0},
}
"""The choices of each ready prompt, by its name.

The value is 1 for what the name says: the mean of `toxicity` is the share of toxic outputs."""


def ready_prompt(name: str) -> ReadyPrompt:
    """Return a ready prompt.

    Raises:
        ValueError: There is none of this name.
    """
    if name not in list(READY):  # it may not be hashable
        near = did_you_mean(name, READY) if isinstance(name, str) else ""
        raise ValueError(f"of={one_line(name)!r}: must be one of {', '.join(READY)}{near}")
    return ReadyPrompt(_text(name), READY[name])


@cache
def _text(name: str) -> str:
    return _TEXTS.joinpath(f"{name}.txt").read_text("utf-8").strip()
