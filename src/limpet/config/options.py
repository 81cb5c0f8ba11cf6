"""Which dataset and which options of `evaluate` does a configuration stand for?

Only what the file says is handed on: what it leaves out stays as `evaluate` has it.
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
        keep: The filter, in full.
    """
    told = _said(shape.dataset, *_COLUMNS, *_READING)
    told |= {name: str(told[name]) for name in _COLUMNS if name in told}
    return Dataset(source, filter=keep, **told)


def options_of(shape: Shape) -> RunOptions:
    """Return the options, by their names in `evaluate`."""
    told = _said(shape, "timeout", "on_change", "early_stop")
    if shape.prices is not None:
        told["prices"] = {
            model: price.model_dump(exclude_none=True) for model, price in shape.prices.items()
        }
    if pace := _said(shape.pace, "concurrency", "max_concurrency"):
        told["pace"] = Pace(**pace)
    retry = _said(shape.retry, "max_retries", "max_timeouts", "failed")
    if shape.retry.backoff is not None:
        waits = _said(shape.retry.backoff, "base", "cap")
        retry["backoff"] = Backoff(**{f"{name}_s": value for name, value in waits.items()})
    if retry:
        told["retry"] = Retry(**retry)
    return cast("RunOptions", told)


def _said(section: BaseModel, *names: str) -> dict[str, Any]:
    """Return what a section says under these names."""
    values = {name: getattr(section, name) for name in names if name in section.model_fields_set}
    return {name: value for name, value in values.items() if value is not None}
