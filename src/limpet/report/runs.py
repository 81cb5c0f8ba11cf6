"""Which runs exist, and what is their state?"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from limpet.errors import LimpetError
from limpet.journal.files import read_whole
from limpet.report.tables import cell, plain_table
from limpet.report.words import ago, by_current, mean
from limpet.run.reading import RunReader
from limpet.text import one_line


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in one line.

    Attributes:
        path: Where it is.
        state: Its state.
        done: How many items have an answer.
        total: How many items there are.
        failed: How many cells failed, over all steps.
        means: Each evaluator's mean when a session last ended.
        by_current_version: How many answers are by the current workflow, and of how many; None if
            all are by one version.
        last_at: When it was last active; empty if unknown.
    """

    path: Path
    state: str
    done: int
    total: int
    failed: int
    means: Mapping[str, float | None]
    last_at: str
    by_current_version: tuple[int, int] | None = None


def line_of(path: Path) -> RunLine:
    """Summarise a run without reading its answers: there may be a hundred runs."""
    try:
        with RunReader(path) as reader:
            steps = reader.counts.steps
            failed = sum(sum(step.failed.values()) for step in steps)
            done, total = (steps[0].kept + steps[0].done, steps[0].total) if steps else (0, 0)
            return RunLine(
                path,
                reader.state,
                done,
                total,
                failed,
                _means(reader),
                reader.last_at,
                reader.by_current_version,
            )
    except (OSError, LimpetError, ValueError, TypeError, LookupError, AttributeError):
        return RunLine(path, "unreadable", 0, 0, 0, {}, "")


def _means(reader: RunReader) -> dict[str, float | None]:
    if reader.state not in ("finished", "stopped"):
        return {}  # the ones on disk are from an earlier session
    try:
        summary = json.loads(read_whole(reader.layout.home / "summary.json"))
        return {name: numbers.get("mean") for name, numbers in summary["evaluators"].items()}
    except (OSError, LimpetError, ValueError, KeyError, AttributeError, TypeError):
        return {}


def runs_table(lines: Sequence[RunLine]) -> Table:
    """Return a table of runs."""
    with_failed = any(line.failed for line in lines)
    failed = ["failed"] if with_failed else []
    names = ["run", "state", "done", *failed, "means", "active"]
    table = plain_table(*names, fixed=["run", "state"], numbers=["done", *failed])
    for line in lines:
        means = ", ".join(f"{one_line(name)} {mean(value)}" for name, value in line.means.items())
        if line.by_current_version is not None:
            means = f"{means} ({by_current(*line.by_current_version)})".strip()
        cells = [one_line(str(line.path)), line.state, f"{line.done:,}/{line.total:,}"]
        cells += [f"{line.failed:,}" if line.failed else ""] if with_failed else []
        table.add_row(*map(cell, (*cells, means, ago(line.last_at))))
    return table


def line_data(line: RunLine) -> dict[str, Any]:
    """Return a run as JSON data."""
    return {
        "run": str(line.path),
        "state": line.state,
        "done": line.done,
        "total": line.total,
        "failed": line.failed,
        "means": dict(line.means),
        "by_current_version": line.by_current_version and line.by_current_version[0],
        "last_at": line.last_at or None,
    }
