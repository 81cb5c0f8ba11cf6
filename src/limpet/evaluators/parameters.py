"""Which fields does a function take?

The names of its parameters say so: `def brevity(output)`, `def correct(output, expected)`. Besides
the output, a required parameter of another name is a column of the dataset: `fits(output, topic)`.
A function with a single parameter of another name gets the output. Parameters that cannot be filled
are an error when the evaluator is created or the dataset is read, not a thousand failures later.
"""

import functools
import inspect
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from inspect import Parameter
from typing import Any, NamedTuple

from limpet.errors import PermanentError
from limpet.evaluators.protocol import Scored
from limpet.evaluators.reads import FIELD, ITEM, PARTS, checked_reads, reads_item
from limpet.placeholders import check_placeholders, names_in, render
from limpet.text import did_you_mean, one_line, quoted

# ---- How are the inputs of another library's evaluator filled? ----------------------------------
#
# `{"context": "{{documents}}"}` gives their `context` the dataset's field `documents`. A string
# that is a single placeholder becomes the value itself, with its type; in a longer string each
# value is text. `{{output}}`, `{{expected}}`, `{{input}}`, `{{trace}}`, `{{id}}` and `{{row}}` are
# the item's, any other name is a field of the dataset; `{{row.output}}` is a field with such a
# name.

_OF_ITEM = ("id", "row")


class Inputs:
    """Templates for the inputs of an evaluator, by its own names.

    Args:
        templates: The template of each input.
        who: The evaluator, for messages.

    Attributes:
        templates: The same, checked.
        reads: The parts of the item and its output that they read.

    Raises:
        TypeError: They are not a dict with strings as keys.
        LimpetError: A placeholder is not closed.
    """

    def __init__(self, templates: Mapping[str, Any], who: str) -> None:
        if not isinstance(templates, Mapping) or not all(isinstance(key, str) for key in templates):
            example = '{"context": "{{documents}}"}'
            raise TypeError(
                f"{who}: inputs={one_line(templates)}: must be a dict of templates, like {example}"
            )
        for field, template in templates.items():
            check_placeholders(**{f"{who}: inputs.{field}": template})
        self.templates = dict(templates)
        self.reads = frozenset(_read_by(name) for _, name in names_in(self.templates))

    def values(self, scored: Scored) -> dict[str, Any]:
        """Return the inputs for one output.

        Raises:
            PermanentError: The item lacks a field.
        """

        def value(name: str) -> Any:
            return value_of(scored, _read_by(name))

        return {field: render(template, value) for field, template in self.templates.items()}


def _read_by(name: str) -> str:
    """Return what a placeholder reads, as an evaluator declares it."""
    return name if name in PARTS or name.startswith(FIELD) else FIELD + name


def value_of(scored: Scored, part: str) -> Any:
    """Return a part of what is scored, as in `Evaluator.reads`, or the whole item.

    Raises:
        PermanentError: The item lacks the field.
    """
    if part not in _OF_ITEM and not part.startswith(FIELD):
        return getattr(scored, part)
    where = scored.where or "the item"
    if scored.item is None:
        raise PermanentError(f"{where}: there is no row, but the evaluator takes {quoted(part)}")
    if part in _OF_ITEM:
        return getattr(scored.item, part)
    field = part.removeprefix(FIELD)
    if field not in scored.item.row:
        raise PermanentError(
            f"{where} has no field {quoted(field)}, which the evaluator takes",
            hint="name a field of the dataset, or output, expected, input, trace, id",
        )
    return scored.item.row[field]


# ---- Which fields does a function take? ---------------------------------------------------------

FIELDS = ("output", "expected", "input", "item", "trace")
"""The fields a function can take."""
_ALLOWED = (
    f"an evaluator's parameters are some of {', '.join(FIELDS)}, by these names, and columns of "
    "the dataset"
)
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_REST = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Wanted(NamedTuple):
    """The fields a function gets.

    Attributes:
        in_order: The fields it gets by position.
        by_name: The field for each of its other parameters; `row.<column>` is a column.
    """

    in_order: tuple[str, ...]
    by_name: Mapping[str, str]

    def call(self, function: Any, scored: Scored, inputs: Mapping[str, Any]) -> Any:
        """Call the function with the fields it takes, and `inputs` by name."""
        given = [getattr(scored, field) for field in self.in_order]
        named = {name: value_of(scored, field) for name, field in self.by_name.items()}
        return function(*given, **named, **inputs)

    @property
    def reads(self) -> frozenset[str]:
        """Everything it could read from these fields."""
        fields = {*self.in_order, *self.by_name.values()}
        return frozenset(fields - {"item"} | (ITEM if "item" in fields else set()))

    @property
    def columns(self) -> frozenset[str]:
        """The columns it takes, as in `reads`."""
        return frozenset(field for field in self.by_name.values() if field.startswith(FIELD))


def wanted_by(
    function: Any,
    name: str,
    reads: Iterable[str] | None = None,
    inputs: Collection[str] = (),
) -> tuple[Wanted, frozenset[str]]:
    """Return the fields a function takes, by its parameters, and what it reads.

    It reads what it declares in `reads`; None: everything it gets. `inputs` fills other parameters.

    Raises:
        TypeError: It takes no field, something else, a field that `reads` leaves out, or lacks a
            parameter that `inputs` names.
        ValueError: `reads` names something unknown.
    """
    parameters = _without_inputs(_open_parameters(function, name), inputs, name)
    filled = _bound(function).union(inputs)
    if inputs and not parameters:
        return Wanted((), {}), frozenset()
    wanted = _wanted(parameters, filled, name)
    if reads is None:
        return wanted, wanted.reads
    declared = checked_reads(reads, name)

    def is_declared(field: str) -> bool:
        if field == "item":
            return reads_item(declared)
        return field in declared or (field.startswith(FIELD) and "row" in declared)

    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        by_name = {
            key: field
            for key, field in wanted.by_name.items()
            if field not in FIELDS or is_declared(field)
        }
        wanted = wanted._replace(by_name=by_name)
    for field in (*wanted.in_order, *wanted.by_name.values()):
        if not is_declared(field):
            raise TypeError(f"{name} takes {field!r}, but reads={sorted(declared)} leaves it out")
    return wanted, declared


def _open_parameters(function: Any, name: str) -> list[Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        raise TypeError(
            f"the parameters of {name} ({one_line(function)}) cannot be read: wrap it, as in "
            f"def my_{name}(output): return {name}(output)"
        ) from None
    bound = _bound(function)
    return [parameter for parameter in parameters if parameter.name not in bound]


def _without_inputs(
    parameters: list[Parameter], inputs: Collection[str], name: str
) -> list[Parameter]:
    """Return the parameters that `inputs` does not fill."""
    named = [p.name for p in parameters if p.kind not in (Parameter.POSITIONAL_ONLY, *_REST)]
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    for field in () if takes_any else inputs:
        if field not in named:
            raise TypeError(f"inputs names {field!r}, which {name} does not take by name")
    return [parameter for parameter in parameters if parameter.name not in inputs]


def _bound(function: Any) -> frozenset[str]:
    """Return the parameters that a partial has filled: they keep the user's values."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def _wanted(parameters: list[Parameter], bound: frozenset[str], name: str) -> Wanted:
    if (single := _single(parameters)) is not None:
        # `inputs` or `expcted`: such a function would score the output as something else.
        if get_close_matches(single.name, FIELDS[1:], n=1, cutoff=0.8):
            raise _unknown(single.name, name)
        if single.kind in _BY_POSITION:
            return Wanted(("output",), {})
        return Wanted((), {single.name: "output"})
    for parameter in parameters:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            raise TypeError(f"{name} takes *{parameter.name}: {_ALLOWED}")
        by_position = parameter.kind is Parameter.POSITIONAL_ONLY
        if by_position and parameter.name not in FIELDS and _is_required(parameter):
            raise _unknown(parameter.name, name)
    wanted = _by_their_names(parameters, bound)
    if wanted.columns and wanted.reads.isdisjoint(("output", "trace")):
        # `def correct(answer, expected)` means the output, and would score the column `answer`.
        raise _unknown(min(wanted.columns).removeprefix(FIELD), name)
    if not wanted.in_order and not wanted.by_name:
        raise TypeError(f"{name} takes no field: {_ALLOWED}")
    return wanted


def _single(parameters: list[Parameter]) -> Parameter | None:
    """Return the parameter that gets the output, whatever its name."""
    if any(parameter.name in FIELDS or parameter.kind in _REST for parameter in parameters):
        return None
    required = [parameter for parameter in parameters if _is_required(parameter)]
    candidates = required or parameters
    return candidates[0] if len(candidates) == 1 else None


def _is_required(parameter: Parameter) -> bool:
    return parameter.kind not in _REST and parameter.default is Parameter.empty


def _by_their_names(parameters: list[Parameter], bound: frozenset[str]) -> Wanted:
    in_order: list[str] = []
    by_name: dict[str, str] = {}
    unbroken = True  # a parameter by position can be filled only if all before it are
    for parameter in parameters:
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            unbroken = unbroken and parameter.name in FIELDS
            if unbroken:
                in_order.append(parameter.name)
        elif parameter.kind is Parameter.VAR_KEYWORD:
            rest = (field for field in FIELDS if field not in bound and field not in in_order)
            by_name.update((field, field) for field in rest)
        elif parameter.name in FIELDS:
            by_name[parameter.name] = parameter.name
        elif _is_required(parameter):
            by_name[parameter.name] = f"{FIELD}{parameter.name}"
    return Wanted(tuple(in_order), by_name)


def _unknown(parameter: str, name: str) -> TypeError:
    advice = did_you_mean(parameter, FIELDS) or (
        f"; take the output, too: def {name}(output, {parameter})"
    )
    return TypeError(f"{name} takes {parameter!r}: {_ALLOWED}{advice}")
