"""Which answers should people label? A random sample, so that their labels speak for all of them.

Every item with an answer is equally likely to be drawn, with one of its trials, and the run
remembers the draw. A second draw from the same answers leaves out the items that were drawn before:
both together are one larger random sample. If there are more answers by then, they are all drawn
from again, because what was drawn before would be more likely than the new ones.
"""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.arguments import whole_number_from
from limpet.errors import LimpetError
from limpet.fingerprints.keys import digest
from limpet.journal.files import replace_file
from limpet.journal.lines import timestamp
from limpet.run.calibrating.judged import output_of
from limpet.run.calibrating.people_file import Draw, Drawn, PeopleFile
from limpet.run.results.spreadsheet import write_xlsx
from limpet.run.results.table_cells import csv_line, spreadsheet_cell
from limpet.text import count, one_line

if TYPE_CHECKING:
    from limpet.run.reading.reader import RunReader
    from limpet.run.results.evaluation_result import ItemResult

LABEL, DRAWN = "label", "drawn"
"""The columns for people to fill in, and the one that says which answer a row is about."""
_SEEDS = 2**32


class Sample(NamedTuple):
    """What was drawn and written.

    Attributes:
        drawn: How many answers, each of another item.
        of: How many there were, counting each trial.
        before: How many items were drawn earlier, and not again.
        seed: The seed: it draws the same from the same answers.
        cut: How many cells were too long for an Excel file.
    """

    drawn: int
    of: int
    before: int
    seed: int
    cut: int


def draw_sample(
    reader: "RunReader",
    n: int,
    path: str | os.PathLike[str],
    *,
    seed: int | None = None,
    force: bool = False,
) -> Sample:
    """Draw answers at random, record that in the run, and write them to a file for people.

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
            cut = _write(file, items, draw.cells)
            is_written = True
            people.draws.append(draw)
    except BaseException:
        if is_written:  # nobody should label what is not recorded
            file.unlink(missing_ok=True)
        raise
    return Sample(len(items), draw.of, before, seed, cut)


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
    reader: "RunReader", n: int, seed: int, draws: Sequence[Draw]
) -> "tuple[Draw, list[ItemResult], int]":
    """Return the draw, its items, and how many items were left out as drawn before."""
    reader.refresh()
    positions, trials = reader.asked.positions(), dict[int, list[int]]()
    answers = [number for number, at in enumerate(reader.asked.offsets()) if at >= 0]
    for number in answers:
        trials.setdefault(positions[number], []).append(number)
    population = (reader.columns[reader.step].end, len(answers))
    before = {cell.id for draw in draws if draw.population == population for cell in draw.cells}
    chance = Random(seed)  # noqa: S311 - a draw that can be repeated
    chosen = chance.sample(list(trials), min(n + len(before), len(trials)))
    numbers = [chance.choice(trials[position]) for position in chosen]
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
    """Return what the column `drawn` says of an answer: a program may change ids like `007`."""
    return f"{digest(cell.id, cell.trial)[:16]}-{cell.output[:16]}"


def _write(path: Path, items: "Sequence[ItemResult]", cells: Sequence[Drawn]) -> int:
    """Write the file for people, and return how many cells were cut."""
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
