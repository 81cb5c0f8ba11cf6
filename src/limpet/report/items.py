"""What are the results of a run's items? As tables and as data."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from limpet.report.tables import Indented, cell, plain_table
from limpet.report.words import in_full, mean, shown
from limpet.run.results.evaluation_result import ItemResult, shown_values, values_of
from limpet.text import one_line


def items_table(items: Sequence[ItemResult], evaluators: Sequence[str]) -> Table:
    """Return a table of items with input, output and each evaluator's score."""
    table = plain_table("id", "input", "output", *evaluators, numbers=evaluators)
    for item in items:
        scores = [cell(_score_words(item, name)) for name in evaluators]
        table.add_row(cell(one_line(item.id)), cell(shown(item.input)), _output(item), *scores)
    return table


def scores_table(items: Sequence[ItemResult], evaluator: str) -> Table:
    """Return a table of items with one evaluator's score and reason."""
    table = plain_table("id", "output", evaluator, "reason", numbers=[evaluator])
    for item in items:
        cells = [cell(_score_words(item, evaluator)), cell(_reason(item, evaluator))]
        table.add_row(cell(one_line(item.id)), _output(item), *cells)
    return table


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


def _score_words(item: ItemResult, evaluator: str) -> str:
    """Return an evaluator's score of an item in a few words; a dash if there is none."""
    if evaluator in item.score_errors:
        return "failed"
    score = item.scores.get(evaluator)
    return "–" if score is None else values_words(score)


def values_words(score: Mapping[str, Any]) -> str:
    """Return the values of a score: `0.5`, or `style 1, tone 0.5`."""
    label = score.get("label") if score.get("score") is not None else None
    words = [
        _number(value) if part is None else f"{one_line(part)} {_number(value)}"
        for part, value in shown_values(score)
    ]
    return ", ".join(words) + (f" ({one_line(label)})" if label else "")


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return mean(value) if isinstance(value, (int, float)) else shown(value) or "–"


def _reason(item: ItemResult, evaluator: str) -> str:
    """Return why an item has its score, or why it has none."""
    error = item.score_errors.get(evaluator)
    if error is not None:
        return error_words(error)
    return shown(item.scores.get(evaluator, {}).get("reasoning"))


def lowest(item: ItemResult, evaluator: str) -> float | None:
    """Return the lowest of an evaluator's values for an item; None if it has none."""
    score = item.scores.get(evaluator)
    if score is None:
        return None
    numbers = [float(value) for _, value in values_of(score) if isinstance(value, (int, float))]
    return min(numbers, default=None)


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
