"""What does `run.json` say, and is it what it should be?

Everything that a run knows of itself beside its results, as one typed object. It is read and
written here and nowhere else. A field that is missing has its default. A field that has the wrong
type, or that this version of Limpet does not know, is refused: the file is damaged or newer, and to
go on without what it says could pay for results twice or mix two versions in silence.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from limpet.datasets.selection import Selection
from limpet.errors import JournalError
from limpet.journal.journal import RESTORE, Journal, read_about
from limpet.journal.layout import Layout
from limpet.text import one_line
from limpet.types import Item

WORKFLOW = "workflow"
"""The step that answers."""

OnChange = Literal["redo", "keep"]
"""What becomes of results whose function changed."""


_WORDS: dict[Any, str] = {
    list: "a list",
    frozenset: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True)
class StepBegan:
    """How a step stood when a session began.

    Attributes:
        kept: How many of its cells needed nothing more.
        calls: How many calls were planned.
        bytes_at: How long its column was.
        have: How many cells there were when the session ended; None: it has not.
        retries: How often a call was tried again; None: the session has not ended.
        tokens: What its calls used.
    """

    kept: int
    calls: int
    bytes_at: int
    have: int | None = None
    retries: int | None = None
    tokens: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepIdentity:
    """What those who only read the files need to tell which answers and scores count.

    Attributes:
        fingerprint: What the step is now.
        reads: Of an evaluator: what it reads.
    """

    fingerprint: str
    reads: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Session:
    """One process's work on the run.

    Attributes:
        began: When.
        pid: By which process.
        events_at: How long `events.jsonl` was then; None: nobody knows.
        failures_at: How long `failures.jsonl` was then.
        items: How many items the run reports of; None: nobody knows.
        trials: How often each is asked.
        selected: How many of them the session was about, where it was not all; else None.
        of: How many the dataset has, where `selected` is a part of them; else None.
        steps: Each step, the workflow first.
        ended: When it ended in good order; empty: it goes on, or was cut off.
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


@dataclass(frozen=True, slots=True)
class NotedRedo:
    """One forced redo.

    Attributes:
        generation: What its records have; 0: it has not begun.
        steps: The workflow, evaluators, or both.
        items: The ids of the items; None: all.
        versions: The fingerprint of each step when it was asked for.
        tried: Whether every cell that is still to do has failed in it.
    """

    generation: int
    steps: frozenset[str]
    items: frozenset[str] | None
    versions: dict[str, str]
    tried: bool = False

    def covers(self, step: str, id_: str) -> bool:
        """Tell whether it asks for a step of an item."""
        return step in self.steps and (self.items is None or id_ in self.items)

    def is_within(self, other: "NotedRedo") -> bool:
        """Tell whether another redo asks for all that this one does."""
        is_all = other.items is None or (self.items is not None and self.items <= other.items)
        return is_all and self.steps <= other.steps


@dataclass(frozen=True, slots=True)
class Completion:
    """What a run with nothing left to do was asked, and what its files were then.

    Attributes:
        asked: A hash of all that was asked.
        columns: By step, how many records its column has and how many bytes.
        files: By name, the checksum of each file.
        read: A digest of the files that the steps read.
    """

    asked: str
    columns: dict[str, list[int]]
    files: dict[str, int]
    read: str


@dataclass(slots=True)
class RunFile:
    """What `run.json` says. A session changes it as it goes, and writes it whole.

    Attributes:
        limpet: The version of Limpet that wrote it.
        kind: Whether it is an evaluation or a map.
        sessions: When it was worked on, oldest first.
        selections: Which items sessions were asked for: the run reports of them together.
        functions: By fingerprint, the parts of each version of the workflow, the latest last.
        decided: By fingerprint of the workflow, what to do about the answers of other versions.
        evaluators: The parts of each evaluator's fingerprint.
        steps: What each step is now.
        state: By step, the names of what changed by itself while the run went on.
        files_last: The number of the last line of `files.jsonl`.
        files_decided: By the name of a file that changed, and by what it says, what to do about
            the answers that were made of it.
        redo: The forced redos that are not done.
        generation: The highest generation that a forced redo was given.
        complete: Set while nothing is left to do.
        configuration: The configuration, without secrets.
        made_by: Which file was run by the command line, and how.
        imported: Where answers of other tools were taken over from.
    """

    limpet: str = ""
    kind: Literal["evaluation", "map"] = "evaluation"
    sessions: list[Session] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    functions: dict[str, dict[str, str]] = field(default_factory=dict)
    decided: dict[str, OnChange] = field(default_factory=dict)
    evaluators: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: dict[str, StepIdentity] = field(default_factory=dict)
    state: dict[str, list[str]] = field(default_factory=dict)
    files_last: int = 0
    files_decided: dict[str, dict[str, OnChange]] = field(default_factory=dict)
    redo: list[NotedRedo] = field(default_factory=list)
    generation: int = 0
    complete: Completion | None = None
    configuration: dict[str, Any] | None = None
    made_by: dict[str, Any] | None = None
    imported: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, layout: Layout) -> "RunFile":
        """Read it; where there is none, every field has its default.

        Raises:
            JournalError: It is damaged, or of another version. The message names the field.
        """
        known = read_about(layout)
        known.pop("format", None)
        try:
            run_file: RunFile = _object(cls, known, "")
        except ValueError as error:
            raise JournalError(f"{layout.about}: {error}", hint=RESTORE) from error
        return run_file

    def write(self, journal: Journal) -> None:
        """Write it, whole.

        Raises:
            JournalError: It cannot be written, or the lock is lost: then it may be another's.
        """
        journal.write_about(plain(self))

    @property
    def session(self) -> Session | None:
        """The last session; None: there was none."""
        return self.sessions[-1] if self.sessions else None

    def change_session(self, **changes: Any) -> None:
        """Note something of the session that goes on."""
        self.sessions[-1] = dataclasses.replace(self.sessions[-1], **changes)

    def select(self, selection: Selection) -> None:
        """Note that a session was asked for these items, beside what sessions before it were."""
        if selection == Selection() or Selection() in self.selections:
            self.selections = [Selection()]  # all of them, whatever else
        elif selection not in self.selections:
            self.selections.append(selection)

    def reported(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the places of the items that any session was asked for, in the dataset's order.

        The run reports of these: so a limit on a finished run changes nothing of what it says, and
        a first try with three items says nothing of the others.
        """
        if Selection() in self.selections:
            return range(len(items))
        return sorted({place for one in self.selections for place in one.places(items)})

    @property
    def workflow_parts(self) -> dict[str, str]:
        """The parts of the workflow's latest version; empty: there is none."""
        return next(reversed(self.functions.values()), {})


def plain(value: Any) -> Any:
    """Return a value as JSON has it. A field with its default is left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = ((one, getattr(value, one.name)) for one in dataclasses.fields(value))
        return {one.name: plain(part) for one, part in named if part != _default(one)}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, frozenset)):
        return [plain(part) for part in (sorted(value) if isinstance(value, frozenset) else value)]
    return value


def _default(one: "dataclasses.Field[Any]") -> Any:
    return one.default if one.default_factory is dataclasses.MISSING else one.default_factory()


@cache
def _kinds(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _object(kind: Any, told: dict[str, Any], where: str) -> Any:
    kinds = _kinds(kind)
    for name in told.keys() - kinds.keys():
        raise ValueError(f"{where}{name} is unknown to this version of Limpet")
    for one in dataclasses.fields(kind):
        if one.name not in told and _default(one) is dataclasses.MISSING:
            raise ValueError(f"{where}{one.name} is missing")
    return kind(**{name: _value(kinds[name], one, where + name) for name, one in told.items()})


def _value(kind: Any, told: Any, where: str) -> Any:
    """Return a value of JSON as a field of that type has it.

    Raises:
        ValueError: It has another type.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or (origin is Literal and told in inner):
        return told
    if origin is UnionType:  # of something and None
        return None if told is None else _value(inner[0], told, where)
    if origin in (list, frozenset) and isinstance(told, list):
        return origin(_value(inner[0], one, f"{where}[{at}]") for at, one in enumerate(told))
    if origin is dict and isinstance(told, dict):
        return {name: _value(inner[1], one, f"{where}.{name}") for name, one in told.items()}
    if dataclasses.is_dataclass(kind) and isinstance(told, dict):
        return _object(kind, told, f"{where}.")
    if type(told) is kind or (kind is float and type(told) is int):  # True is no number here
        return told
    wanted = " or ".join(inner) if origin is Literal else _WORDS.get(origin or kind, "an object")
    raise ValueError(f"{where} must be {wanted}, not {one_line(told)}")
