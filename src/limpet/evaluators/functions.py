"""How does a user's function become an evaluator?

Async functions run on the event loop, others in threads: reusable ones while the evaluator is open,
otherwise a thread that ends with the call.
"""

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from numbers import Integral, Real
from typing import Any, overload

from limpet.errors import PermanentError
from limpet.evaluators.parameters import Inputs, wanted_by
from limpet.evaluators.protocol import Evaluator, Scored, Scores, checked_name
from limpet.executors.details import UNSET, Unset
from limpet.executors.threads import Threads, is_async, is_awaitable
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import DependsOn, OwnCode, as_declared
from limpet.foreign import base_value
from limpet.shapes import Output, Scale, Score
from limpet.text import one_line

# ---- How does the result of an evaluator become scores? -----------------------------------------
#
# A number or a bool is a score, a string is a label, a dict holds several of them. Anything else
# is an error, never a score: a NaN would poison a mean, a forgotten `return` would be a zero, and
# "0.9" would be a label without a mean.

_LABELS = (str, type(None))
_NUMBERS = (bool, int, float)
_MOST = sys.float_info.max
_DO = "return a number, a bool, a label, a dict of scores or a Score"


def as_scores(value: Any, name: str) -> Scores | Output:
    """Return the scores in an evaluator's result; an `Output` stays an `Output` of them.

    Raises:
        PermanentError: It is not a score; the message begins with `name`, the evaluator's.
    """
    if issubclass(type(value), Output):
        output: Output = dataclasses.replace(value, value=_scores(value.value, name))
        return output
    return _scores(value, name)


def _scores(value: Any, name: str) -> Scores:
    if not isinstance(value, Mapping):
        return {"score": _as_score(value, name)}
    if not value:
        raise PermanentError(f"{name} returned an empty dict; {_DO}")
    for key in value:
        if not isinstance(key, str) or not key:
            raise PermanentError(
                f"{name} returned a dict with the key {key!r}; use strings as keys"
            )
    return {str(key): _as_score(part, f"{name}, under {key!r},") for key, part in value.items()}


def _as_score(value: Any, who: str) -> Score:
    if type(value) is Score and _is_usual(value):
        return value
    value = _unwrapped(value)
    if isinstance(value, Score):
        return _checked(value, who)
    if isinstance(value, Exception):  # returned by gather(…, return_exceptions=True)
        raise value
    if isinstance(value, str):
        if not value:
            raise PermanentError(f"{who} returned an empty string, which is not a label; {_DO}")
        if _is_number(value):
            raise PermanentError(
                f"{who} returned the string {value!r}; return a number, or Score(label={value!r})"
            )
        return Score(None, label=base_value(str, value))
    return Score(_number(value, who))


def _is_number(text: str) -> bool:
    """Return whether a string is a number, so not meant as a label."""
    try:
        float(base_value(str, text))
    except ValueError:
        return False
    return True


def _is_usual(score: Score) -> bool:
    """Return whether a score has only plain types, with nothing to check or convert."""
    value = score.value
    is_plain = type(value) in _NUMBERS and type(score.label) in _LABELS
    return is_plain and value is not None and -_MOST <= value <= _MOST  # False for NaN


def _unwrapped(value: Any) -> Any:
    """Return the plain value in an enum's member or a NumPy scalar."""
    if isinstance(value, Enum):
        return value.value
    if getattr(value, "shape", None) == () and callable(item := getattr(value, "item", None)):
        return item()
    return value


def _number(value: Any, who: str) -> float | bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, (Real, Decimal)):
        what = "None" if value is None else f"a {type(value).__name__} ({one_line(value)})"
        raise PermanentError(f"{who} returned {what}; {_DO}")
    try:
        number = base_value(float, value)
    except (OverflowError, ValueError):  # wider than a float; a signalling NaN
        number = math.nan
    if not math.isfinite(number):
        raise PermanentError(f"{who} returned {one_line(value)}, which is not a score; {_DO}")
    return base_value(int, value) if isinstance(value, Integral) else number


def _checked(score: Score, who: str) -> Score:
    # A label or an explanation that is not a string must not cost the value beside it.
    label, value = _unwrapped(score.label), _unwrapped(score.value)
    if label is not None and not isinstance(label, str):
        if value is None:
            raise PermanentError(
                f"{who} returned a Score with label={one_line(label)}; use a string"
            )
        label = one_line(label)
    score = dataclasses.replace(score, label=label)
    if value is None:
        if not score.label:
            raise PermanentError(f"{who} returned a Score without a value or a label; give one")
        return score
    if isinstance(value, str):
        raise PermanentError(
            f"{who} returned a Score with the string {one_line(repr(value))} as its value; "
            "give a string as label=…"
        )
    return dataclasses.replace(score, value=_number(value, who))


# ---- How does a user's function become an evaluator? --------------------------------------------

_UNPOOLED = Threads()
_UNPOOLED.close()  # closed, it reuses no thread: each ends with its call


class FunctionEvaluator(OwnCode, Evaluator):
    """A function that scores. It can still be called as a function.

    See `evaluator` for the arguments.
    """

    def __init__(
        self,
        function: Any,
        name: str | None = None,
        version: str | None = None,
        endpoint: str | Unset | None = UNSET,
        depends_on: DependsOn | None = None,
        reads: Iterable[str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        scale: Scale | None = None,
    ) -> None:
        super().__init__(function, version, depends_on)
        self.scale = scale or Scale()
        self.name = checked_name(_name_of(function) if name is None else name)
        self.endpoint = self.name if endpoint is UNSET else endpoint
        self._function = function
        self._inputs = Inputs(inputs or {}, self.name)
        self._wanted, declared = wanted_by(function, self.name, reads, self._inputs.templates)
        self.reads = declared | self._inputs.reads
        self.needs = self._wanted.columns
        self.is_plain = not is_async(function)
        self._threads = _UNPOOLED

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {self._function!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)

    @property
    def stated(self) -> Mapping[str, str]:
        templates = self._inputs.templates
        return {**super().stated, **({"inputs": digest(templates)} if templates else {})}

    @property
    def described(self) -> Mapping[str, Any]:
        templates = self._inputs.templates
        return {**super().described, **({"inputs": templates} if templates else {})}

    async def open(self) -> None:
        self._threads = Threads()

    async def call(self, scored: Scored) -> Scores | Output:
        if self.is_plain:
            value = await self._threads.run(self._score, scored)
        else:
            value = self._score(scored)
        if is_awaitable(value):  # also from a lambda around an async function
            value = await value
        return as_scores(value, self.name)

    def _score(self, scored: Scored) -> Any:
        return self._wanted.call(self._function, scored, self._inputs.values(scored))

    async def close(self) -> None:
        self._threads.close()
        self._threads = _UNPOOLED


def _name_of(function: Any) -> str:
    """Return a function's name; for a partial its function's, for an object its class's.

    Raises:
        ValueError: It is a lambda, which has no name.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ValueError(
            "a lambda has no name: give it one with as_evaluator(…, name=…), or as the key of a "
            'dict, evaluators={"short": lambda output: …}'
        )
    return name


@overload
def evaluator(function: Callable[..., Any], /) -> FunctionEvaluator: ...


@overload
def evaluator(
    *,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    endpoint: str | Unset | None = UNSET,
    version: str | None = None,
    depends_on: Any = None,
    range: tuple[float, float] | None = None,
    group: str | None = None,
    higher_is_better: bool = True,
) -> Callable[[Callable[..., Any]], FunctionEvaluator]: ...


def evaluator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    endpoint: str | Unset | None = UNSET,
    version: str | None = None,
    depends_on: Any = None,
    range: tuple[float, float] | None = None,  # noqa: A002 - as in eval.yml
    group: str | None = None,
    higher_is_better: bool = True,
) -> FunctionEvaluator | Callable[[Callable[..., Any]], FunctionEvaluator]:
    """Turn a function into an evaluator: `@evaluator`, or `@evaluator(reads=["output"])`.

    Args:
        function: A function of some of output, expected, input, item, trace, and columns of the
            dataset.
        name: Its name; None: the function's.
        reads: What it reads: "output", "expected", "input", "trace", "id", "row", "row.<field>".
            None: everything its parameters name. It sees nothing else, and runs again only when
            one of these changes.
        endpoint: The endpoint its calls are paced with. Functions with the same endpoint share a
            pacer; None: it calls none. By default it has a pacer of its own.
        version: Declares what its scores depend on, instead of its code.
        depends_on: What else its scores depend on, as for `evaluate`.
        range: The lowest and the highest score that it can give. None: 0 to 1 if all scores are
            in that range, else any number.
        group: The field of the dataset that groups items.
        higher_is_better: Whether a higher score is better.

    Raises:
        TypeError: It has another parameter, or one that `reads` leaves out.
        ValueError: The name is not allowed, `reads` names something unknown, or `range` is empty.
    """
    scale = Scale(range, group, higher_is_better)

    def decorate(function: Callable[..., Any]) -> FunctionEvaluator:
        declared = as_declared(depends_on)
        return FunctionEvaluator(function, name, version, endpoint, declared, reads, None, scale)

    return decorate if function is None else decorate(function)
