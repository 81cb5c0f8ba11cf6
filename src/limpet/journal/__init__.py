"""Durable storage: columns, the writer, recovery, the lock."""

from limpet.journal.column import Column, ColumnReader
from limpet.journal.journal import Journal
from limpet.journal.recovery import ColumnState
from limpet.journal.verify import Report, repair, verify
from limpet.shapes import Cell, CellStatus, Failure, Outcome

__all__ = [
    "Cell",
    "CellStatus",
    "Column",
    "ColumnReader",
    "ColumnState",
    "Failure",
    "Journal",
    "Outcome",
    "Report",
    "repair",
    "verify",
]
