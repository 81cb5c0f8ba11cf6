"""How are the inputs of somebody else's evaluator filled from ours?

`{"context": "{{documents}}"}` gives their `context` the dataset's field `documents`. A string that
is a single placeholder becomes the value itself, with its type; in a longer string each value is
text. `{{output}}`, `{{expected}}`, `{{input}}`, `{{trace}}`, `{{id}}` and `{{row}}` are the item's,
any other name is a field of the dataset; `{{row.output}}` is a field called like one of ours.
"""

from collections.abc import Mapping
from typing import Any

from limpet.errors import PermanentError
from limpet.evaluators.protocol import Scored
from limpet.evaluators.reads import FIELD, PARTS
from limpet.templates import check_placeholders, names_in, render
from limpet.text import one_line, quoted

_OF_ITEM = ("id", "row")


class Inputs:
    """Templates for the inputs of an evaluator, by its own names.

    Args:
        templates: The template of each input.
        who: The evaluator, for messages.

    Attributes:
        templates: The same, checked.
        reads: What they read of the item and its output.

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
        raise PermanentError(f"{where}: there is no row, and the evaluator takes {quoted(part)}")
    if part in _OF_ITEM:
        return getattr(scored.item, part)
    field = part.removeprefix(FIELD)
    if field not in scored.item.row:
        raise PermanentError(
            f"{where} has no field {quoted(field)}, which the evaluator takes",
            hint="name a field of the dataset, or output, expected, input, trace, id",
        )
    return scored.item.row[field]
