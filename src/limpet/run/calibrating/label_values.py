"""What does a person's label mean: which of the judge's labels, and which value?

A label of the judge means the value that its scores with this label have. A number means itself,
and yes, no, true and false mean 1 and 0, if the score's range has them. Nothing else is a label:
a word that is not understood is never turned into a number.
"""

import ast
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from limpet.journal.layout import Layout
from limpet.text import one_line
from limpet.types import Scale

if TYPE_CHECKING:
    from limpet.run.reading.reader import RunReader

UNIT = (0.0, 1.0)
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


class Scores(Protocol):
    """The scores of a judge, as far as they say what its labels mean."""

    @property
    def has_booleans(self) -> bool:
        """Whether its values are true and false."""

    @property
    def values(self) -> Collection[Any]:
        """Its values; empty: it has none."""

    @property
    def by_label(self) -> Mapping[str, set[float]]:
        """By label, the values that scores with it have."""


class Meaning(NamedTuple):
    """What a label means.

    Attributes:
        value: Its value; None: the judge's labels have none.
        label: The judge's label; empty: it is only a number.
    """

    value: float | None
    label: str


class LabelValues:
    """What the labels of a judge mean.

    Args:
        scores: What the judge said.
        range_: The range of its score; None: any number.
        choices: The labels that it may give, with their values, as far as known.
    """

    def __init__(
        self,
        scores: Scores,
        range_: tuple[float, float] | None,
        choices: Mapping[str, float | None],
    ) -> None:
        self.range = range_
        self._has_booleans = scores.has_booleans
        self.has_values = bool(scores.values)
        known = {label: set(values) for label, values in scores.by_label.items()}
        for label, value in choices.items():
            known.setdefault(label, set() if value is None else {float(value)})
        self._by_label = known
        self._folded = {label.casefold(): label for label in reversed(known)}
        by_value: dict[float, list[str]] = {}
        for label, values in known.items():
            for value in values:
                by_value.setdefault(value, []).append(label)
        self._by_value = {value: labels[0] for value, labels in by_value.items() if not labels[1:]}

    def meaning(self, written: Any) -> Meaning | str:
        """Return what a person's label means, or why it means nothing."""
        word = "" if isinstance(written, (bool, int, float)) else str(written).strip()
        label = word if word in self._by_label else self._folded.get(word.casefold())
        if label is not None:
            return self._of_label(label)
        number = _number(written)
        if number is None or not self.has_values:
            return f"{one_line(written)!r} is not a label of the judge"
        if self.range is not None and not self.range[0] <= number <= self.range[1]:
            low, high = self.range
            return f"{one_line(written)} is outside of the score's range, {low:g} to {high:g}"
        if word.casefold() in _WORDS and self.range != UNIT:
            return f"{one_line(written)!r} has no value here: the score is not between 0 and 1"
        return Meaning(number, self._by_value.get(number, ""))

    def _of_label(self, label: str) -> Meaning | str:
        values = self._by_label[label]
        if len(values) > 1:
            some = ", ".join(f"{value:g}" for value in sorted(values)[:5])
            return f"{one_line(label)!r} stands for several scores ({some}): write the number"
        return Meaning(next(iter(values), None), label)

    @property
    def words(self) -> str:
        """What a label may be."""
        labels = ", ".join(map(one_line, sorted(self._by_label)))
        if not self.has_values:
            return labels
        numbers = "a number"
        if self.range is not None:
            numbers = f"a number from {self.range[0]:g} to {self.range[1]:g}"
        yes_or_no = ", yes or no" if self.range == UNIT else ""
        return f"{labels}, {numbers}{yes_or_no}" if labels else f"{numbers}{yes_or_no}"

    def name(self, value: float) -> str:
        """Return a value in a word."""
        if label := self._by_value.get(value):
            return label
        if self._has_booleans and value in UNIT:
            return "yes" if value else "no"
        return f"{value:g}"


def _number(written: Any) -> float | None:
    if isinstance(written, (bool, int, float)):
        number = float(written)
    else:
        word = str(written).strip()
        if word.casefold() in _WORDS:
            return _WORDS[word.casefold()]
        try:
            number = float(word)
        except ValueError:
            return None
    return number if math.isfinite(number) else None


def choices_of(layout: Layout, evaluator: str, fingerprint: str) -> dict[str, float | None]:
    """Return the labels of a judge with their values; empty if they are not known.

    A judge may never have given one of them, and a person does.
    """
    from limpet.run.planning.identity_file import read_identity  # noqa: PLC0415 - slow to import

    kept = read_identity(layout).steps.get(evaluator)
    if kept is None or kept.version != fingerprint or "choices" not in kept.shown:
        return {}
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        choices = ast.literal_eval(kept.shown["choices"].text or "")
        if isinstance(choices, dict):
            return {
                label: None if value is None else float(value)
                for label, value in choices.items()
                if isinstance(label, str) and isinstance(value, (int, float, type(None)))
            }
    return {}


def scale_of(reader: "RunReader", evaluator: str, values: Collection[float]) -> Scale:
    """Return what a score means, as declared. Its range is 0 to 1 if all values are in that."""
    scale = reader.run_file.scales.get(evaluator, Scale())
    if scale.range is None and (not values or (min(values) >= 0 and max(values) <= 1)):
        return replace(scale, range=UNIT)
    return scale
