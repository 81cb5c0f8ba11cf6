"""Rows in: json, jsonl, csv, tsv, parquet, xlsx, DataFrames, rows in memory, custom functions."""

from holdfast.datasets.dataset import Dataset
from holdfast.datasets.loading import load
from holdfast.datasets.rows import BadRow

__all__ = ["BadRow", "Dataset", "load"]
