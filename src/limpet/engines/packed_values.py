"""How do an item, an answer and scores travel between driver and worker?

To a worker travels what it is called with, by pickle: rows may hold any object, and their classes
are those of the user's own modules. Back travels what was returned, in the form in which it is
kept, as plain values.
"""

import pickle
from dataclasses import fields
from typing import Any

from limpet.engines.messages import NotPlainMessageError, packed
from limpet.errors import PermanentError
from limpet.json_values import NotPlainError, kept_form
from limpet.text import one_line, text_of
from limpet.types import Item, Output, Score, Usage

_USAGE = tuple(field.name for field in fields(Usage))
_OUTPUT, _SCORES, _UNKEPT = "output", "scores", "unkept"


def packed_argument(value: Any) -> bytes:
    """Return what a step is called with as bytes.

    Raises:
        PermanentError: It holds something that cannot be sent.
    """
    plain: Any = value
    if type(value) is Item:  # three times as fast as by its class
        plain = (value.id, value.input, value.expected, value.row)
    try:
        return pickle.dumps(plain, protocol=5)
    except Exception as error:
        where = f"item {value.id!r}" if isinstance(value, Item) else getattr(value, "where", "")
        raise PermanentError(
            f"{where}: cannot be sent to another process: {one_line(text_of(error))}",
            hint="use plain values in the rows, or run the step without an engine",
        ) from error


def unpacked_argument(data: bytes) -> Any:
    """Return what a step is called with. Only for what the driver sent."""
    value = pickle.loads(data)  # noqa: S301 - the driver's own
    return Item(*value) if type(value) is tuple else value


def packed_output(output: Output, *, careful: bool = False) -> Any:
    """Return what `returned_values` read as plain values.

    Args:
        output: What was read.
        careful: Look at each part, as one of them is not plain.
    """
    usage, value = output.usage, output.value
    counts = None if usage is None else {name: getattr(usage, name) for name in _USAGE}
    kind = _OUTPUT
    if type(value) is dict and value and all(type(part) is Score for part in value.values()):
        scores = value.items()
        kind, value = _SCORES, [(name, *_packed_score(score, careful)) for name, score in scores]
    trace, metadata = output.trace, output.metadata
    if careful:
        counts, trace, metadata = _plain(counts, None), _plain(trace, []), _plain(metadata, None)
        if not _is_plain(value):  # it could not be read: the record says why
            kind, value = _UNKEPT, _why_unkept(value)
    return kind, value, counts, trace, metadata


def unpacked_output(data: Any) -> Output:
    """Return what a worker packed."""
    kind, value, counts, trace, metadata = data
    usage = None if counts is None else Usage(**counts)
    if kind == _SCORES:
        return Output({name: Score(*parts) for name, *parts in value}, usage)
    if kind == _UNKEPT:
        value = Unkept(value)
    return Output(value, usage, trace, metadata)


class Unkept:
    """Stands for a value in a worker that has no JSON form: recording it fails, and says why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def model_dump(self) -> Any:
        """Raise what encoding the value raised."""
        raise NotPlainError(self._why)


def _packed_score(score: Score, careful: bool) -> tuple[Any, ...]:  # noqa: FBT001 - as it came
    explanation, metadata = score.explanation, score.metadata
    if careful:
        explanation, metadata = _plain(explanation, None), _plain(metadata, None)
    return score.value, score.label, explanation, metadata


def _is_plain(value: Any) -> bool:
    try:
        packed((value,))
    except (NotPlainMessageError, RecursionError):
        return False
    return True


def _plain(value: Any, otherwise: Any) -> Any:
    if _is_plain(value):
        return value
    try:
        return kept_form(value)
    except NotPlainError:
        return otherwise


def _why_unkept(value: Any) -> str:
    try:
        kept_form(value)
    except Exception as error:  # noqa: BLE001 - a value of the user may raise anything
        return text_of(error)
    return f"{type(value).__module__}.{type(value).__qualname__} has no JSON form"
