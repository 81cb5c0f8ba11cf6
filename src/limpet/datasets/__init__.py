"""Rows in: what the dataset is, and how it becomes items."""

from limpet.datasets.dataset import Dataset
from limpet.datasets.loaded import LoadedDataset
from limpet.datasets.rows import BadRow

__all__ = ["BadRow", "Dataset", "LoadedDataset"]
