"""Which runs are there, and how do they stand?"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from limpet.errors import LimpetError
from limpet.journal.files import read_whole
from limpet.report.tables import cell, plain_table
from limpet.report.times import ago
from limpet.report.words import by_current, mean
from limpet.run.reading import RunReader
from limpet.text import one_line


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in one line.

    Attributes:
        path: Where it is.
        state: How it stands.
        done: How many items have an answer.
        total: How many there are.
        failed: How many cells failed, at any step.
        means: Each evaluator's mean, as it was when a session last ended.
        by_current_version: How many of the answers behind them are by the present workflow, and of
            how many; None: all are by one version.
        last_at: When it was last worked on; empty: nobody knows.
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
    """Read what a line says of a run: never its answers, as there may be a hundred runs."""
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
        return {}  # those on disk are of an earlier session
    try:
        summary = json.loads(read_whole(reader.layout.home / "summary.json"))
        return {name: one.get("mean") for name, one in summary["evaluators"].items()}
    except (OSError, LimpetError, ValueError, KeyError, AttributeError, TypeError):
        return {}


def runs_table(lines: Sequence[RunLine]) -> Table:
    """Return runs below each other."""
    with_failed = any(one.failed for one in lines)
    failed = ["failed"] if with_failed else []
    names = ["run", "state", "done", *failed, "means", "worked on"]
    table = plain_table(*names, fixed=["run", "state"], numbers=["done", *failed])
    for one in lines:
        means = ", ".join(f"{one_line(name)} {mean(value)}" for name, value in one.means.items())
        if one.by_current_version is not None:
            means = f"{means} ({by_current(*one.by_current_version)})".strip()
        cells = [one_line(str(one.path)), one.state, f"{one.done:,}/{one.total:,}"]
        cells += [f"{one.failed:,}" if one.failed else ""] if with_failed else []
        table.add_row(*map(cell, (*cells, means, ago(one.last_at))))
    return table


def line_data(line: RunLine) -> dict[str, Any]:
    """Return a line for machines."""
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
