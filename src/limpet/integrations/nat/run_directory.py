"""Which directory does a run get, and what happens to the results in it?

Nothing is ever deleted. An unfinished run continues. A finished run that `cleanup: true` would
delete, and results of `nat eval` itself, are renamed: `out` becomes `out.20261114-100000`. Their
answers are imported on request.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from limpet.datasets import LoadedDataset
from limpet.errors import ConfigError, JournalError, RunLockedError
from limpet.integrations.importing import import_rows, is_answer, rows_of_file
from limpet.integrations.nat.eval_block import GeneralBlock
from limpet.integrations.nat.flags import Flags
from limpet.journal.files import read_whole
from limpet.journal.layout import directory_at
from limpet.journal.lines import is_column
from limpet.journal.lock import Lock
from limpet.run.api import Arguments
from limpet.run.run_file import RunFile
from limpet.text import one_line
from limpet.workflows.protocol import Workflow

OUTPUT = "workflow_output.json"


def choose_job(directory: Path, *, latest: bool) -> Path:
    """Return the directory of a job: the latest one if it is unfinished, else a new one.

    Args:
        directory: The output directory.
        latest: Return the latest job even if it is finished.
    """
    folder = directory / "jobs"
    jobs = [job for job in folder.iterdir() if _is_run(job)] if folder.is_dir() else []
    jobs.sort(key=lambda job: job.stat().st_mtime)
    if jobs and (latest or (not is_finished(jobs[-1]) and not _is_locked(jobs[-1]))):
        return jobs[-1]
    return folder / f"job_{_now()}-{uuid4().hex[:6]}"


def _is_run(path: Path) -> bool:
    if not path.is_dir():
        return False
    layout = directory_at(path)
    return layout.lock.exists() or bool(layout.columns())


def _is_locked(path: Path) -> bool:
    try:
        Lock(directory_at(path).lock).release()
    except RunLockedError:
        return True
    return False


def is_foreign(path: Path) -> bool:
    """Return whether a directory holds results of `nat eval`, and no run of ours."""
    if answers_file(path) is None:
        return False
    layout = directory_at(path)
    # A lock proves nothing: a process that sets the results aside holds it, too.
    return not layout.run_json.exists() and not any(map(_size, layout.columns()))


def answers_file(path: Path) -> Path | None:
    """Return the file with the answers of `nat eval`; None if there is none.

    After a crash, that is the live file.
    """
    final, live = path / OUTPUT, directory_at(path).live("workflow")
    if final.exists():
        return final
    return live if _size(live) and not is_column(live) else None


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def has_answers(path: Path) -> bool:
    """Return whether a run has answers."""
    column = directory_at(path).column("workflow")
    return column.exists() and column.stat().st_size > 0


def latest_foreign_beside(path: Path) -> Path | None:
    """Return the latest results of `nat eval` set aside for this run, if any."""
    path = path.resolve()
    foreign = [
        beside for beside in path.parent.glob(f"{escape(path.name)}.2*") if is_foreign(beside)
    ]
    return max(foreign, key=lambda beside: beside.name, default=None)


def run_file(path: Path) -> RunFile:
    """Return the content of a run's `run.json`; the defaults if it cannot be read."""
    try:
        return RunFile.load(directory_at(path))
    except JournalError:
        return RunFile()


def is_finished(path: Path) -> bool:
    """Return whether a run ended with nothing left to do and has not changed since."""
    known = run_file(path)
    if known.complete is None or known.session is None or not known.session.ended:
        return False
    if known.unfinished:  # a session over another dataset does not finish the first
        return False
    columns = known.complete.columns
    try:
        sizes = {step: directory_at(path).column(step).stat().st_size for step in columns}
        summary = json.loads(read_whole(path / "summary.json"))
    except (OSError, ValueError, JournalError):
        return False
    try:
        steps = [summary["workflow"], *summary["evaluators"].values()]
        remains = any(step["failed"] or step["not_run"] for step in steps)
        return not remains and all(sizes[step] == columns[step][1] for step in columns)
    except (KeyError, TypeError, AttributeError):
        return False  # a file that something else wrote


def set_aside(
    path: Path, protected: Iterable[Path], still_applies: Callable[[Path], bool]
) -> Path | None:
    """Rename a directory, to keep its results and make room for a new run.

    The run's lock is held meanwhile, so nothing writes there.

    Args:
        path: The directory.
        protected: Files and directories that must not move with it.
        still_applies: Called under the lock: whether the directory is still to be moved.

    Returns:
        Its new path; None if it is no longer to be moved.

    Raises:
        ConfigError: It cannot be moved.
        RunLockedError: Another process writes there.
    """
    real = path.resolve()  # a link to it stays
    inside = next((file for file in protected if file.resolve().is_relative_to(real)), None)
    if inside is not None:
        raise ConfigError(
            f"{one_line(str(path))}: holds results and {one_line(str(inside))}, so it cannot be "
            "set aside for a new run",
            hint="give the output its own directory: eval.general.output.dir",
        )
    try:
        return _renamed(real, directory_at(path).lock, lambda: still_applies(path))
    except OSError as error:
        raise ConfigError(
            f"{one_line(str(path))}: holds results and cannot be set aside: {error.strerror}",
            hint="a mounted directory cannot be renamed: use a directory inside it, "
            "eval.general.output.dir",
        ) from error


def _renamed(directory: Path, locked: Path, still_applies: Callable[[], bool]) -> Path | None:
    """Rename a directory while holding the lock of `locked` in it; return its new path."""
    target = directory.with_name(f"{directory.name}.{_now()}")
    while target.exists():
        target = target.with_name(f"{target.name}-{uuid4().hex[:4]}")
    is_new = not locked.exists()
    lock = Lock(locked)
    try:
        if not still_applies():
            return None
        directory.rename(target)
        if is_new:  # leave results of `nat eval` as they were
            (target / locked.name).unlink()
        move_runs(target, directory)  # of other configurations
    finally:
        lock.release()
    return target


def move_runs(source: Path, target: Path) -> None:
    """Move the runs and journals inside a directory to the same paths inside another one."""
    moved: list[Path] = []
    for lock in sorted(source.rglob("*/LOCK")):
        run = lock.parent.relative_to(source)
        if not any(run.is_relative_to(other) for other in moved):
            moved.append(run)
            (target / run).parent.mkdir(parents=True, exist_ok=True)
            (source / run).rename(target / run)


def copy_for_plan(path: Path, target: Path) -> None:
    """Copy the files of a run that a plan reads or extends, and link the scores."""
    layout = directory_at(path)
    target.mkdir()
    for file in (layout.column("workflow"), layout.failures, layout.run_json):
        if file.exists():
            shutil.copyfile(file, target / file.name)
    if (path / "index").is_dir():
        shutil.copytree(path / "index", target / "index")
    for file in layout.columns():
        if not (target / file.name).exists():
            (target / file.name).symlink_to(file)


def _now() -> str:
    return time.strftime("%Y%m%d-%H%M%S")


# ---- What happens to earlier results before a run starts? ----------------------------------------


class EarlierResults:
    """The results in the directory of a run.

    Args:
        run: The directory.
        general: The configuration's `general` block.
        flags: The flags of the command line.
        protected: Files and directories that must not move with it.
    """

    def __init__(
        self, run: Path, general: GeneralBlock, flags: Flags, protected: Iterable[Path]
    ) -> None:
        self._run = run
        self._general = general
        self._flags = flags
        self._protected = list(protected)

    def begin(self, prepared: Arguments, say: Callable[[str], None]) -> None:
        """Set aside results that are in the way, and import earlier answers on request.

        Args:
            prepared: The evaluation that begins.
            say: Called with a line for each action.

        Raises:
            ConfigError: Results are in the way and cannot be set aside.
        """
        self._check_dataset()
        earlier = self._earlier_rows(prepared.dataset)
        if self._replaces_results() and self._flags.endpoint is not None:
            asyncio.run(_open_and_close(prepared.workflow))  # before anything is moved
        self.set_foreign_aside(say, imported=self._flags.continues)
        self._set_finished_aside(say)
        if earlier is not None:
            rows, name = earlier
            aside = None if self._flags.dataset else latest_foreign_beside(self._run)
            source = None if aside is None else aside.name
            say(str(import_rows(rows, name, prepared, source)))

    def set_foreign_aside(self, say: Callable[[str], None], *, imported: bool = False) -> None:
        """Set aside results of `nat eval` itself that are in the run's directory.

        Args:
            say: Called with a line for each action.
            imported: Whether their answers are imported.
        """
        if not is_foreign(self._run):
            return
        aside = set_aside(self._run, self._protected, is_foreign)
        if aside is None:
            return
        shown = one_line(str(self._run))
        say(f"{shown} holds results of nat eval: they are kept as {one_line(str(aside))}")
        if not imported:
            say("their answers are not used: --skip-completed-entries imports them")

    def _set_finished_aside(self, say: Callable[[str], None]) -> None:
        if not self._starts_again():
            self._say_unfinished(say)
            return
        aside = set_aside(self._run, self._protected, is_finished)
        if aside is not None:
            say(
                f"cleanup: the finished run in {one_line(str(self._run))} is kept as "
                f"{one_line(str(aside))}, and a new one starts; cleanup: false continues it instead"
            )

    def _say_unfinished(self, say: Callable[[str], None]) -> None:
        unfinished = run_file(self._run).unfinished
        if self._cleans and unfinished and self._general.dataset.source not in unfinished:
            shown = one_line(str(self._run))
            say(f"cleanup: the run in {shown} continues: {one_line(unfinished[0])} is not finished")

    def _check_dataset(self) -> None:
        """Reject a dataset that the run would overwrite: it could not be resumed."""
        file = self._flags.dataset
        if file is not None and file.resolve().is_relative_to(self._run.resolve()):
            raise ConfigError(
                f"--dataset {one_line(str(file))}: is in the run's own directory",
                hint="leave --dataset out: --skip-workflow and --skip-completed-entries read the "
                "answers from there; or copy the file elsewhere first",
            )

    def _replaces_results(self) -> bool:
        return self._starts_again() or is_foreign(self._run)

    def _starts_again(self) -> bool:
        return self._cleans and is_finished(self._run)

    @property
    def _cleans(self) -> bool:
        cleanup = self._general.output.cleanup
        return cleanup and not self._general.has_jobs and not self._flags.continues

    def _earlier_rows(self, dataset: LoadedDataset) -> tuple[list[dict[str, Any]], str] | None:
        """Return the rows of an earlier run to import answers from, and their file's name."""
        flags = self._flags
        foreign = is_foreign(self._run)
        if not (flags.skip_completed or (flags.skip_workflow and foreign and not flags.dataset)):
            return None
        file = answers_file(self._run) or self._run / OUTPUT
        if flags.skip_completed and flags.dataset is not None:
            file = flags.dataset
        elif not foreign:
            # Set aside and perhaps not imported: by a run that was killed in between, or that was
            # not told to import.
            aside = latest_foreign_beside(self._run)
            if aside is None or aside.name in run_file(self._run).imported:
                return self._answered_rows(dataset)  # the run continues from its own column
            file = answers_file(aside) or aside / OUTPUT
        return list(rows_of_file(file)), file.name

    def _answered_rows(self, dataset: LoadedDataset) -> tuple[list[dict[str, Any]], str] | None:
        """Return the rows of the dataset itself, if some have an answer already."""
        answer = self._general.dataset.structure.generated_answer_key
        rows = [dict(item.row) for item in dataset if is_answer(item.row.get(answer))]
        return (rows, dataset.name) if rows else None

    @contextmanager
    def to_plan(self, prepared: Arguments) -> Iterator[Arguments]:
        """Yield the arguments of a run, without changing its directory."""
        self._check_dataset()
        earlier = self._earlier_rows(prepared.dataset)
        existing = self._run if self._run.exists() and not self._replaces_results() else None
        with TemporaryDirectory(prefix="limpet-") as folder:
            copy = Path(folder) / "run"
            in_copy = replace(prepared, run=copy)
            if earlier is None:
                yield in_copy if existing is None else replace(prepared, run=existing)
                return
            if existing is not None:
                copy_for_plan(existing, copy)
            rows, name = earlier
            import_rows(rows, name, in_copy)
            yield in_copy


async def _open_and_close(workflow: Workflow) -> None:
    """Fail now if the server is down."""
    await workflow.open()
    await workflow.close()
