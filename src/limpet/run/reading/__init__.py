"""Reads a run from its files alone, without its lock, and changes nothing."""

from limpet.run.reading.reader import RunReader, open_run

__all__ = ["RunReader", "open_run"]
