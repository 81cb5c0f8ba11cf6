"""What is an evaluator, and which names may it have?

It scores the workflow's output for one item. For the run, built-in evaluators, functions and
classes of the user all look like this.
"""

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn, Protocol, TypeVar, runtime_checkable

from limpet.shapes import COLUMNS, Item, Output, Scale, Score
from limpet.text import one_line

KindT = TypeVar("KindT")

Scores = Mapping[str, Score]
"""Scores by name, in order: a single one named "score", or those of a dict."""
RESERVED = ("workflow", "run", "summary", "events", "failures", "map")
"""Names that are files of a run."""
LONGEST_NAME = 200
"""Letters in a name: its files' names, which are longer, may have 255 bytes."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Scored:
    """What an evaluator sees: those of these fields that it declares in `reads`.

    Attributes:
        output: What the workflow returned.
        expected: The item's expected value; None if it has none.
        input: The item's input.
        item: The whole item, with its id and its row.
        trace: What happened inside the workflow, oldest first.
        where: The item's name in messages.
    """

    output: Any
    expected: Any = None
    input: Any = None
    item: Item | None = None
    trace: Sequence[Any] = ()
    where: str = ""

    def __getattr__(self, name: str) -> NoReturn:
        # Called only for missing attributes: the run leaves out what is not declared.
        raise not_given(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return filled, (Scored, given_to(self))


def filled(kind: type[KindT], values: Mapping[str, Any]) -> KindT:
    """Return an object that has only the given attributes."""
    instance = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


def given_to(thing: Scored | Item) -> dict[str, Any]:
    """Return the attributes that an object was given."""
    missing = object()
    values = {field.name: _slot(thing, field.name, missing) for field in fields(thing)}
    return {name: value for name, value in values.items() if value is not missing}


def _slot(thing: Any, name: str, missing: object) -> Any:
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return missing


def not_given(thing: Scored | Item, name: str) -> AttributeError:
    """Return the error for an attribute that was left out."""
    if any(field.name == name for field in fields(thing)):
        return AttributeError(f"the evaluator does not declare that it reads {name!r}")
    return AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}")


@runtime_checkable
class Evaluator(Protocol):
    """Scores one output at a time.

    A subclass only needs `name`, `fingerprint` and `call`. Any class with all these members works,
    too.

    Attributes:
        name: The name of its column.
        fingerprint: What its scores depend on, by part. If a part changes, it runs again.
        endpoint: The endpoint its calls are paced with: evaluators and workflows that name the same
            endpoint share a pacer. None: it calls no endpoint, or paces each call itself with
            `limpet.pacing.endpoint`.
        reads: What it reads: "output", "expected", "input", "trace", "id", "row", "row.<field>".
            It sees nothing else, and runs again only when one of these changes.
        secrets: Values that must not be written anywhere.
        scale: What its scores mean: their range and grouping. A class may leave it out.
    """

    name: str
    fingerprint: Mapping[str, str]
    endpoint: str | None = None
    reads: Collection[str] = ("id", "input", "expected", "output", "trace", "row")
    secrets: Iterable[str] = ()
    scale: Scale = Scale()

    async def open(self) -> None:
        """Prepare. Called once per session, before the first call."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden

    @abstractmethod
    async def call(self, scored: Scored) -> Scores | Output:
        """Return the scores of one output, or an `Output` of them with the call's usage.

        Raises:
            PermanentError: There is no score, and a retry cannot help.
        """
        ...

    async def close(self) -> None:
        """Release everything. Always called, in the task that opened it."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden


MEMBERS = {
    "name": "the name of its column",
    "fingerprint": "a dict of strings: what its scores depend on",
    "endpoint": "the endpoint its calls are paced with; None: none",
    "reads": "what it reads, for example ['output', 'expected']",
    "secrets": "values that must not be written; () if there are none",
    "open": "async, called before the first call",
    "call": "async, returns the scores of one output",
    "close": "async, called after the last call",
}
"""The members of an evaluator, each with its purpose."""


def scale_of(evaluator: Any) -> Scale:
    """Return the scale of an evaluator; without one, the default scale.

    Raises:
        TypeError: Its `scale` is something else.
    """
    scale = getattr(evaluator, "scale", Scale())
    if not isinstance(scale, Scale):
        raise TypeError(
            f"{one_line(evaluator)}: its scale is {one_line(scale)}; make it a "
            "limpet.types.Scale, for example Scale(range=(1, 5))"
        )
    return scale


def checked_name(name: Any) -> str:
    """Return the name if an evaluator may have it: it names a file and a line of the summary.

    Raises:
        TypeError: It is not a string.
        ValueError: It is reserved, or not a good file name.
    """
    if not isinstance(name, str):
        raise TypeError(f"name={name!r}: must be a string")
    if flaw := flaw_of_name(name):
        raise ValueError(f"name={one_line(repr(name))}: {flaw}; give another with name=…")
    return name


def flaw_of_name(name: str) -> str | None:
    """Return why an evaluator cannot have this name; None if it can."""
    if not _PLAIN.fullmatch(name):
        return "must be letters, digits, _ and - only, and not begin with a digit or -"
    if len(name) > LONGEST_NAME:
        return f"must have at most {LONGEST_NAME} characters, not {len(name):,}: it names files"
    reserved = (*RESERVED, *COLUMNS)
    if name.lower() in reserved:  # some file systems ignore case
        return f"{', '.join(reserved)} are reserved"
    return None
