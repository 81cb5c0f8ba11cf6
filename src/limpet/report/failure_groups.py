"""Which failures share a cause?"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from limpet.report.items import traceback_lines
from limpet.report.tables import Indented
from limpet.run.executing.guards import alike
from limpet.run.results.evaluation_result import ItemResult
from limpet.text import one_line

_MOST_IDS = 5


@dataclass(slots=True)
class FailureGroup:
    """Failures of one step that share a cause.

    Attributes:
        step: The step.
        error: The first of them, as in `failures.jsonl`.
        alike: What they have in common: class, type, and message without particulars.
        ids: The items in dataset order; the first is the example.
        trials: The trial of each of them.
    """

    step: str
    error: Mapping[str, Any]
    alike: str
    ids: list[str] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)

    def named(self, most: int) -> list[str]:
        """Return the first ids, with their trials if there are several."""
        pairs = zip(self.ids[:most], self.trials, strict=False)
        if not any(self.trials):
            return [one_line(id_) for id_, _ in pairs]
        return [f"{one_line(id_)} (trial {trial})" for id_, trial in pairs]


def grouped(items: Iterable[ItemResult], step: str | None = None) -> list[FailureGroup]:
    """Group failures by cause, the most frequent first; None includes all steps."""
    groups: dict[tuple[str, str], FailureGroup] = {}
    for item in items:
        for name, error in _failures(item):
            if step is None or name == step:
                common = alike(*(str(error.get(part, "")) for part in ("class", "type", "message")))
                group = groups.setdefault((name, common), FailureGroup(name, error, common))
                group.ids.append(item.id)
                group.trials.append(item.trial)
    return sorted(groups.values(), key=lambda group: -len(group.ids))


def _failures(item: ItemResult) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if item.error is not None:
        yield "workflow", item.error
    yield from item.score_errors.items()
    for step, error in item.redo.items():
        if error is not None and item.error is None and step not in item.score_errors:
            yield f"{step}, run again", error


def group_lines(group: FailureGroup) -> Iterator[Any]:
    """Yield a group's count, message and example, line by line."""
    error = group.error
    what = f"{error.get('class', '')}, {error.get('type', '')}: {error.get('message', '')}"
    yield Text(f"{len(group.ids):,} × {one_line(group.step)}: ", style="bold") + Text(
        one_line(what), style="yellow"
    )
    example, *others = group.named(_MOST_IDS + 1)
    more = len(group.ids) - 1 - len(others)
    named = f"for example {example}" if others else f"item {example}"
    named += f"; also {', '.join(others)}" if others else ""
    yield Indented(named + (f" and {more:,} more" if more else ""))
    yield from traceback_lines(error)


def group_data(group: FailureGroup) -> dict[str, Any]:
    """Return a group as JSON data."""
    return {
        "step": group.step,
        "class": group.error.get("class"),
        "type": group.error.get("type"),
        "count": len(group.ids),
        "alike": group.alike,
        "example": {"id": group.ids[0], **group.error},
        "ids": group.ids,
        "trials": group.trials,
    }
