"""How are runs compared: which scores, over which items, and what may differ?"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from limpet.arguments import whole_number_from
from limpet.errors import LimpetError
from limpet.text import did_you_mean, quoted

ALLOWED = ("rows", "evaluators", "trials")


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How runs are compared: the arguments of `limpet.compare`."""

    evaluator: str | None = None
    group: str | None = None
    by: str | None = None
    allow: Collection[str] = ()
    these_questions: bool = False
    fail_if_worse: Mapping[str, float] = field(default_factory=dict)
    flips: int = 5

    def __post_init__(self) -> None:
        words = self.allow.split(",") if isinstance(self.allow, str) else list(self.allow)
        object.__setattr__(self, "allow", frozenset(word.strip() for word in words if word))
        for word in sorted(self.allow):
            if word not in ALLOWED:
                near = did_you_mean(word, ALLOWED)
                raise LimpetError(
                    f"allow: {quoted(word)} is none of {', '.join(ALLOWED)}{near}",
                    hint="compare without it first: what differs is named",
                )
        for name in ("evaluator", "group", "by"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name}={value!r}: must be a string")
        for name, margin in self.fail_if_worse.items():
            is_number = isinstance(margin, (int, float)) and not isinstance(margin, bool)
            if not is_number or not (math.isfinite(margin) and margin >= 0):
                raise LimpetError(f"fail_if_worse: {name}={margin!r}: must be a number from 0")
        whole_number_from(0, flips=self.flips)
        if self.these_questions and self.group is not None:
            raise LimpetError(
                "these_questions and group cannot be combined: of these very questions, only the "
                "trials are a sample"
            )
