"""Which of the five things does a function want to see?

It says so by the names of its parameters: `def brevity(output)`, `def correct(output, expected)`.
A function of one parameter by another name gets the output. What cannot be given is an error when
the evaluator is made, not a thousand failures later.
"""

import difflib
import functools
import inspect
from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Any, NamedTuple

from limpet.evaluators.protocol import Scored
from limpet.evaluators.reads import ITEM, checked_reads, reads_item
from limpet.text import one_line

FIELDS = ("output", "expected", "input", "item", "trace")
"""What a function may ask for."""
_READS = {"item": ITEM}
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Wanted(NamedTuple):
    """What a function is given.

    Attributes:
        in_order: The fields it gets by position.
        by_name: The field that each of its other parameters gets.
    """

    in_order: tuple[str, ...]
    by_name: Mapping[str, str]

    def call(self, function: Any, scored: Scored) -> Any:
        """Call the function with what it wants."""
        given = [getattr(scored, field) for field in self.in_order]
        named = {name: getattr(scored, field) for name, field in self.by_name.items()}
        return function(*given, **named)

    @property
    def reads(self) -> frozenset[str]:
        """All that it could read of what it is given."""
        fields = {*self.in_order, *self.by_name.values()}
        return frozenset().union(*(_READS.get(field, {field}) for field in fields))


def wanted_by(
    function: Any, name: str, reads: Iterable[str] | None = None
) -> tuple[Wanted, frozenset[str]]:
    """Read off the function's parameters what it wants, and what it reads.

    Args:
        function: Any callable.
        name: What messages call it.
        reads: What it declares to read; None: all that it is given.

    Raises:
        TypeError: It wants something that is not among the five, or not among what it reads, or
            none of them.
        ValueError: `reads` names something unknown.
    """
    wanted = _wanted_by(function, name)
    if reads is None:
        return wanted, wanted.reads
    declared = checked_reads(reads, name)
    takes_rest = any(one.kind is Parameter.VAR_KEYWORD for one in _open_parameters(function, name))
    by_name = dict(wanted.by_name)
    for parameter, field in wanted.by_name.items():
        if takes_rest and not _is_given(field, declared):
            del by_name[parameter]
    for field in (*wanted.in_order, *by_name.values()):
        if not _is_given(field, declared):
            raise TypeError(f"{name} takes {field!r}, and reads={sorted(declared)} leaves it out")
    return wanted._replace(by_name=by_name), declared


def _is_given(field: str, reads: frozenset[str]) -> bool:
    return reads_item(reads) if field == "item" else _READS.get(field, {field}) <= reads


def _wanted_by(function: Any, name: str) -> Wanted:
    parameters = _open_parameters(function, name)
    if (alone := _only_one(parameters)) is not None:
        _refuse_a_slip(alone.name, name)
        if alone.kind in _BY_POSITION:
            return Wanted(("output",), {})
        return Wanted((), {alone.name: "output"})
    for one in parameters:
        if one.kind is Parameter.VAR_POSITIONAL:
            raise TypeError(f"{name} takes *{one.name}: {_ALLOWED}")
        if one.name not in FIELDS and _is_required(one):
            raise TypeError(f"{name} wants {one.name!r}: {_ALLOWED}{_nearest(one.name)}")
    wanted = _wanted(parameters, _bound(function))
    if not wanted.in_order and not wanted.by_name:
        raise TypeError(f"{name} looks at nothing: {_ALLOWED}")
    return wanted


_ALLOWED = f"an evaluator's parameters are some of {', '.join(FIELDS)}, by these names"


def _open_parameters(function: Any, name: str) -> list[Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        raise TypeError(
            f"the parameters of {name} ({one_line(function)}) cannot be read: wrap it, as in "
            f"def my_{name}(output): return {name}(output)"
        ) from None
    bound = _bound(function)
    return [one for one in parameters if one.name not in bound]


def _bound(function: Any) -> frozenset[str]:
    """Name what a partial has already given: that stays as the user has set it."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def _only_one(parameters: list[Parameter]) -> Parameter | None:
    """Return the one parameter that gets the output whatever its name."""
    if any(one.name in FIELDS or not _is_single(one) for one in parameters):
        return None
    required = [one for one in parameters if _is_required(one)]
    candidates = required or parameters
    return candidates[0] if len(candidates) == 1 else None


def _is_single(one: Parameter) -> bool:
    return one.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _is_required(one: Parameter) -> bool:
    return _is_single(one) and one.default is Parameter.empty


def _wanted(parameters: list[Parameter], bound: frozenset[str]) -> Wanted:
    in_order: list[str] = []
    by_name: dict[str, str] = {}
    whole = True  # a parameter by position can be given only if all before it are
    for one in parameters:
        if one.kind is Parameter.POSITIONAL_ONLY:
            whole = whole and one.name in FIELDS
            if whole:
                in_order.append(one.name)
        elif one.kind is Parameter.VAR_KEYWORD:
            rest = (field for field in FIELDS if field not in bound and field not in in_order)
            by_name.update((field, field) for field in rest)
        elif one.name in FIELDS:
            by_name[one.name] = one.name
    return Wanted(tuple(in_order), by_name)


def _refuse_a_slip(parameter: str, name: str) -> None:
    """Refuse `inputs` or `expcted`: such a function would score the output as something else."""
    if difflib.get_close_matches(parameter, FIELDS[1:], n=1, cutoff=0.8):
        raise TypeError(f"{name} wants {parameter!r}: {_ALLOWED}{_nearest(parameter)}")


def _nearest(parameter: str) -> str:
    near = difflib.get_close_matches(parameter, FIELDS, n=1)
    return f"; did you mean {near[0]!r}?" if near else "; any other needs a default"
