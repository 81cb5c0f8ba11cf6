"""The summary, the output files and the results of a session."""

import functools
import json
import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from limpet.errors import DiskFullError, JournalError
from limpet.journal.files import NO_SPACE, read_whole
from limpet.journal.layout import Layout
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.executing.taking import Taking
from limpet.run.planning.plan import Plan
from limpet.run.reading import RunReader
from limpet.run.request import Request
from limpet.run.results.costs import add_price_gaps
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.output_files import write_outputs, write_summary
from limpet.run.results.summary import Numbers
from limpet.secrets.masking import Masking
from limpet.text import text_of

logger = logging.getLogger("limpet.run")
GIVEN_UP = "given_up"
"""In a summary: how many calls in flight were given up when the last session stopped."""
STOP_WHEN = "stop_when"
"""In a summary: whether `stop_when` was reached, and over which items."""


class SessionResults:
    """Reads the results back after a session, and writes the output files.

    Args:
        request: The request.
        plan: The session's plan.
        layout: The run's layout.
        masking: Masks secrets.
        run: The run's directory; None: it is temporary.
        given_up: How many calls in flight the session gave up.
        taking: How the session took its items; None: all of them.
        budget: The budget and what was spent of it; empty: there is none.
    """

    def __init__(
        self,
        request: Request,
        plan: Plan,
        layout: Layout,
        masking: Masking,
        run: str | None,
        given_up: int,
        taking: Taking | None,
        budget: Mapping[str, Any],
    ) -> None:
        self._request = request
        self._plan = plan
        self._layout = layout
        self._masking = masking
        self._run = run
        self._given_up = given_up
        self._taking = taking
        self._budget = budget
        self._evaluators = [evaluator.name for evaluator in request.evaluators]

    def _numbers(self) -> Numbers:
        return Numbers(self._evaluators, self._request.trials, self._request.scales)

    def as_before(self) -> EvaluationResult:
        """Return the results of a run that was complete before this session."""
        home = self._layout.home
        summary = json.loads(read_whole(home / "summary.json"))
        add_price_gaps(summary, self._request.prices)
        if self._layout.people.exists():  # people may have labelled since it was written
            with RunReader(home) as reader:
                _add_calibrations(summary, reader, reader.inputs())
        if self._plan.of is not None:
            return self.read(RunReader(home), None, summary)
        return EvaluationResult(
            functools.partial(_read_later, home), summary, self._plan, self._run
        )

    def write(
        self, reader: RunReader, reason: Exception | None
    ) -> tuple[Numbers, Sequence[tuple[str, Mapping[str, Any]]], JournalError | None]:
        """Write the output files.

        Args:
            reader: Reads the run.
            reason: Why the session stopped early; None if it did not.

        Returns:
            The numbers; the ids of items with steps still to redo, and by step the error, if any;
            and the error if the files could not be written.
        """
        numbers = reader.numbers()
        pending = [
            (item.id, item.redo)
            for item in (reader.items(whole=False) if reader.counting.redos else ())
            if item.redo
        ]
        return numbers, pending, self._write_files(reader, self.summary(numbers, reason, reader))

    def _write_files(self, reader: RunReader, summary: dict[str, Any]) -> JournalError | None:
        try:
            if self._request.nat_files:
                rows = self._request.rows
                write_outputs(self._layout, reader.items(), self._evaluators, rows, summary)
            else:
                self._warn_of_copies()
                write_summary(self._layout, summary)
        except OSError as error:
            kind = DiskFullError if error.errno in NO_SPACE else JournalError
            failure = kind(
                f"{self._layout.home}: the output files cannot be written: {error.strerror}",
                hint="the results are safe in the `.jsonl` files; free some space and run again",
            )
            logger.error("%s; %s", failure, failure.hint)  # noqa: TRY400 - it is the disk's fault
            return failure
        return None

    def _warn_of_copies(self) -> None:
        """Warn that an earlier session's copies of the answers are outdated."""
        copies = self._layout.home / "workflow_output.json"
        if copies.exists():
            logger.warning(
                "%s is from an earlier session: request the toolkit's files with `output:` in an "
                "eval.yml, or make them with `limpet export`",
                copies,
            )

    def read(
        self, reader: RunReader, reason: Exception | None, summary: dict[str, Any]
    ) -> EvaluationResult:
        """Return the results of the items that this session selected; close the reader.

        Args:
            reader: Reads the run.
            reason: Why the session stopped early; None if it did not.
            summary: The summary of the whole run.
        """
        positions: frozenset[int] | None = None
        selected = self._request.selection.positions(self._request.items)
        if len(selected) < len(self._request.items):
            positions = frozenset(selected)
            numbers = self._numbers()
            for item in reader.items(positions):
                numbers.add(item)
            summary = self.summary(numbers, reason)
        read = functools.partial(_read_items, reader, positions)
        if self._run is None:  # its files are temporary
            read = functools.partial(list, read())
        reader.close()
        return EvaluationResult(read, summary, self._plan, self._run, reason)

    def summary(
        self, numbers: Numbers, reason: Exception | None, reader: RunReader | None = None
    ) -> dict[str, Any]:
        """Return the content of `summary.json`.

        Args:
            numbers: The numbers of the run, or of the items that this session selected.
            reason: Why the session stopped early; None if it did not.
            reader: Reads the run, if the numbers cover all of it.
        """
        summary = numbers.summary()
        if reader is not None:
            if self._layout.people.exists():
                _add_calibrations(summary, reader, None)
            reader.add_earlier(summary)
        safe = self._masking.certain.text
        summary["stop_reason"] = None if reason is None else safe(text_of(reason))
        if self._taking is not None and self._taking.is_over:
            summary[STOP_WHEN] = self._taking.summary()
        if self._given_up:
            summary[GIVEN_UP] = self._given_up
        if self._budget:
            summary["budget"] = self._budget
        add_price_gaps(summary, self._request.prices)
        summary["bad_rows"] = [str(row) for row in self._request.bad_rows]
        reported, total = numbers.items // self._request.trials, len(self._request.items)
        if reported < total:
            summary["selection"] = {"items": reported, "of": total}
        return summary


def _read_later(run: Path) -> list[ItemRecord]:
    return _read_items(RunReader(run), None)


def _read_items(reader: RunReader, positions: frozenset[int] | None) -> list[ItemRecord]:
    with reader:
        return list(reader.items(positions))


def _add_calibrations(summary: dict[str, Any], reader: RunReader, inputs: str | None) -> None:
    # Few runs have labels, and no start should pay for importing this.
    import_module("limpet.run.calibrating.corrected").add_calibrations(summary, reader, inputs)
