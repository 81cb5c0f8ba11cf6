"""What is on disk stays on disk: columns, the writer, recovery, the lock, fingerprints."""

from holdfast.journal.check import Report, repair, verify
from holdfast.journal.column import Column, ColumnReader
from holdfast.journal.fingerprint import Occurrences, digest, output_key, score_key
from holdfast.journal.journal import Journal
from holdfast.journal.recovery import ColumnState
from holdfast.types import Cell, CellStatus, Failure, Outcome

__all__ = [
    "Cell",
    "CellStatus",
    "Column",
    "ColumnReader",
    "ColumnState",
    "Failure",
    "Journal",
    "Occurrences",
    "Outcome",
    "Report",
    "digest",
    "output_key",
    "repair",
    "score_key",
    "verify",
]
