"""`people.json`: which answers were drawn for people to label, and what their labels were.

It has a lock of its own, so that a sample can be drawn, and labels compared, while a session works
on the run. It is replaced as a whole, synced to disk, and has a CRC: labels are people's work.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from limpet.errors import DiskFullError, JournalError, RunLockedError
from limpet.journal.files import NO_SPACE, read_whole, replace_file
from limpet.journal.journal import FORMAT
from limpet.journal.layout import Layout
from limpet.journal.lines import crc32
from limpet.journal.lock import Lock
from limpet.json_values import dumps
from limpet.run.typed_json import from_data, to_data
from limpet.text import one_line


@dataclass(frozen=True, slots=True)
class Drawn:
    """An answer that was drawn.

    Attributes:
        id: The item's id.
        trial: The trial.
        output: The digest of the answer that people see.
    """

    id: str
    trial: int
    output: str


@dataclass(frozen=True, slots=True)
class Draw:
    """A random sample of items, all equally likely, each with one of its answers.

    Attributes:
        at: When it was drawn.
        seed: The seed.
        of: How many answers there were.
        answers_at: The size of the workflow's column: later answers could not be drawn.
        cells: What was drawn, in the random order of the file for people.
    """

    at: str
    seed: int
    of: int
    answers_at: int
    cells: list[Drawn]

    @property
    def population(self) -> tuple[int, int]:
        """Tells which answers it was drawn from: two draws with the same are one larger draw."""
        return self.answers_at, self.of


@dataclass(frozen=True, slots=True)
class Labelled:
    """What people said of an answer.

    Attributes:
        id: The item's id.
        trial: The trial.
        output: The digest of the answer.
        value: The value of the label; None: it has none.
        label: The label in words; empty: it is a number.
        seen: Whether people had seen the scores.
    """

    id: str
    trial: int
    output: str
    value: float | None = None
    label: str = ""
    seen: bool = False


@dataclass(frozen=True, slots=True)
class KeptCalibration:
    """The labels that a score was last compared with.

    Attributes:
        at: When.
        fingerprint: That of the evaluator: another one needs a comparison of its own.
        draws: How many draws there were: a later draw must not make a label random.
        labels: What people said.
        of: A digest of `corrected` and of all that it follows from; empty: not known.
        corrected: The mean of the score, corrected by the labels.
    """

    at: str
    fingerprint: str
    draws: int
    labels: list[Labelled]
    of: str = ""
    corrected: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class PeopleFile:
    """The content of `people.json`.

    Attributes:
        draws: The draws, oldest first.
        calibrations: By the name of a score, the labels it was compared with.
    """

    draws: list[Draw] = field(default_factory=list)
    calibrations: dict[str, KeptCalibration] = field(default_factory=dict)

    @classmethod
    def load(cls, layout: Layout) -> "PeopleFile":
        """Read the file; empty if it does not exist.

        Raises:
            JournalError: It is damaged, or of another version of Limpet.
        """
        try:
            people: PeopleFile = from_data(cls, _known(read_whole(layout.people)))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, RecursionError) as error:
            raise JournalError(
                f"{one_line(str(layout.people))}: {error}",
                hint="restore it, or move it away: its draws and labels are lost then",
            ) from error
        return people

    @classmethod
    @contextmanager
    def changing(cls, layout: Layout) -> "Iterator[PeopleFile]":
        """Read the file, and write it whole at the end; nobody else changes it meanwhile.

        Raises:
            RunLockedError: Another process is changing it.
            JournalError: It cannot be read or written.
        """
        try:
            lock = Lock(layout.people_lock)
        except RunLockedError as error:
            raise RunLockedError(
                f"{one_line(str(layout.people))}: another process is changing it",
                hint="wait for it to end, and try again",
                holder=error.holder,
            ) from error
        except OSError as error:
            raise _unwritable(layout, error) from error
        try:
            people = cls.load(layout)
            yield people
            content = to_data(people)
            text = dumps({"format": FORMAT, "crc": _crc(content), **content}, indent=1)
            try:
                replace_file(layout.people, [text.encode(), b"\n"])
            except OSError as error:
                raise _unwritable(layout, error) from error
        finally:
            lock.release()


def _known(text: bytes) -> dict[str, Any]:
    known = json.loads(text)
    if not isinstance(known, dict) or known.pop("format", None) != FORMAT:
        raise ValueError("is damaged, or not of this version of Limpet")
    if "crc" in known and known.pop("crc") != _crc(known):  # earlier files have none
        raise ValueError("is damaged, or was edited by hand")
    return known


def _crc(content: dict[str, Any]) -> int:
    return crc32(dumps(content).encode())


def _unwritable(layout: Layout, error: OSError) -> JournalError:
    kind = DiskFullError if error.errno in NO_SPACE else JournalError
    return kind(f"{one_line(str(layout.people))}: cannot be written: {error.strerror}")
