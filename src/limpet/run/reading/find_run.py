"""Which run or item does the user mean, and which similar ones exist?"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import SequenceMatcher, get_close_matches
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from limpet.errors import JournalError, LimpetError
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout, layout_at
from limpet.journal.lines import PREFIX, is_column
from limpet.text import one_line, text_of

RUNS = Path("runs")
MATRIX_FILE = "matrix.json"
_MOST_NAMED = 5
_MOST_IDS, _ALIKE = 20_000, 0.5


def layout_of_run(path: str | Path) -> Layout:
    """Return the layout of a run.

    Raises:
        JournalError: There is no run at `path`. The hint names runs near it.
    """
    location = Path(path).expanduser()
    try:
        if is_run(location):
            return layout_at(location)
        exists, is_directory = location.exists(), location.is_dir()
    except (OSError, ValueError) as error:
        raise JournalError(f"{one_line(str(path))}: not a path: {one_line(str(error))}") from error
    shown = one_line(str(path))
    if not exists:
        raise JournalError(f"{shown}: this run does not exist", hint=_near(location))
    what = "directory" if is_directory else "file"
    raise JournalError(f"{shown}: this {what} is not a run", hint=_inside_or_near(location))


def is_run(path: Path) -> bool:
    """Return whether a path is a run: a directory, or a `.jsonl` file."""
    if path.is_dir():
        # A journal in one file keeps its lock in `<name>.d`, which is not a run.
        beside = path.suffix == ".d" and path.with_suffix("").is_file()
        layout = Layout(path)
        column = layout.column("workflow")
        return not beside and (
            layout.run_json.is_file() or layout.lock.is_file() or _has_records(column)
        )
    if not path.is_file() or path.suffix.lower() not in (".jsonl", ".ndjson", ".json"):
        return False
    if path.with_name(f"{path.name}.d").is_dir():
        return True
    if is_run(path.parent):  # a file of a run
        return False
    with open_to_read(path) as file:
        return file.read(len(PREFIX)) == PREFIX


def _has_records(column: Path) -> bool:
    # An empty one may be the live file of a toolkit evaluation without answers yet.
    is_file = column.is_file() and not column.is_symlink()
    return is_file and column.stat().st_size > 0 and is_column(column)


def runs_in(directory: Path) -> list[Path]:
    """Return the runs in a directory and in its matrices, the latest first."""
    try:
        names = sorted(directory.iterdir())
    except OSError:
        return []
    runs = [run for path in names for run in (runs_in(path) if is_matrix(path) else [path])]
    return sorted(filter(_is_readable_run, runs), key=_worked_on_at, reverse=True)


def is_matrix(path: Path) -> bool:
    """Return whether a directory holds the runs of a matrix."""
    with suppress(OSError):
        return (path / MATRIX_FILE).is_file()
    return False


def _is_readable_run(path: Path) -> bool:
    try:
        return not path.name.startswith(".") and is_run(path)
    except OSError:
        return False


def _worked_on_at(path: Path) -> float:
    home = layout_at(path).home
    files = [home / name for name in ("events.jsonl", "run.json", "LOCK")]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def choose_run(run: str | None) -> Path:
    """Return the run that a user means: a path, a name under `runs`, or the latest there.

    Raises:
        LimpetError: There is no run.
    """
    if run is not None:
        path = Path(run).expanduser()
        named = RUNS / run
        return named if not path.exists() and os.sep not in run and named.is_dir() else path
    here = Path()
    if is_run(here):
        return here
    found = runs_in(RUNS)
    if not found:
        raise LimpetError(
            "there is no run here: this directory is not a run, and ./runs has none",
            hint="name a run, or make one: limpet run eval.yml",
        )
    return found[0]


def complete_run(text: str) -> list[str]:
    """Return the runs whose path begins with a string, for completion in the shell."""
    known = map(str, [*runs_in(RUNS), *_beginning_with(text)])
    return sorted({path for path in known if path.startswith(text)})


def _beginning_with(text: str) -> list[Path]:
    path = Path(text)
    parent = path if text.endswith(os.sep) else path.parent
    return runs_in(parent) if text else []


def _near(location: Path) -> str:
    around = [*runs_in(location.parent), *runs_in(RUNS)]
    by_name = {run.name: run for run in reversed(around)}
    for name in get_close_matches(location.name, by_name, n=1):
        return f"did you mean {_shown(by_name[name])}?"
    return _named(around) or "list the runs in a directory with: limpet list DIR"


def _inside_or_near(location: Path) -> str:
    if location.is_file() and is_run(location.parent):
        return f"it is a file in the run {_shown(location.parent)}: name the run"
    inside = runs_in(location) or runs_in(location / RUNS) if location.is_dir() else []
    around = inside or [*runs_in(location.parent), *runs_in(location.parent / RUNS), *runs_in(RUNS)]
    return _named(around) or "a run is a directory made by limpet run, with a run.json"


class NoSuchItemError(LimpetError):
    """A run has no item with this id. The hint names similar ids.

    Args:
        run: The run.
        id_: The id.
        ids: The ids of its items.
    """

    def __init__(self, run: Path, id_: str, ids: Iterable[str]) -> None:
        location, here = run.resolve(), Path.cwd()
        shown = location.relative_to(here) if location.is_relative_to(here) else run
        near = " or ".join(map(one_line, _near_ids(id_, islice(ids, _MOST_IDS))))
        super().__init__(
            f"{one_line(str(shown))}: there is no item {one_line(id_)}",
            hint=f"did you mean {near}?" if near else "see the ids with: limpet show RUN",
        )


def _near_ids(id_: str, ids: Iterable[str]) -> list[str]:
    """Return the three closest ids; among equally close ones, the first."""
    matcher = SequenceMatcher(b=id_)
    scored: list[tuple[float, int, str]] = []
    for number, known in enumerate(ids):
        matcher.set_seq1(known)
        if matcher.quick_ratio() >= _ALIKE and (ratio := matcher.ratio()) >= _ALIKE:
            scored.append((-ratio, number, known))
    return [known for *_, known in nsmallest(3, scored)]


def _named(runs: list[Path]) -> str:
    if not runs:
        return ""
    shown = list(dict.fromkeys(map(_shown, runs)))
    more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    verb = "there is" if len(shown) == 1 else "there are"
    return f"{verb} {', '.join(shown[:_MOST_NAMED])}{more}"


def _shown(path: Path) -> str:
    return one_line(os.path.normpath(path))


# ---- Which runs does a matrix have, and how do they vary? ---------------------------------------


class VariantRun(NamedTuple):
    """A variant of a matrix on disk.

    Attributes:
        path: The directory of its run, which may not have begun.
        values: The values it varies, by label; empty if the matrix no longer has it.
    """

    path: Path
    values: Mapping[str, str]

    @property
    def has_begun(self) -> bool:
        """Whether there is a run."""
        return is_run(self.path)


def variants_in(directory: Path) -> list[VariantRun]:
    """Return the variants of a matrix: those in its file, begun or not, and older ones.

    Raises:
        JournalError: Its file cannot be read.
    """
    try:
        content = json.loads((directory / MATRIX_FILE).read_bytes())
        labels = content.get("labels", {})
        variants = [
            VariantRun(
                directory / str(variant["name"]),
                {
                    str(labels.get(path, path)): str(value)
                    for path, value in variant["values"].items()
                },
            )
            for variant in content["variants"]
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise JournalError(f"{one_line(str(directory))}: unreadable: {text_of(error)}") from error
    known = {variant.path for variant in variants}
    return variants + [VariantRun(path, {}) for path in runs_in(directory) if path not in known]
