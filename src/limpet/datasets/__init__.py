"""Rows in: json, jsonl, csv, tsv, parquet, xlsx, DataFrames, rows in memory, custom functions."""

from limpet.datasets.dataset import Dataset
from limpet.datasets.loading import load
from limpet.datasets.rows import BadRow

__all__ = ["BadRow", "Dataset", "load"]
