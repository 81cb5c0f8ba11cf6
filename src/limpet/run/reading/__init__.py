"""A run as others see it: from its files alone, without its lock, and changing nothing."""

from limpet.run.reading.reader import RunReader

__all__ = ["RunReader"]
