"""Which answers of a run are in its live file, and when does one get there?

`workflow_output.jsonl` of a toolkit's run has for each answer the row that `workflow_output.json`
will have. It begins with what is kept, so that an answer that runs again has one line.
"""

import logging
from collections.abc import Iterator
from typing import Any

from limpet.errors import JournalError
from limpet.journal.layout import Layout
from limpet.journal.live_file import LiveFile
from limpet.run.planning.lookup import Lookup
from limpet.run.record_fields import METADATA, answer_and_trace, answer_record
from limpet.run.results.output_files import AnswerRows, as_json
from limpet.run.run_file import WORKFLOW
from limpet.types import Outcome

logger = logging.getLogger("limpet.run")


class LiveAnswers:
    """The live file of a session. As a guard it sees each answer on disk, and stops nothing.

    Args:
        layout: The run's layout.
        rows: How answers become rows.
        lookup: Knows which answers are kept.
    """

    def __init__(self, layout: Layout, rows: AnswerRows, lookup: Lookup) -> None:
        self._rows = rows
        self._file: LiveFile | None = None
        path = layout.live(WORKFLOW)
        try:
            self._file = LiveFile(path, self._line, _kept(rows, lookup))
        except (OSError, JournalError) as error:
            logger.warning("%s: there is no live file: %s", path, error)

    def _line(self, answer: tuple[Any, str, int]) -> bytes:
        return as_json(self._rows.of_answer(*answer))

    def see(self, outcome: Outcome) -> None:
        """Write the row of an answer."""
        cell = outcome.cell
        if self._file is not None and cell.step == WORKFLOW and outcome.failure is None:
            self._file.add((outcome.record, cell.id, cell.trial))

    def close(self) -> None:
        """Return when every row is written."""
        if self._file is not None:
            self._file.close()


def _kept(rows: AnswerRows, lookup: Lookup) -> Iterator[tuple[Any, str, int]]:
    """Yield the answers that the file begins with."""
    for work_item, entry in lookup.kept_answers():
        item, (answer, trace) = work_item.item, answer_and_trace(entry)
        metadata = entry.record.get(METADATA)
        record = answer_record(rows.names, item.id, item.row, answer, trace, metadata)
        yield record, item.id, work_item.trial
