"""How do items, answers, scores and exceptions travel between driver and worker?"""

import asyncio
import builtins
import pickle
import sys
from collections.abc import Mapping
from dataclasses import fields
from types import WrapperDescriptorType
from typing import Any

from limpet.engines.messages import NotPlainMessageError, packed
from limpet.engines.tracebacks import CARRIED, user_traceback
from limpet.errors import PermanentError
from limpet.foreign import is_interrupt, readable
from limpet.json_values import NotPlainError, kept_form
from limpet.pacing import signals
from limpet.pacing.signals import recognised
from limpet.shapes import Item, Output, Score, Usage
from limpet.text import one_line, text_of

# ---- How do items, answers and scores travel? ---------------------------------------------------
#
# Arguments travel to a worker by pickle: rows may hold any object, of classes from the user's own
# modules. Returned values travel back as plain values, in the form in which they are kept.

_USAGE = tuple(field.name for field in fields(Usage))
_OUTPUT, _SCORES, _UNKEPT = "output", "scores", "unkept"


def packed_argument(value: Any) -> bytes:
    """Return the argument of a step's call as bytes.

    Raises:
        PermanentError: It cannot be pickled.
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
    """Return the argument of a step's call. Use it only for the driver's bytes."""
    value = pickle.loads(data)  # noqa: S301 - the driver's own
    return Item(*value) if type(value) is tuple else value


def packed_output(output: Output, *, careful: bool = False) -> Any:
    """Return an output as plain values.

    Args:
        output: The output that `returned_values` read.
        careful: Check each part, because one of them is not plain.
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
        if not _is_plain(value):  # recording it will fail, and say why
            kind, value = _UNKEPT, _why_unkept(value)
    return kind, value, counts, trace, metadata


def unpacked_output(data: Any) -> Output:
    """Return the output that a worker packed."""
    kind, value, counts, trace, metadata = data
    usage = None if counts is None else Usage(**counts)
    if kind == _SCORES:
        return Output({name: Score(*parts) for name, *parts in value}, usage)
    if kind == _UNKEPT:
        value = Unkept(value)
    return Output(value, usage, trace, metadata)


class Unkept:
    """Replaces a worker's value that has no JSON form: recording it fails, and says why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def model_dump(self) -> Any:
        """Raise the error that encoding the value raised."""
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


# ---- How does an exception travel from a worker to the driver? ----------------------------------
#
# As data. Most clients' exceptions cannot be pickled, and a pickle could run code in the driver.
# So a worker sends the names of an exception's classes, its plain arguments and attributes, and its
# traceback as text. If the driver has the class, it builds an exception of it without calling its
# constructor. If that would read differently, it builds a stand-in: a class of the same name, with
# the text, status, headers and codes of the original.
#
# The causes of an exception and the members of a group travel the same way.

_DEEPEST = 8
_MOST_INNER = 50
_MOST_ATTRIBUTES = 100
_MOST_BYTES = 200_000
_READ_FOR_PACING = (
    "status_code", "status", "code", "type", "headers", "body", "details", "response_json",
    "rate_limit_type", "retry_after",
)  # fmt: skip
_CANCELLED = (asyncio.CancelledError.__module__, asyncio.CancelledError.__qualname__)
_OF_RESPONSE = ("status_code", "status", "ResponseMetadata", "Error", "_content")

Packed = dict[str, Any]
"""An exception as plain values."""


def packed_error(error: BaseException) -> Packed:
    """Return an exception as plain values. Never raises."""
    data = _packed(error, 0)
    data["traceback"] = user_traceback(error)
    return data


def unpacked_error(data: Packed) -> BaseException:
    """Return the exception that a worker packed."""
    error = _unpacked(data)
    if data.get("traceback"):
        BaseException.__dict__["__dict__"].__get__(error)[CARRIED] = data["traceback"]
    return error


# ---- in a worker --------------------------------------------------------------------------------


def _packed(error: BaseException, level: int) -> Packed:
    error = readable(error)
    kind = type(error)
    data: Packed = {
        "classes": [(_module_of(cls), cls.__qualname__) for cls in kind.__mro__[:-1]],
        "text": text_of(error),
        "args": [_plain_error(argument) for argument in _arguments(error)],
        "state": _state(error),
        "suppress": bool(error.__suppress_context__),
    }
    if level < _DEEPEST:
        for name in ("__cause__", "__context__"):
            if (other := getattr(error, name)) is not None:
                data[name] = _packed(other, level + 1)
        if isinstance(error, BaseExceptionGroup):
            inner = error.exceptions[:_MOST_INNER]
            data["group"] = [_packed(member, level + 1) for member in inner]
            data["args"] = [str(error.message)]
    data["stand_in"] = not _says_the_same(error, data)
    return data


def _module_of(cls: type) -> str:
    # A worker runs the user's script under another name.
    return "__main__" if cls.__module__ == "__mp_main__" else str(cls.__module__)


def _arguments(error: BaseException) -> tuple[Any, ...]:
    if isinstance(error, OSError):  # its file is not in `args`
        reduced: Any = OSError.__reduce__(error)
        return tuple(reduced[1])
    return error.args


def _says_the_same(error: BaseException, data: Packed) -> bool:
    try:
        copy = _unpacked({**data, "stand_in": False})
        return text_of(copy) == data["text"] and recognised(copy) == recognised(error)
    except BaseException as odd:  # its class may raise anything
        if is_interrupt(odd):
            raise
        return False


def _state(error: BaseException) -> dict[str, Any]:
    """Return the plain attributes of an exception."""
    own = BaseException.__dict__["__dict__"].__get__(error)
    state = {str(name): value for name, value in list(own.items())[:_MOST_ATTRIBUTES]}
    for name in _READ_FOR_PACING:
        value = signals.get(error, name)
        if value is not None:
            state[name] = _read(name, value)
    response = state.pop("response", None)
    state = {name: _plain_error(value) for name, value in state.items()}
    state = {name: value for name, value in state.items() if value is not None}
    if headers := signals.headers_of(error):
        state.setdefault("headers", headers)
    if response is not None:
        state["response"] = response if _is_small(response) else _packed_response(response)
    return state


def _read(name: str, value: Any) -> Any:
    if callable(value):  # gRPC: code() is an enum
        try:
            return signals.get(value(), "name")
        except Exception:  # noqa: BLE001 - it may need arguments or raise anything
            return None
    if name == "headers" and not _is_small(value):
        return signals.lower_cased(value)
    return value


def _packed_response(response: Any) -> dict[str, Any]:
    values = {name: signals.get(response, name) for name in _OF_RESPONSE}
    content = values["_content"]
    values["_content"] = content[: signals.TEXT_LIMIT] if isinstance(content, bytes) else None
    plain = {name: value for name, value in values.items() if _is_small(value)}
    plain["headers"] = signals.lower_cased(signals.get(response, "headers"))
    return plain


def _plain_error(value: Any) -> Any:
    """Return a value if it is plain and small; otherwise a plain or shortened form, or None."""
    if _is_small(value):
        return value
    if isinstance(value, Usage):
        return {name: getattr(value, name) for name in Usage.__slots__}
    if isinstance(value, (str, bytes)) and type(value) in (str, bytes):
        return value[:_MOST_BYTES]
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind.__call__(value)
    return None


def _is_small(value: Any) -> bool:
    try:
        return len(packed((value,))) <= _MOST_BYTES
    except (NotPlainMessageError, RecursionError):
        return False


# ---- in the driver ------------------------------------------------------------------------------


class ResponseCopy:
    """The parts we read of a server's response that an exception holds."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)


def _unpacked(data: Packed) -> BaseException:
    found = None if data.get("stand_in") else _found(*data["classes"][0])
    if tuple(data["classes"][0]) == _CANCELLED:
        found = asyncio.CancelledError
    group = data.get("group")
    if group is not None:
        error: BaseException = BaseExceptionGroup(
            str(data["args"][0]), [_unpacked(member) for member in group]
        )
    elif found is None:
        error = _stand_in(data)
    else:
        error = _of_class(found, data["args"])
    state = dict(data["state"])
    if isinstance(response := state.get("response"), dict) and "_content" in response:
        state["response"] = ResponseCopy(response)
    _set_all(error, state)
    for name in ("__cause__", "__context__"):
        if name in data:
            setattr(error, name, _unpacked(data[name]))
    error.__suppress_context__ = bool(data["suppress"])
    return error


def _found(module: str, qualified: str) -> type[BaseException] | None:
    """Return an exception's class if this process already has it; imports nothing."""
    thing: Any = sys.modules.get(module)
    for name in qualified.split("."):
        thing = vars(thing).get(name) if thing is not None and hasattr(thing, "__dict__") else None
    if not isinstance(thing, type) or not issubclass(thing, BaseException):
        return None
    return thing if issubclass(thing, Exception) else None


def _of_class(cls: type[BaseException], args: list[Any]) -> BaseException:
    if isinstance(cls.__init__, WrapperDescriptorType):  # Python's own: runs no user code
        try:
            return cls(*args)
        except Exception:  # noqa: BLE001 - not the arguments it was made with
            return cls.__new__(cls)
    error = cls.__new__(cls)
    error.args = tuple(args)
    return error


def _stand_in(data: Packed) -> BaseException:
    names = [qualified.rpartition(".")[2] for _, qualified in data["classes"]]
    bases = [
        cls
        for module, name in data["classes"]
        if module == "builtins" and isinstance(cls := getattr(builtins, name, None), type)
    ]
    base = next((cls for cls in bases if issubclass(cls, Exception)), Exception)
    kind: type[BaseException] = base
    text = data["text"]
    for name in reversed(names):
        if not any(cls.__name__ == name for cls in base.__mro__):
            kind = type(name, (kind,), {})
    kind = type(names[0], (kind,), {"__str__": lambda _: text, "__module__": data["classes"][0][0]})
    error = kind.__new__(kind)
    error.args = (text,)
    return error


def _set_all(error: BaseException, state: Mapping[str, Any]) -> None:
    own = BaseException.__dict__["__dict__"].__get__(error)
    for name, value in state.items():
        try:
            has_slot = hasattr(getattr(type(error), name, None), "__set__")
        except Exception:  # noqa: BLE001 - a class may raise anything
            has_slot = True
        if not has_slot:
            own[name] = value
        else:
            try:
                object.__setattr__(error, name, value)
            except Exception:  # noqa: BLE001, S112 - a property that cannot be set
                continue
