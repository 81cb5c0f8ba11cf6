"""Which dataset and options of `evaluate` does a configuration describe?

Only keys that the file sets are passed on; `evaluate` has the defaults.
"""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

from limpet.config.model import Shape
from limpet.datasets import Dataset
from limpet.executors.retry import Backoff
from limpet.run.options import Pace, Retry, RunOptions

_COLUMNS = ("id", "input", "expected", "sheet")
_READING = ("on_bad_row", "limit", "sample", "shuffle", "seed")


def dataset_of(source: Any, shape: Shape, keep: Mapping[str, Any] | None) -> Dataset:
    """Return the dataset.

    Args:
        source: Its file, or the function that returns its rows.
        shape: The configuration.
        keep: The filter, in long form.
    """
    columns = _given(shape.dataset, *_COLUMNS, *_READING)
    columns |= {name: str(columns[name]) for name in _COLUMNS if name in columns}
    return Dataset(source, filter=keep, **columns)


def options_of(shape: Shape) -> RunOptions:
    """Return the options, by their names in `evaluate`."""
    options = _given(shape, "timeout", "on_change", "early_stop")
    if shape.prices is not None:
        options["prices"] = {
            model: price.model_dump(exclude_none=True) for model, price in shape.prices.items()
        }
    if pace := _given(shape.pace, "concurrency", "max_concurrency"):
        options["pace"] = Pace(**pace)
    retry = _given(shape.retry, "max_retries", "max_timeouts", "failed")
    if shape.retry.backoff is not None:
        waits = _given(shape.retry.backoff, "base", "cap")
        retry["backoff"] = Backoff(**{f"{name}_s": value for name, value in waits.items()})
    if retry:
        options["retry"] = Retry(**retry)
    return cast("RunOptions", options)


def _given(section: BaseModel, *names: str) -> dict[str, Any]:
    """Return the values that a section sets, by name."""
    values = {name: getattr(section, name) for name in names if name in section.model_fields_set}
    return {name: value for name, value in values.items() if value is not None}
