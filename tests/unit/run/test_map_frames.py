"""A map over a DataFrame maps its rows."""

import asyncio

import pandas as pd
import polars as pl
import pytest

import limpet

DATA = {"question": ["a", "b"], "n": [1, 2]}


def told(row):
    return f"{row['question']}{row['n']}"


@pytest.mark.parametrize("frame", [pd.DataFrame(DATA, index=[7, 9]), pl.DataFrame(DATA)])
def test_a_map_over_a_frame_maps_its_rows(frame, tmp_path):
    assert limpet.map(told, frame).outputs == ["a1", "b2"]
    assert asyncio.run(limpet.amap(told, frame)).outputs == ["a1", "b2"]
    journal = tmp_path / "rows.jsonl"
    assert limpet.map(told, frame, journal=journal).outputs == ["a1", "b2"]
    assert limpet.map(told, frame.head(1), journal=journal).kept == 1


def test_a_column_of_a_frame_is_mapped_by_its_values():
    assert limpet.map(str.upper, pd.DataFrame(DATA)["question"]).outputs == ["A", "B"]


def test_a_frame_with_a_column_twice_is_refused():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(limpet.errors.DatasetError, match="same name"):
        limpet.map(told, frame)
