"""Which run is meant, and what is near if there is none?"""

import os
from difflib import get_close_matches
from pathlib import Path

from limpet.errors import JournalError, LimpetError
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout, layout_at
from limpet.journal.lines import PREFIX
from limpet.text import one_line

RUNS = Path("runs")
_MOST_NAMED = 5


def layout_of_run(path: str | Path) -> Layout:
    """Return where the files of a run lie.

    Raises:
        JournalError: There is no run at `path`. The hint names those that are near.
    """
    place = Path(path).expanduser()
    try:
        if is_run(place):
            return layout_at(place)
        is_there, is_directory = place.exists(), place.is_dir()
    except (OSError, ValueError) as error:
        raise JournalError(f"{one_line(str(path))}: not a path: {one_line(str(error))}") from error
    shown = one_line(str(path))
    if not is_there:
        raise JournalError(f"{shown}: there is no such run", hint=_near(place))
    what = "directory" if is_directory else "file"
    raise JournalError(f"{shown}: this {what} is not a run", hint=_inside_or_near(place))


def is_run(path: Path) -> bool:
    """Tell whether there is a run at a path: a directory, or a `.jsonl` file."""
    if path.is_dir():
        ours = ("run.json", "LOCK", "workflow_output.jsonl")
        # A journal in one file keeps its lock in `<name>.d`, which is not a run by itself.
        beside = path.suffix == ".d" and path.with_suffix("").is_file()
        return not beside and any((path / name).is_file() for name in ours)
    if not path.is_file() or path.suffix.lower() not in (".jsonl", ".ndjson", ".json"):
        return False
    if path.with_name(f"{path.name}.d").is_dir():
        return True
    if is_run(path.parent):  # it is one of the files of a run
        return False
    with open_to_read(path) as file:
        return file.read(len(PREFIX)) == PREFIX


def runs_in(directory: Path) -> list[Path]:
    """Return the runs that lie in a directory, the one that was last worked on first."""
    try:
        names = sorted(directory.iterdir())
    except OSError:
        return []
    return sorted(filter(_is_readable_run, names), key=_worked_on_at, reverse=True)


def _is_readable_run(path: Path) -> bool:
    try:
        return not path.name.startswith(".") and is_run(path)
    except OSError:
        return False


def _worked_on_at(path: Path) -> float:
    home = layout_at(path).home
    files = [home / name for name in ("events.jsonl", "run.json", "LOCK")]
    return max((one.stat().st_mtime for one in files if one.exists()), default=0.0)


def choose_run(run: str | None) -> Path:
    """Return the run a user means: the path, the name of one under `runs`, or the latest there.

    Raises:
        LimpetError: There is none.
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
            "there is no run here: neither is this directory one, nor is there any in ./runs",
            hint="name one, or make one: limpet run eval.yml",
        )
    return found[0]


def complete_run(text: str) -> list[str]:
    """Return the runs whose path begins with a text, for the shell."""
    known = [*map(str, runs_in(RUNS)), *(str(one) for one in _beginning_with(text))]
    return sorted({one for one in known if one.startswith(text)})


def _beginning_with(text: str) -> list[Path]:
    path = Path(text)
    parent = path if text.endswith(os.sep) else path.parent
    return runs_in(parent) if text else []


def _near(place: Path) -> str:
    around = [*runs_in(place.parent), *runs_in(RUNS)]
    near = get_close_matches(place.name, {one.name: one for one in around}, n=1)
    if near:
        return f"did you mean {_shown(next(one for one in around if one.name == near[0]))}?"
    return _named(around) or "list the runs in a directory with: limpet list DIR"


def _inside_or_near(place: Path) -> str:
    if place.is_file() and is_run(place.parent):
        return f"it is a file of the run {_shown(place.parent)}: name that"
    inside = runs_in(place) or runs_in(place / RUNS) if place.is_dir() else []
    around = inside or [*runs_in(place.parent), *runs_in(place.parent / RUNS), *runs_in(RUNS)]
    return _named(around) or "a run is a directory that limpet run has made, with a run.json"


def _named(runs: list[Path]) -> str:
    if not runs:
        return ""
    shown = list(dict.fromkeys(map(_shown, runs)))
    more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    verb = "there is" if len(shown) == 1 else "there are"
    return f"{verb} {', '.join(shown[:_MOST_NAMED])}{more}"


def _shown(path: Path) -> str:
    return one_line(os.path.normpath(path))
