"""Which answers should people label? A random sample, which represents them all.

Every item with an answer is equally likely to be drawn, with one of its trials, and the run records
the draw. A second draw from the same answers leaves out the items drawn before: together they are
one larger random sample. If there are new answers by then, all answers are drawn from again, or old
ones would be more likely than new ones.
"""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from limpet.arguments import whole_number_from
from limpet.errors import DiskFullError, JournalError, LimpetError, RunLockedError
from limpet.fingerprints.keys import digest
from limpet.journal.files import NO_SPACE, read_whole, replace_file
from limpet.journal.journal import FORMAT
from limpet.journal.layout import Layout
from limpet.journal.lines import timestamp
from limpet.journal.lock import Lock
from limpet.json_values import dumps
from limpet.run.calibrating.judged import output_of
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.table import csv_line, spreadsheet_cell, write_xlsx
from limpet.run.run_file import from_data, to_data
from limpet.text import count, one_line

if TYPE_CHECKING:
    from limpet.run.reading.run_results import RunResults


# ---- `people.json`: the answers drawn for people to label, and their labels. --------------------
#
# It has a lock of its own, so that a sample can be drawn, and labels compared, while a session
# works on the run. It is replaced atomically, synced to disk, and has a CRC: labels are people's
# work.


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
        """Identifies the answers drawn from: two draws from the same are one larger draw."""
        return self.answers_at, self.of


@dataclass(frozen=True, slots=True)
class Labelled:
    """The label of an answer by people.

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
        fingerprint: The evaluator's fingerprint: another one needs its own comparison.
        draws: How many draws there were: a later draw must not make a label random.
        labels: What people said.
        of: A digest of `corrected` and all that determines it; empty: not known.
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
            JournalError: It is damaged, or from another version of Limpet.
        """
        try:
            people: PeopleFile = from_data(cls, _known(read_whole(layout.people)))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, RecursionError) as error:
            raise JournalError(
                f"{one_line(str(layout.people))}: {error}",
                hint="restore it, or move it away and lose its draws and labels",
            ) from error
        return people

    @classmethod
    @contextmanager
    def changing(cls, layout: Layout) -> "Iterator[PeopleFile]":
        """Read the file, and rewrite it at the end; it is locked meanwhile.

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
        raise ValueError("is damaged, or from another version of Limpet")
    if "crc" in known and known.pop("crc") != _crc(known):  # earlier files have none
        raise ValueError("is damaged, or was edited by hand")
    return known


def _crc(content: dict[str, Any]) -> int:
    return crc32(dumps(content).encode())


def _unwritable(layout: Layout, error: OSError) -> JournalError:
    kind = DiskFullError if error.errno in NO_SPACE else JournalError
    return kind(f"{one_line(str(layout.people))}: cannot be written: {error.strerror}")


# ---- Which answers should people label? ---------------------------------------------------------

LABEL, DRAWN = "label", "drawn"
"""The columns for people to fill in, and the one that identifies the answer."""
_SEEDS = 2**32


class DrawnSample(NamedTuple):
    """What was drawn and written.

    Attributes:
        drawn: How many answers, each to another item.
        of: How many answers there were, counting each trial.
        before: How many items were drawn earlier, and not again.
        seed: The seed: it draws the same from the same answers.
        shortened: How many cells were too long for an Excel file.
    """

    drawn: int
    of: int
    before: int
    seed: int
    shortened: int


def draw_sample(
    reader: "RunResults",
    n: int,
    path: str | os.PathLike[str],
    *,
    seed: int | None = None,
    force: bool = False,
) -> DrawnSample:
    """Draw answers at random, record the draw in the run, and write a file for people.

    Args:
        reader: Reads the run, which may be running.
        n: How many; if there are fewer, all.
        path: A `.csv` or `.xlsx` file.
        seed: The seed of the draw; None: a new one.
        force: Replace a file that exists.

    Raises:
        LimpetError: There is no answer to draw, or the file exists or cannot be written.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a wrong value.
    """
    whole_number_from(1, n=n)
    if seed is not None:
        whole_number_from(0, seed=seed)
    file = _checked(path, force=force)
    if reader.kind == "map":
        raise LimpetError(
            f"{one_line(str(reader.path))}: is a map: it has no judge to compare with"
        )
    seed = secrets.randbelow(_SEEDS) if seed is None else seed
    is_written = False
    try:
        with PeopleFile.changing(reader.layout) as people:
            draw, items, before = _draw(reader, n, seed, people.draws)
            shortened = _write(file, items, draw.cells)
            is_written = True
            people.draws.append(draw)
    except BaseException:
        if is_written:  # nobody should label what is not recorded
            file.unlink(missing_ok=True)
        raise
    return DrawnSample(len(items), draw.of, before, seed, shortened)


def _checked(path: str | os.PathLike[str], *, force: bool) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path={path!r}: must be a string or a Path")
    file, shown = Path(path).expanduser(), one_line(str(path))
    if file.suffix.lower() not in (".csv", ".xlsx"):
        raise LimpetError(f"{shown}: must end in .csv or .xlsx", hint="for example humans.csv")
    if file.is_dir():
        raise LimpetError(f"{shown}: is a directory", hint="name a file")
    if not file.parent.is_dir():
        raise LimpetError(f"{one_line(str(file.parent))}: this directory does not exist")
    if os.path.lexists(file) and not force:
        raise LimpetError(
            f"{shown}: already exists, and may hold people's labels",
            hint="name another file, or replace it with --force (in Python: force=True)",
        )
    return file


def _draw(
    reader: "RunResults", n: int, seed: int, draws: Sequence[Draw]
) -> tuple[Draw, list[ItemRecord], int]:
    """Return the draw, its items, and how many items were left out because drawn before."""
    reader.refresh()
    item_of, trials = reader.requested.items_of_cells(), dict[int, list[int]]()
    answers = [number for number, at in enumerate(reader.requested.offsets()) if at >= 0]
    for number in answers:
        trials.setdefault(item_of[number], []).append(number)
    population = (reader.columns[reader.step].end, len(answers))
    before = {cell.id for draw in draws if draw.population == population for cell in draw.cells}
    chance = Random(seed)  # noqa: S311 - a draw that can be repeated
    chosen = chance.sample(list(trials), min(n + len(before), len(trials)))
    numbers = [chance.choice(trials[item]) for item in chosen]
    items = [
        item
        for item in reader.items_at(numbers)
        if item.entry is not None and item.id not in before
    ][:n]
    if not items:
        where = one_line(str(reader.path))
        if before:
            raise LimpetError(f"{where}: all {count(len(before), 'item')} were drawn before")
        raise LimpetError(
            f"{where}: there is no answer to draw yet", hint="see how far it is: limpet status"
        )
    cells = [Drawn(item.id, item.trial, output_of(item)) for item in items]
    draw = Draw(timestamp(), seed, population[1], population[0], cells)
    return draw, items, len(before)


def stamp(cell: Drawn) -> str:
    """Return the column `drawn` of an answer: a program may change ids like `007`."""
    return f"{digest(cell.id, cell.trial)[:16]}-{cell.output[:16]}"


def _write(path: Path, items: Sequence[ItemRecord], cells: Sequence[Drawn]) -> int:
    """Write the file for people, and return how many cells were shortened."""
    names = ["id", "trial", "input", "expected", "output", "note", LABEL, DRAWN]
    rows: list[list[Any]] = [
        [item.id, item.trial, item.input, item.expected, item.output, None, None, stamp(cell)]
        for item, cell in zip(items, cells, strict=True)
    ]
    if all(item.expected is None for item in items):
        at = names.index("expected")
        rows, names = [row[:at] + row[at + 1 :] for row in rows], names[:at] + names[at + 1 :]
    try:
        if path.suffix.lower() == ".xlsx":
            return write_xlsx(names, rows, path)
        replace_file(path, [csv_line(map(spreadsheet_cell, row)) for row in [names, *rows]])
    except OSError as error:
        raise LimpetError(f"{one_line(str(path))}: cannot write: {error.strerror}") from error
    return 0
