"""What do the built-in evaluators share?

Each is a frozen dataclass of its options with a `score` method. Its fingerprint covers all options,
so none can be forgotten, but not the name. They run on the event loop: most take microseconds, less
than starting a thread.

An item without a usable expected value is an error, never a zero: the answer may well be right.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NoReturn

from limpet import arguments
from limpet.errors import PermanentError, wrong_type, wrong_value
from limpet.evaluators.protocol import Evaluator, Scored, Scores, checked_name
from limpet.fingerprints.keys import digest
from limpet.json_values import NotPlainError, to_plain
from limpet.shapes import Scale, Score
from limpet.text import one_line

_BRIEF = 80


@dataclass(frozen=True)
class BuiltIn(Evaluator):
    """An evaluator that needs only its options.

    Attributes:
        name: The name of its column.
        kind: Which built-in evaluator it is.
        version: Increased when its scoring changes: then all its scores are redone.
    """

    name: str
    kind: ClassVar[str]
    version: ClassVar[int] = 1
    endpoint = None
    scale = Scale(range=(0, 1))

    def __post_init__(self) -> None:
        checked_name(self.name)
        for field in dataclasses.fields(self):
            if field.type is bool:
                arguments.true_or_false(**{field.name: getattr(self, field.name)})
        object.__setattr__(self, "reads", self._reads())

    def _reads(self) -> frozenset[str]:
        return frozenset({"output", "expected"})

    @cached_property
    def fingerprint(self) -> dict[str, str]:  # type: ignore[override]  # it is only read
        """What its scores depend on: its kind, options and version."""
        return {self.kind: digest(self.kind, self._options, self.version)}

    @property
    def _options(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self) if field.name != "name"]
        return {name: getattr(self, name) for name in names}

    @property
    def described(self) -> dict[str, Any]:
        """The contents of the fingerprint, for people."""
        return {self.kind: self._options}

    async def call(self, scored: Scored) -> Scores:
        return {"score": self.score(scored)}

    def score(self, scored: Scored) -> Score:
        raise NotImplementedError

    # ---- for the subclasses ---------------------------------------------------------------------

    def _expected(self, scored: Scored) -> Any:
        """Return the item's expected value.

        Raises:
            PermanentError: The item has none.
        """
        if scored.expected is None:
            raise PermanentError(
                f"{item_name(scored)} has no expected value",
                hint="fill the row's expected column, or set the dataset's `expected` to another",
            )
        return scored.expected

    def _expected_values(self, scored: Scored) -> list[Any]:
        """Return the item's expected values: the elements of a list, or a single value."""
        expected = self._expected(scored)
        if not isinstance(expected, (list, tuple, set, frozenset)):
            return [expected]
        if not expected:
            self._reject(scored, "is an empty list: name at least one value")
        return list(expected)

    def _expected_strings(self, scored: Scored) -> list[str]:
        """Return the item's expected values, strings or numbers, as strings."""
        strings = []
        for value in self._expected_values(scored):
            string = as_string(value)
            if string is None:
                self._reject(scored, f"must be a string, but contains {brief(value)}")
            strings.append(string)
        return strings

    def _reject(self, scored: Scored, why: str) -> NoReturn:
        """Raise the error for an unusable expected value."""
        expected = brief(scored.expected)
        raise PermanentError(f"{item_name(scored)}: its expected value {expected} {why}")


# ---- options ------------------------------------------------------------------------------------


def check_choice(allowed: tuple[str | None, ...], /, **option: Any) -> None:
    """Check that the option is one of the allowed values."""
    ((name, value),) = option.items()
    if value not in allowed:
        raise wrong_value(name, f"must be one of {', '.join(map(repr, allowed))}", value)


def set_of_strings(**option: Any) -> tuple[str, ...]:
    """Return the option, a list of strings, sorted and without repeats."""
    ((name, value),) = option.items()
    if isinstance(value, str):
        raise wrong_type(name, f"must be a list of strings, for example [{value!r}]", value)
    if not isinstance(value, Iterable):
        raise wrong_type(name, "must be a list of strings", value)
    strings = tuple(value)
    if wrong := [string for string in strings if not isinstance(string, str)]:
        raise wrong_type(name, f"must contain only strings, not {wrong[0]!r}")
    return tuple(sorted(set(strings)))


# ---- values -------------------------------------------------------------------------------------


def item_name(scored: Scored) -> str:
    """Return the item's name in messages."""
    if scored.where:
        return scored.where
    return "the item" if scored.item is None else f"item {scored.item.id!r}"


def as_string(value: Any) -> str | None:
    """Return a string unchanged and a number as a string; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (Real, Decimal)):
        return str(value)
    return value if isinstance(value, str) else None


def as_read_back(value: Any) -> Any:
    """Return a value as it is read back from disk: a tuple as a list, a dataclass as a dict."""
    try:
        return value if isinstance(value, str) else to_plain(value)
    except NotPlainError:
        return value


def why_no_string(output: Any) -> str:
    """Return the explanation for an output that is not a string."""
    if output is None:
        return "there is no output"
    return f"the output is a {type(output).__name__}, not a string"


def brief(value: Any) -> str:
    """Return a value in a few words; a string in quotes, since only a space may differ."""
    text = one_line(repr(value) if isinstance(value, str) else value)
    return text if len(text) <= _BRIEF else text[: _BRIEF - 1] + "…"
