"""Read the rows of a dataset and turn them into items."""

from limpet.datasets.dataset import Dataset
from limpet.datasets.loaded import LoadedDataset
from limpet.datasets.rows import BadRow

__all__ = ["BadRow", "Dataset", "LoadedDataset"]
