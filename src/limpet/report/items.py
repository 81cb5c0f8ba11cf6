"""What are the results of a run's items? As tables and as data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from limpet.report.score_table import ScoreTable
from limpet.report.tables import Indented, cell
from limpet.report.words import in_full, shown
from limpet.run.results.evaluation_result import ItemResult
from limpet.run.results.score_words import ScoreName, parts_of, values_words
from limpet.text import one_line


def items_table(
    items: Sequence[ItemResult], names: Sequence[ScoreName], *, trials: bool, reasons: bool
) -> ScoreTable:
    """Return a table of items with these scores.

    Args:
        items: The items.
        names: The scores.
        trials: Show which trial it is.
        reasons: Show the expected answer, and the reasons of the scores.
    """
    # Without expected answers, leave out the column: narrow terminals need the space.
    expected = reasons and any(item.expected is not None for item in items)
    heads = ["id", *(["trial"] if trials else []), "input", *(["expected"] if expected else [])]
    table = ScoreTable([*heads, "output"], [one_line(str(name)) for name in names], ["trial"])
    for item in items:
        cells = {"id": one_line(item.id), "trial": f"{item.trial}", "input": shown(item.input)}
        cells["expected"] = shown(item.expected)
        scores = {one_line(str(name)): words for name in names if (words := _words(item, name))}
        table.add(
            [*(cell(cells[head]) for head in heads), _output(item)],
            scores,
            dict(_reasons(item, names)) if reasons else {},
        )
    return table


def score_names(
    items: Iterable[ItemResult], evaluators: Iterable[str], only: ScoreName | None = None
) -> list[ScoreName]:
    """Return the names of all scores of the items, of each evaluator at least one."""
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


def _output(item: ItemResult) -> Text:
    if item.is_completed:
        return cell(shown(item.output))
    if item.error is None:
        return cell(item.status.words, style="dim")
    return cell(f"failed, {error_words(item.error)}", style="yellow")


def _words(item: ItemResult, name: ScoreName) -> str:
    """Return a score of an item in a few words; empty if there is none."""
    if name.evaluator in item.score_errors:
        return "failed"
    return ", ".join(values_words(record) for record in name.records(item))


def _reasons(item: ItemResult, names: Sequence[ScoreName]) -> Iterator[tuple[str, str]]:
    """Yield why an item has its scores, or why it has none."""
    for name in names:
        error = item.score_errors.get(name.evaluator)
        if error is not None:
            yield one_line(name.evaluator), error_words(error)
            continue
        for record in name.records(item):
            if reasoning := record.get("reasoning"):  # one of several scores without any has {}
                # A tie has the reasons of both sides, on lines of their own.
                text = (
                    " · ".join(reasoning.splitlines()) if isinstance(reasoning, str) else reasoning
                )
                yield one_line(name.part or name.evaluator), shown(text)


def item_data(item: ItemResult) -> dict[str, Any]:
    """Return an item as JSON data."""
    return {
        "id": item.id,
        "trial": item.trial,
        "status": item.status.value,
        "input": item.input,
        "expected": item.expected,
        "output": item.output,
        "scores": item.scores,
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
