"""A run as others see it: from its files alone, without its lock, and changing nothing."""

from limpet.run.reading.reader import RunReader, open_run

__all__ = ["RunReader", "open_run"]
