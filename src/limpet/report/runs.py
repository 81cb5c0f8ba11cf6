"""Which runs exist, and what is their state?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from limpet.errors import JournalError, LimpetError
from limpet.report.tables import cell, plain_table
from limpet.report.words import ago, label_counts, mean
from limpet.run.reading import RunReader
from limpet.run.reading.find_run import MATRIX_FILE, is_run, runs_in
from limpet.run.results.filters import ScoreName
from limpet.text import one_line, text_of


class RunLine(NamedTuple):
    """A run in one line."""

    run: str
    state: str
    done: int = 0  # items with an answer
    total: int = 0
    failed: int = 0  # cells of all steps
    means: Mapping[str, float | None] = {}  # when a session last ended
    by_current_version: tuple[int, int] | None = None  # and of how many; None if there is only one
    last_at: str | None = None
    why: str | None = None  # it is unreadable
    labels: Mapping[str, Mapping[str, int]] = {}  # how often each label was given


def line_of(path: Path) -> RunLine:
    """Summarise a run without reading its answers: there may be a hundred runs."""
    try:
        with RunReader(path) as reader:
            steps = reader.counts.steps
            scores = _scores(reader)
            named_labels = _named(scores, "labels", "labels_by_score")
            done, total = (steps[0].kept + steps[0].done, steps[0].total) if steps else (0, 0)
            return RunLine(
                str(path),
                reader.state,
                done,
                total,
                sum(sum(step.failed.values()) for step in steps),
                _named(scores, "mean", "means"),
                reader.by_current_version,
                reader.last_at or None,
                labels={name: labels for name, labels in named_labels.items() if labels},
            )
    except (OSError, LimpetError, ValueError) as error:
        # Without the run's path, which is named beside it and would leave no room for the reason.
        why = text_of(error).replace(f"{path.resolve()}/", "")
        return RunLine(str(path), "unreadable", why=why)


def _scores(reader: RunReader) -> dict[str, Mapping[str, Any]]:
    """Return what the summary has of each evaluator."""
    if reader.state not in ("finished", "limited", "stopped"):
        return {}  # the ones on disk are from an earlier session
    summary = reader.summary_written() if reader.is_as_recorded else reader.summary()
    known = summary.get("evaluators")
    return {
        name: numbers
        for name, numbers in (known.items() if isinstance(known, dict) else ())
        if isinstance(numbers, dict)
    }


def _named(scores: Mapping[str, Mapping[str, Any]], of_one: str, of_several: str) -> dict[str, Any]:
    """Return what each score has, by its name: like `judge`, or `judge.quality` of several."""
    named = {}
    for name, numbers in scores.items():
        several = numbers.get(of_several, {})
        if numbers.get(of_one) is not None or not several:
            named[name] = numbers.get(of_one)
        named |= {str(ScoreName(name, part)): value for part, value in several.items()}
    return named


def _in_words(line: RunLine) -> Iterator[str]:
    for name in {**line.means, **line.labels}:
        value, labels = line.means.get(name), line.labels.get(name)
        words = f"({label_counts(labels)})" if value is None and labels else mean(value)
        yield f"{one_line(name)} {words}"


def variant_lines(directory: Path) -> list[RunLine]:
    """Summarise the runs of a matrix: those in its file, also if not begun, and older ones."""
    try:
        listed = json.loads((directory / MATRIX_FILE).read_bytes())["variants"]
        paths = [directory / str(variant["name"]) for variant in listed]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{one_line(str(directory))}: unreadable: {text_of(error)}") from error
    older = [path for path in runs_in(directory) if path not in paths]
    return [
        line_of(path) if is_run(path) else RunLine(str(path), "not begun")
        for path in (*paths, *older)
    ]


def runs_table(lines: Sequence[RunLine]) -> Table:
    """Return a table of runs."""
    with_failed = any(line.failed for line in lines)
    failed = ["failed"] if with_failed else []
    names = ["run", "state", "done", *failed, "means", "active"]
    table = plain_table(*names, fixed=["run", "state"], numbers=["done", *failed])
    for line in lines:
        means = ", ".join(_in_words(line))
        if line.by_current_version is not None:
            current, of = line.by_current_version
            means = f"{means} ({current:,} of {of:,} answers current)".strip()
        means = means if line.why is None else one_line(line.why)
        cells = [one_line(line.run), line.state, f"{line.done:,}/{line.total:,}"]
        cells += [f"{line.failed:,}" if line.failed else ""] if with_failed else []
        table.add_row(*map(cell, (*cells, means, ago(line.last_at or ""))))
    return table


def line_data(line: RunLine) -> dict[str, Any]:
    """Return a run as JSON data."""
    current = line.by_current_version
    return line._asdict() | {"by_current_version": current and current[0]}
