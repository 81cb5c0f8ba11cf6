"""Which options of `evaluate` does a configuration stand for?

Only what the file says is handed on: what it leaves out stays as `evaluate` has it.
"""

from collections.abc import Mapping
from typing import Any, cast

from limpet.config.model import RetryShape, Shape
from limpet.executors.retry import Backoff
from limpet.run.api import EvaluationOptions

_COLUMNS = ("id", "input", "expected", "sheet")
_READING = ("on_bad_row", "limit", "sample", "shuffle", "seed")


def options_of(shape: Shape, keep: Mapping[str, Any] | None) -> EvaluationOptions:
    """Return the options, by their names in `evaluate`.

    Args:
        shape: The configuration.
        keep: The filter, in full.
    """
    read = shape.dataset
    told: dict[str, Any] = {name: _text(getattr(read, name)) for name in _COLUMNS}
    told |= {name: getattr(read, name) for name in _READING if name in read.model_fields_set}
    told |= {"filter": keep, "timeout": shape.timeout}
    told |= {name: getattr(shape.pace, name) for name in ("concurrency", "max_concurrency")}
    told |= {name: getattr(shape.retry, name) for name in ("max_retries", "max_timeouts")}
    told["backoff"] = _backoff(shape.retry)
    told["prices"] = _prices(shape)
    told["early_stop"] = shape.early_stop
    told["durability"] = shape.output.durability
    told["bare_outputs"] = shape.output.bare
    told["trace_filter"] = shape.output.trace_filter
    told["mask"] = shape.output.mask
    return cast(
        "EvaluationOptions", {name: value for name, value in told.items() if value is not None}
    )


def _text(value: str | None) -> str | None:
    return None if value is None else str(value)


def _prices(shape: Shape) -> dict[str, dict[str, float]] | None:
    if shape.prices is None:
        return None
    return {model: one.model_dump(exclude_none=True) for model, one in shape.prices.items()}


def _backoff(retry: RetryShape) -> Backoff | None:
    if retry.backoff is None:
        return None
    given: dict[str, Any] = {"base_s": retry.backoff.base, "cap_s": retry.backoff.cap}
    return Backoff(**{name: value for name, value in given.items() if value is not None})
