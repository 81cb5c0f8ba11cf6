"""What were the steps on the way called?

A step is a text, a dict with a name, or one of NAT's, which has name and event type in its
`payload`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from limpet.errors import PermanentError
from limpet.evaluators.expectation import brief, item_of, text_of
from limpet.evaluators.protocol import Scored
from limpet.json_values import NotPlainError, to_plain


def names_of(
    steps: Sequence[Any], key: str, types: tuple[str, ...] | None, where: str
) -> list[str]:
    """Return the names of the steps, in order.

    Args:
        steps: The steps.
        key: Where a step's name stands.
        types: Which event types count, of steps that have one; None: all of them.
        where: Whose steps they are, for the message.

    Raises:
        PermanentError: One has no name.
    """
    names = []
    for number, step in enumerate(steps, 1):
        fields = _fields(step, key)
        kind = fields.get("event_type")
        if types is not None and kind is not None and kind not in types:
            continue
        name = text_of(fields.get(key))
        if name is None:
            raise PermanentError(f"{where}: step {number}, {brief(step)}, has no {key!r}")
        names.append(name)
    return names


def expected_steps(scored: Scored, column: str) -> list[Any]:
    """Return the steps that the item expects: those in the column, or else its expected list.

    Raises:
        PermanentError: It does not say.
    """
    steps = None if scored.item is None else scored.item.row.get(column)
    if isinstance(steps, str):
        steps = _read(steps, scored, column)
    if steps is None:
        steps = scored.expected
    if not isinstance(steps, (list, tuple)):
        raise PermanentError(
            f"{item_of(scored)} has no expected value that lists steps: it has no column "
            f"{column!r}, and its expected value is {brief(scored.expected)}",
            hint="give the steps in a column, and name that with expected_column=…",
        )
    return list(steps)


def _fields(step: Any, key: str) -> Mapping[str, Any]:
    if isinstance(step, str):
        return {key: step}
    try:
        plain = step if isinstance(step, Mapping) else to_plain(step)
    except NotPlainError:
        return {}
    if not isinstance(plain, Mapping):
        return {}
    payload = plain.get("payload")
    return payload if isinstance(payload, Mapping) else plain


def _read(text: str, scored: Scored, column: str) -> Any:
    """Read steps out of a table's cell, which can only be text."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise PermanentError(
            f"{item_of(scored)}: its column {column!r} is no JSON list, but {brief(text)}: {error}"
        ) from None
