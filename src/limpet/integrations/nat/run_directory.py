"""Which directory does a run get, and what becomes of what is there?

Nothing is ever deleted. A run that was not finished goes on. A finished one that `cleanup: true`
would delete, and results of `nat eval` itself, are renamed: `out` becomes `out.20261114-100000`.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterable
from glob import escape
from pathlib import Path
from typing import Any
from uuid import uuid4

from limpet.errors import ConfigError, JournalError, RunLockedError
from limpet.integrations.nat.wanted import WantedOutput
from limpet.journal.files import read_whole
from limpet.journal.layout import directory_at
from limpet.journal.lock import Lock
from limpet.text import one_line

OUTPUT = "workflow_output.json"


def choose_directory(output: WantedOutput, *, latest: bool) -> Path:
    """Return the directory of the run: with jobs, that of the latest one that is not finished.

    Args:
        output: What the configuration says.
        latest: Whether the latest job is meant, finished or not.
    """
    if not output.has_jobs:
        return output.dir
    jobs = output.dir / "jobs"
    there = [one for one in jobs.iterdir() if is_run(one)] if jobs.is_dir() else []
    there.sort(key=lambda one: one.stat().st_mtime)
    if there and (latest or (not is_finished(there[-1]) and not is_taken(there[-1]))):
        return there[-1]
    return jobs / f"job_{_now()}-{uuid4().hex[:6]}"


def is_run(path: Path) -> bool:
    """Tell whether a directory holds a run of ours."""
    if not path.is_dir():
        return False
    layout = directory_at(path)
    return layout.lock.exists() or bool(layout.columns())


def is_taken(path: Path) -> bool:
    """Tell whether somebody works on a run just now."""
    try:
        Lock(directory_at(path).lock).release()
    except RunLockedError:
        return True
    return False


def trials(path: Path) -> int | None:
    """Return how often each item was asked in a run; None if nobody knows."""
    number = (about(path).get("sessions") or [{}])[-1].get("trials")
    return number if isinstance(number, int) else None


def is_foreign(path: Path) -> bool:
    """Tell whether a directory holds results of `nat eval`, and no run of ours."""
    if not (path / OUTPUT).exists():
        return False
    layout = directory_at(path)
    # A lock alone says nothing: whoever is about to set the results aside has it too.
    return not layout.about.exists() and not layout.columns()


def has_answers(path: Path) -> bool:
    """Tell whether a run has answers."""
    column = directory_at(path).column("workflow")
    return column.exists() and column.stat().st_size > 0


def latest_foreign_beside(path: Path) -> Path | None:
    """Return the latest results of `nat eval` that were set aside for this run; None: none were."""
    path = path.resolve()
    there = [one for one in path.parent.glob(f"{escape(path.name)}.2*") if is_foreign(one)]
    return max(there, key=lambda one: one.name, default=None)


def about(path: Path) -> dict[str, Any]:
    """Return what a run knows of itself; empty if nothing can be read."""
    try:
        known = json.loads(read_whole(path / "run.json"))
    except (OSError, ValueError, JournalError):
        return {}
    return known if isinstance(known, dict) else {}


def is_finished(path: Path) -> bool:
    """Tell whether a run ended with nothing left to do, and nobody has worked on it since."""
    known = about(path)
    columns = known.get("complete", {}).get("columns")
    last = (known.get("sessions") or [{}])[-1]
    if not columns or "ended" not in last:
        return False
    try:
        sizes = {step: (path / f"{step}_output.jsonl").stat().st_size for step in columns}
        summary = json.loads(read_whole(path / "summary.json"))
    except (OSError, ValueError, JournalError):
        return False
    try:
        steps = [summary["workflow"], *summary["evaluators"].values()]
        left = any(step["failed"] or step["not_run"] for step in steps)
        return not left and all(sizes[step] == columns[step][1] for step in columns)
    except (KeyError, TypeError, AttributeError):
        return False  # a file that somebody else wrote


def set_aside(path: Path, needed: Iterable[Path], is_so: Callable[[Path], bool]) -> Path | None:
    """Rename a directory, so that it is kept beside the one that takes its place.

    Nobody writes there meanwhile: it is done under the run's lock.

    Args:
        path: The directory.
        needed: What must not move with it.
        is_so: Whether it is still to be moved, once nobody else can change it.

    Returns:
        What it is called now; None: it is not to be moved any more.

    Raises:
        ConfigError: It cannot be moved.
        RunLockedError: Somebody writes there.
    """
    real = path.resolve()  # where it is a link, the link stays where it is
    within = next((one for one in needed if one.resolve().is_relative_to(real)), None)
    if within is not None:
        raise ConfigError(
            f"{one_line(str(path))}: holds results, and {one_line(str(within))} too: it cannot be "
            "set aside for a new run",
            hint="give the output a directory of its own: eval.general.output.dir",
        )
    to = real.with_name(f"{real.name}.{_now()}")
    while to.exists():
        to = to.with_name(f"{to.name}-{uuid4().hex[:4]}")
    place = directory_at(path).lock
    is_new = not place.exists()
    try:
        lock = Lock(place)
        try:
            if not is_so(path):
                return None
            real.rename(to)
            if is_new:  # it was none of ours, and is left as it was
                (to / place.name).unlink()
        finally:
            lock.release()
    except OSError as error:
        raise ConfigError(
            f"{one_line(str(path))}: holds results, and cannot be set aside: {error.strerror}",
            hint="a mounted directory cannot be renamed: give the output one below it, "
            "eval.general.output.dir",
        ) from error
    return to


def copy_to_plan(path: Path, to: Path) -> None:
    """Copy what a plan looks at, and answers may be added to; the scores are only linked."""
    layout = directory_at(path)
    to.mkdir()
    for file in (layout.column("workflow"), layout.failures, layout.about):
        if file.exists():
            shutil.copyfile(file, to / file.name)
    if (path / "index").is_dir():
        shutil.copytree(path / "index", to / "index")
    for file in layout.columns():
        if not (to / file.name).exists():
            (to / file.name).symlink_to(file)


def _now() -> str:
    return time.strftime("%Y%m%d-%H%M%S")
