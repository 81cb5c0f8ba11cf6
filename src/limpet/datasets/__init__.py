"""Read the rows of a dataset and turn them into items."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.datasets.dataset import Dataset, LoadedDataset
    from limpet.datasets.rows import BadRow

__all__ = ["BadRow", "Dataset", "LoadedDataset"]

_FILES = {"BadRow": "rows", "Dataset": "dataset", "LoadedDataset": "dataset"}


def __getattr__(name: str) -> object:
    # Reading a run needs none of the file readers.
    if name not in _FILES:
        raise AttributeError(f"module 'limpet.datasets' has no attribute {name!r}")
    value = getattr(import_module(f"limpet.datasets.{_FILES[name]}"), name)
    globals()[name] = value
    return value
