"""What are the results of a run's items, also by field, and which failures share a cause?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from limpet.report.tables import FittedTable, Indented, cell
from limpet.report.words import in_full, p_value, shown
from limpet.run.executing.guards import alike
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import (
    ScoreName,
    parts_of,
    score_data,
    score_words,
    values_words,
)
from limpet.text import one_line

# ---- The results of a run's items, as tables and as data. ---------------------------------------


def items_table(
    items: Sequence[ItemRecord], names: Sequence[ScoreName], *, trials: bool, reasons: bool
) -> FittedTable:
    """Return a table of items with these scores.

    Args:
        items: The items.
        names: The scores.
        trials: Show which trial it is.
        reasons: Show the expected answer, and the reasons of the scores.
    """
    # Without expected answers, leave out the column: narrow terminals need the space.
    expected = reasons and any(item.expected is not None for item in items)
    titles = ["id", *(["trial"] if trials else []), "input", *(["expected"] if expected else [])]
    table = FittedTable([*titles, "output"], [one_line(str(name)) for name in names], ["trial"])
    for item in items:
        cells = {"id": one_line(item.id), "trial": f"{item.trial}", "input": shown(item.input)}
        cells["expected"] = shown(item.expected)
        scores = {one_line(str(name)): words for name in names if (words := _words(item, name))}
        table.add(
            [*(cell(cells[title]) for title in titles), _output(item)],
            scores,
            dict(_reasons(item, names)) if reasons else {},
        )
    return table


def score_names(
    items: Iterable[ItemRecord], evaluators: Iterable[str], only: ScoreName | None = None
) -> list[ScoreName]:
    """Return the names of all scores of the items, at least one for each evaluator."""
    names: dict[str, dict[ScoreName, None]] = {name: {} for name in evaluators}
    for item in items:
        for name, score in item.scores.items():
            if name in names:
                names[name] |= {ScoreName(name, part): None for part, _ in parts_of(score)}
    known = [name for evaluator in names for name in names[evaluator] or [ScoreName(evaluator)]]
    if only is None:
        return known
    return [name for name in known if only in (name, ScoreName(name.evaluator))] or [only]


def traceback_lines(error: Mapping[str, Any]) -> Iterator[Indented]:
    """Yield the traceback of a failure, if it has one."""
    if error.get("traceback"):
        yield Indented(in_full(error["traceback"]), "dim")


def error_words(error: Mapping[str, Any]) -> str:
    """Return a failure in a few words: `timeout: no answer within 10 s`."""
    return one_line(f"{error.get('class')}: {error.get('message')}")


def _output(item: ItemRecord) -> Text:
    if item.is_completed:
        return cell(shown(item.output))
    if item.error is None:
        return cell(item.status.words, style="dim")
    return cell(f"failed, {error_words(item.error)}", style="yellow")


def _words(item: ItemRecord, name: ScoreName) -> str:
    """Return a score of an item in a few words; empty if there is none."""
    if name.evaluator in item.score_errors:
        return "failed"
    return ", ".join(values_words(record) for record in name.records(item.scores))


def _reasons(item: ItemRecord, names: Sequence[ScoreName]) -> Iterator[tuple[str, str]]:
    """Yield why an item has its scores, or why it has none."""
    for name in names:
        error = item.score_errors.get(name.evaluator)
        if error is not None:
            yield one_line(name.evaluator), error_words(error)
            continue
        for record in name.records(item.scores):
            if why := record.get("explanation"):
                # A tie has the reasons of both sides, each on its own line.
                text = " · ".join(why.splitlines()) if isinstance(why, str) else why
                yield one_line(name.part or name.evaluator), shown(text)


def item_data(item: ItemRecord) -> dict[str, Any]:
    """Return an item as JSON data."""
    return {
        "id": item.id,
        "trial": item.trial,
        "status": item.status.value,
        "input": item.input,
        "expected": item.expected,
        "output": item.output,
        "scores": score_data(item.scores),
        "error": item.error,
        "score_errors": item.score_errors,
        "attempts": item.attempts,
        "seconds": item.seconds,
        "usage": dict(item.usage),
        "at": item.at or None,
        "masked": list(item.masked),
        "saw_masked": list(item.saw_masked),
        "by_current_version": not item.version,
        "redo": item.redo,
    }


# ---- What are the means for each value of a dataset's field? ------------------------------------

_BY_CHANCE = 0.05
"""A difference is shown if its adjusted p value is at most this."""


def groups_table(
    groups: Sequence[Mapping[str, Any]], field: str, only: ScoreName | None = None
) -> FittedTable:
    """Return a table of groups with their means."""
    scores = [_field_words(group, only) for group in groups]
    names = dict.fromkeys(name for of_group in scores for name in of_group)
    names |= dict.fromkeys(_unscored(groups, only))
    with_failed = any(group["workflow"]["failed"] for group in groups)
    numbers = ["items", *(["failed"] if with_failed else [])]
    table = FittedTable([one_line(field), *numbers], list(names), numbers)
    for group, of_group in zip(groups, scores, strict=True):
        failed = sum(group["workflow"]["failed"].values())
        cells = [shown(group["value"]) or "–", f"{group['n']:,}"]
        cells += [f"{failed:,}" if failed else ""] if with_failed else []
        table.add([*map(cell, cells)], of_group, {})
    return table


def difference_lines(
    groups: Sequence[Mapping[str, Any]], only: ScoreName | None = None
) -> list[str]:
    """Return the groups that differ significantly from the rest, a line each."""
    lines, is_tested = [], False
    for group in groups:
        for name, score in group["scores"].items():
            about = score.get("from_rest")
            if about is None or not _is_wanted(name, score, only):
                continue
            is_tested = True
            if apart := apart_words(about):
                value = shown(group["value"]) or "–"
                lines.append(f"{value}: {one_line(name)} is {apart}")
    adjusted = "p values adjusted by Benjamini–Hochberg"
    if is_tested:
        lines = [*lines, adjusted] if lines else [f"no group differs from the rest ({adjusted})"]
    return [*lines, *_grouped(groups, only)]


def apart_words(from_rest: Mapping[str, Any]) -> str:
    """Return how a mean differs from that of the rest; empty: it may be by chance."""
    if from_rest["p_adjusted"] > _BY_CHANCE:
        return ""
    way = "above" if from_rest["difference"] > 0 else "below"
    p = p_value(from_rest["p_adjusted"]).replace("<", "< ")
    return f"{abs(from_rest['difference']):.3g} {way} the rest (p {p})"


def _is_wanted(name: str, score: Mapping[str, Any], only: ScoreName | None) -> bool:
    """Return whether `only` names this score, or its evaluator."""
    return only is None or str(only) in (name, score["evaluator"])


def _grouped(groups: Sequence[Mapping[str, Any]], only: ScoreName | None) -> Iterator[str]:
    """Yield which scores are grouped: their intervals are wider."""
    scores = groups[0]["scores"].values() if groups else ()
    fields = {score["evaluator"]: score.get("group") for score in scores}
    for name, group in fields.items():
        if group and (only is None or only.evaluator == name):
            yield f"{one_line(name)}: items with the same {one_line(group)} count as one group"


def _field_words(group: Mapping[str, Any], only: ScoreName | None) -> dict[str, str]:
    return {
        one_line(name): score_words(score)
        for name, score in group["scores"].items()
        if score["completed"]  # else the names of the evaluator's scores are not known here
        if _is_wanted(name, score, only)
    }


def _unscored(groups: Sequence[Mapping[str, Any]], only: ScoreName | None) -> list[str]:
    """Return the evaluators that have scored nothing in any group."""
    return [
        one_line(name)
        for name in groups[0]["evaluators"]
        if not any(group["evaluators"][name]["completed"] for group in groups)
        if only is None or only.evaluator == name
    ]


# ---- Which failures share a cause? --------------------------------------------------------------

_MOST_IDS = 5


@dataclass(slots=True)
class FailureGroup:
    """Failures of one step that share a cause.

    Attributes:
        step: The step.
        error: The first of them, as in `failures.jsonl`.
        alike: What they share: class, type, and the message without particulars.
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


def grouped(items: Iterable[ItemRecord], step: str | None = None) -> list[FailureGroup]:
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


def _failures(item: ItemRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
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
