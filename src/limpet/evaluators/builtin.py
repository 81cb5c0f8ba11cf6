"""What do the evaluators that come with Limpet have in common?

Each is a frozen record of its options with one method that scores. The fingerprint is made of the
options, all of them, so that none can be forgotten; the name is not among them. They run on the
event loop: most take microseconds, and a thread would take longer.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from limpet.evaluators.naming import checked_name
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.fingerprints.keys import digest
from limpet.types import Score


@dataclass(frozen=True)
class BuiltIn(Evaluator):
    """An evaluator that needs nothing but its options.

    Attributes:
        name: What its column is called.
        kind: Which of the built-in ones it is.
        version: Raised when it scores anything differently: then all of its scores are made again.
    """

    name: str
    kind: ClassVar[str]
    version: ClassVar[int] = 1
    endpoint = None

    def __post_init__(self) -> None:
        checked_name(self.name)
        check_flags(self)
        object.__setattr__(self, "reads", self._reads())

    def _reads(self) -> frozenset[str]:
        return frozenset({"output", "expected"})

    @cached_property
    def fingerprint(self) -> dict[str, str]:  # type: ignore[override]  # it is only read
        """Return what its scores depend on: which one it is, its options and its version."""
        return {self.kind: digest(self.kind, self._options, self.version)}

    @property
    def _options(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)
        return {one.name: getattr(self, one.name) for one in fields if one.name != "name"}

    @property
    def described(self) -> dict[str, Any]:
        """What the fingerprint is made of, for people."""
        return {self.kind: self._options}

    async def call(self, scored: Scored) -> Scores:
        return {"score": self.score(scored)}

    def score(self, scored: Scored) -> Score:
        raise NotImplementedError


def check_flags(options: Any) -> None:
    """Refuse an option that should be True or False and is something else."""
    for one in dataclasses.fields(options):
        value = getattr(options, one.name)
        if one.type is bool and not isinstance(value, bool):
            raise TypeError(f"{one.name}={value!r}: must be True or False")


def one_among(allowed: tuple[str | None, ...], /, **option: Any) -> Any:
    """Return the option if it is one of the allowed words."""
    ((name, value),) = option.items()
    if value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise ValueError(f"{name}={value!r}: must be one of {words}")
    return value


def several_texts(**option: Any) -> tuple[str, ...]:
    """Return the option as a tuple if it is a list of texts."""
    ((name, value),) = option.items()
    if isinstance(value, str):
        raise TypeError(f"{name}={value!r}: must be a list of texts; write {name}=[{value!r}]")
    try:
        texts = tuple(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: must be a list of texts") from None
    if wrong := [one for one in texts if not isinstance(one, str)]:
        raise TypeError(f"{name}: {wrong[0]!r} is no text")
    return texts
