"""`run.json`: everything that a run knows about itself beside its results, as one typed object.

Only this module reads and writes it. A missing field has its default. A field of the wrong type, or
unknown to this version of Limpet, is refused: the file is damaged or newer, and ignoring the field
could pay for results twice or silently mix two versions.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from limpet.datasets.selection import Selection
from limpet.errors import JournalError
from limpet.journal.journal import RESTORE, Journal, read_run_json
from limpet.journal.layout import Layout
from limpet.run.record_fields import ToolkitNames
from limpet.shapes import Item, Scale
from limpet.text import one_line

# ---- How does a dataclass become JSON and back, with every type checked? ------------------------

_WORDS: dict[Any, str] = {
    list: "a list",
    tuple: "a list",
    frozenset: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


def to_data(value: Any) -> Any:
    """Return a value in JSON's types. A field with its default value is left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = ((member, getattr(value, member.name)) for member in dataclasses.fields(value))
        return {member.name: to_data(part) for member, part in named if part != _default(member)}
    if isinstance(value, dict):
        return {name: to_data(part) for name, part in value.items()}
    if isinstance(value, frozenset):
        value = sorted(value)
    if isinstance(value, (list, tuple)):
        return [to_data(part) for part in value]
    return value


def _default(member: "dataclasses.Field[Any]") -> Any:
    if member.default_factory is dataclasses.MISSING:
        return member.default
    return member.default_factory()


def from_data(kind: Any, data: dict[str, Any]) -> Any:
    """Return an object of this kind from the output of `to_data`.

    Raises:
        ValueError: A field is missing, unknown or of another type; the message names it.
    """
    return _object(kind, data, "")


_types_of = cache(get_type_hints)


def _object(kind: Any, data: dict[str, Any], where: str) -> Any:
    types = _types_of(kind)
    for name in data.keys() - types.keys():
        raise ValueError(f"{where}{name} is unknown to this version of Limpet")
    for member in dataclasses.fields(kind):
        if member.name not in data and _default(member) is dataclasses.MISSING:
            raise ValueError(f"{where}{member.name} is missing")
    return kind(**{name: _value(types[name], part, where + name) for name, part in data.items()})


def _value(kind: Any, data: Any, where: str) -> Any:
    """Return JSON data as a value of a field's type.

    Raises:
        ValueError: The data has another type.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or (origin is Literal and data in inner):
        return data
    if origin is UnionType:  # a type or None
        return None if data is None else _value(inner[0], data, where)
    if origin in (list, frozenset) and isinstance(data, list):
        return origin(_value(inner[0], part, f"{where}[{at}]") for at, part in enumerate(data))
    if origin is tuple and isinstance(data, list) and len(data) == len(inner):
        pairs = enumerate(zip(inner, data, strict=True))
        return tuple(_value(one, part, f"{where}[{at}]") for at, (one, part) in pairs)
    if origin is dict and isinstance(data, dict):
        return {name: _value(inner[1], part, f"{where}.{name}") for name, part in data.items()}
    if dataclasses.is_dataclass(kind) and isinstance(data, dict):
        return _object(kind, data, f"{where}.")
    if type(data) is kind or (kind is float and type(data) is int):  # True is not a number here
        return data
    wanted = " or ".join(inner) if origin is Literal else _WORDS.get(origin or kind, "an object")
    raise ValueError(f"{where} must be {wanted}, not {one_line(data)}")


# ---- `run.json`: everything that a run knows about itself beside its results, as one typed object.

WORKFLOW = "workflow"
"""The name of the step that answers."""

OnChange = Literal["redo", "keep"]
"""What to do with results whose function changed."""


@dataclass(frozen=True, slots=True)
class StepBegan:
    """A step at the beginning and at the end of a session.

    Attributes:
        kept: How many cells were done at the beginning.
        calls: How many calls were planned.
        bytes_at: The size of the column at the beginning.
        have: How many cells were done at the end; None: the session has not ended.
        retries: How many attempts were retried; None: the session has not ended.
        tokens: The usage of its calls.
        failed: How many cells had failed at the end, in this session or before, by class.
        errors: The failed cells by exception.
    """

    kept: int
    calls: int
    bytes_at: int
    have: int | None = None
    retries: int | None = None
    tokens: dict[str, float] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepIdentity:
    """The identity of a step: tells readers which answers and scores count.

    Attributes:
        fingerprint: The fingerprint of the step as it last ran.
        reads: What an evaluator reads.
    """

    fingerprint: str
    reads: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Session:
    """One process's work on the run.

    Attributes:
        began: When it began.
        pid: Its process.
        events_at: The size of `events.jsonl` at the beginning; None: unknown.
        failures_at: The size of `failures.jsonl` at the beginning.
        items: How many items the run reports on; None: unknown.
        trials: How many times the workflow answers each item.
        selected: How many items the session selected; None: all.
        of: How many items the dataset has; None: all are selected.
        steps: Each step, the workflow first.
        ended: When it ended properly; empty: it is running, or was cut off.
        given_up: How many calls in flight it gave up when it stopped: they may have been paid for.
        items_file: The size and checksum of `items.jsonl`; empty: unknown.
        items_made_of: A digest of the content of `items.jsonl`; empty: unknown.
        earlier_answers: For how many items an earlier answer may count; None: unknown.
        columns: By step, the size and checksum of its column at the end (`size_and_crc`).
        did_all: Whether it did everything that was requested; some of it may have failed.
        stop_when: The half-width of each score at which it stops; empty: it runs all items.
        enough: Whether it stopped because it reached them.
    """

    began: str = ""
    pid: int = 0
    events_at: int | None = None
    failures_at: int = 0
    items: int | None = None
    trials: int = 1
    selected: int | None = None
    of: int | None = None
    steps: dict[str, StepBegan] = field(default_factory=dict)
    ended: str = ""
    given_up: int = 0
    items_file: list[int] = field(default_factory=list)
    items_made_of: str = ""
    earlier_answers: int | None = None
    columns: dict[str, list[int]] = field(default_factory=dict)
    did_all: bool = False
    stop_when: dict[str, float] = field(default_factory=dict)
    enough: bool = False


@dataclass(frozen=True, slots=True)
class PendingRedo:
    """A forced redo.

    Attributes:
        generation: The generation of its records; 0: it has not begun.
        steps: The names of the steps.
        items: The ids of the items; None: all.
        fingerprints: The fingerprint of each step when the redo was requested.
        tried: Whether all its remaining cells have failed.
    """

    generation: int
    steps: frozenset[str]
    items: frozenset[str] | None
    fingerprints: dict[str, str]
    tried: bool = False

    def covers(self, step: str, id_: str) -> bool:
        """Return whether it covers a step of an item."""
        return step in self.steps and (self.items is None or id_ in self.items)

    def is_same(self, other: "PendingRedo") -> bool:
        """Return whether another redo has the same steps, fingerprints and items."""
        mine = (self.steps, self.items, self.fingerprints)
        return mine == (other.steps, other.items, other.fingerprints)

    def is_within(self, other: "PendingRedo") -> bool:
        """Return whether another redo covers all of this one."""
        is_all = other.items is None or (self.items is not None and self.items <= other.items)
        return is_all and self.steps <= other.steps


@dataclass(frozen=True, slots=True)
class RandomOrder:
    """The order in which sessions with `stop_when` take the items: by rank.

    Attributes:
        seed: The seed of the ranks.
        selection: What the last of these sessions selected.
        until: The rank of the last item that it began, in hex digits; empty: none. It has begun
            every selected item of a lower rank.
    """

    seed: int = 0
    selection: Selection = field(default_factory=Selection)
    until: str = ""


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """The file that a session read its items from.

    Attributes:
        path: Where it is, relative to the run: both may move.
        digest: A digest of its content.
    """

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class Completion:
    """The request that a run completed, and the state of its files.

    Attributes:
        requested: A digest of the request.
        columns: By step, the number of records and bytes of its column.
        files: By name, the checksum of each file.
        read: A digest of the files that the steps read.
    """

    requested: str
    columns: dict[str, list[int]]
    files: dict[str, int]
    read: str


@dataclass(slots=True)
class RunFile:
    """The content of `run.json`. A session changes it and rewrites the file.

    Attributes:
        limpet: The version of Limpet that wrote it.
        kind: Whether it is an evaluation or a map.
        sessions: The sessions, oldest first.
        selections: The selections of sessions: the run reports on all of these items.
        functions: By fingerprint, the parts of each version of the workflow, the latest last.
        decided: By fingerprint of the workflow, the other versions whose answers the user kept
            for it; empty: the user decided to redo them all.
        evaluators: The parts of each evaluator's fingerprint.
        steps: The identity of each step.
        state: By step, the names of state that changed during the run.
        files_last: The number of the last line of `files.jsonl`.
        files_decided: By the name and digest of a changed file, what to do with the answers made
            from it.
        redo: The unfinished forced redos.
        generation: The highest generation of a forced redo.
        complete: Set if nothing is left to do.
        configuration: The configuration, without secrets.
        made_by: Which file the command line ran, and how.
        dataset: The file of the last session's dataset; None: it was not a file.
        unfinished: The datasets that sessions began and none has finished, by name.
        imported: Where answers of other tools were imported from.
        names: The names of the fields in the toolkit's files.
        scales: The scale of each evaluator's scores, where it is not the default.
        order: The order of the items with `stop_when`; None: no session had it.
        paused: When `limpet ctl` paused the run; empty: it is not paused.
    """

    limpet: str = ""
    kind: Literal["evaluation", "map"] = "evaluation"
    sessions: list[Session] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    functions: dict[str, dict[str, str]] = field(default_factory=dict)
    decided: dict[str, list[str]] = field(default_factory=dict)
    evaluators: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: dict[str, StepIdentity] = field(default_factory=dict)
    state: dict[str, list[str]] = field(default_factory=dict)
    files_last: int = 0
    files_decided: dict[str, dict[str, OnChange]] = field(default_factory=dict)
    redo: list[PendingRedo] = field(default_factory=list)
    generation: int = 0
    complete: Completion | None = None
    configuration: dict[str, Any] | None = None
    made_by: dict[str, Any] | None = None
    dataset: DatasetFile | None = None
    unfinished: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    names: ToolkitNames = field(default_factory=ToolkitNames)
    scales: dict[str, Scale] = field(default_factory=dict)
    order: RandomOrder | None = None
    paused: str = ""

    @classmethod
    def load(cls, layout: Layout, warn: Callable[[str], None] | None = None) -> "RunFile":
        """Read the file; if it does not exist, every field has its default.

        Args:
            layout: Where it is.
            warn: Called with a warning if the backup copy is used; None: log it.

        Raises:
            JournalError: It is damaged, or from another version. The message names the field.
        """
        known = read_run_json(layout) if warn is None else read_run_json(layout, warn)
        known.pop("format", None)
        try:
            run_file: RunFile = from_data(cls, known)
        except ValueError as error:
            raise JournalError(f"{layout.run_json}: {error}", hint=RESTORE) from error
        return run_file

    def write(self, journal: Journal) -> None:
        """Write the file.

        Raises:
            JournalError: It cannot be written, or another process may have taken the lock.
        """
        journal.write_run_json(to_data(self))

    @property
    def session(self) -> Session | None:
        """The last session; None: there is none."""
        return self.sessions[-1] if self.sessions else None

    def change_session(self, **changes: Any) -> None:
        """Change fields of the current session."""
        self.sessions[-1] = dataclasses.replace(self.sessions[-1], **changes)

    def select(self, selection: Selection) -> None:
        """Add a session's selection to those of earlier sessions."""
        if selection == Selection() or Selection() in self.selections:
            self.selections = [Selection()]  # all items
        elif selection not in self.selections:
            self.selections.append(selection)

    def reported(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the positions of the items that any session selected, in the dataset's order.

        The run reports on these: a limit on a finished run does not change its report, and after a
        first try with three items, the report covers these three.
        """
        if Selection() in self.selections:
            return range(len(items))
        return sorted(
            {position for selection in self.selections for position in selection.positions(items)}
        )

    @property
    def workflow_parts(self) -> dict[str, str]:
        """The parts of the workflow's latest version; empty: there is none."""
        return next(reversed(self.functions.values()), {})
