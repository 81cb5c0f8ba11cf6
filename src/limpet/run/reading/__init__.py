"""Reads a run from its files alone, without its lock, and changes nothing."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.run.reading.reader import RunReader, open_run

__all__ = ["RunReader", "open_run"]


def __getattr__(name: str) -> object:
    # Imported when first used: the shell's completion needs only `find_run`.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("limpet.run.reading.reader"), name)
