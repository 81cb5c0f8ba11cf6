"""What becomes of results that are in a run's directory already, before it starts?

Results of `nat eval` itself and finished runs are set aside, never deleted; answers in them are
imported if asked to.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from limpet.errors import ConfigError
from limpet.integrations.nat import run_directory
from limpet.integrations.nat.config import NatConfig
from limpet.integrations.nat.importing import import_rows, is_answer
from limpet.integrations.nat.rows import rows_of_file
from limpet.integrations.nat.workflow import ConfiguredWorkflow
from limpet.text import one_line
from limpet.workflows.protocol import Workflow


class EarlierResults:
    """The results in the directory of a configuration's run."""

    def __init__(self, config: NatConfig) -> None:
        self._config = config
        self._run = config.run
        self._flags = config.flags

    def begin(self, say: Callable[[str], None]) -> None:
        """Set aside results that are in the way, and import earlier answers if asked to.

        Args:
            say: Called with a line for each thing that is done.

        Raises:
            ConfigError: Results are in the way and cannot be set aside.
        """
        self._check_dataset()
        earlier = self._earlier_rows()
        if self._replaces_results():
            self._check_workflow()  # before anything is moved
        self.set_foreign_aside(say, imported=self._flags.continues)
        self._set_finished_aside(say)
        if earlier is not None:
            rows, name = earlier
            aside = None if self._flags.dataset else run_directory.latest_foreign_beside(self._run)
            source = None if aside is None else aside.name
            say(str(import_rows(rows, name, self._config.target(), source)))

    def set_foreign_aside(self, say: Callable[[str], None], *, imported: bool = False) -> None:
        """Set aside results of `nat eval` itself that are in the run's directory.

        Args:
            say: Called with a line for each thing that is done.
            imported: Whether their answers are imported.
        """
        if not run_directory.is_foreign(self._run):
            return
        aside = run_directory.set_aside(self._run, self._protected, run_directory.is_foreign)
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
        aside = run_directory.set_aside(self._run, self._protected, run_directory.is_finished)
        if aside is not None:
            say(
                f"cleanup: the finished run in {one_line(str(self._run))} is kept as "
                f"{one_line(str(aside))}, and a new one starts; cleanup: false continues it instead"
            )

    def _say_unfinished(self, say: Callable[[str], None]) -> None:
        unfinished = run_directory.run_file(self._run).unfinished
        if self._cleans and unfinished and self._config.source not in unfinished:
            shown = one_line(str(self._run))
            say(f"cleanup: the run in {shown} continues: {one_line(unfinished[0])} is not finished")

    @property
    def _protected(self) -> list[Path]:
        file = self._config.general.dataset.file_path
        return [Path.cwd(), self._config.path, *([] if file is None else [file])]

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
        return self._starts_again() or run_directory.is_foreign(self._run)

    def _starts_again(self) -> bool:
        return self._cleans and run_directory.is_finished(self._run)

    @property
    def _cleans(self) -> bool:
        cleanup = self._config.general.output.cleanup
        return cleanup and not self._config.has_jobs and not self._flags.continues

    def _check_workflow(self) -> None:
        workflow = self._config.prepared.workflow
        if self._flags.endpoint is not None:
            asyncio.run(_open_and_close(workflow))
        elif isinstance(workflow, ConfiguredWorkflow):
            workflow.check()

    def _earlier_rows(self) -> tuple[list[dict[str, Any]], str] | None:
        """Return the rows of an earlier run to import answers from, and their file's name."""
        flags = self._flags
        foreign = run_directory.is_foreign(self._run)
        if not (flags.skip_completed or (flags.skip_workflow and foreign and not flags.dataset)):
            return None
        file = run_directory.answers_file(self._run) or self._run / run_directory.OUTPUT
        if flags.skip_completed and flags.dataset is not None:
            file = flags.dataset
        elif not foreign:
            # Set aside and perhaps not imported: by a run that was killed in between, or that was
            # not asked to import.
            aside = run_directory.latest_foreign_beside(self._run)
            if aside is None or aside.name in run_directory.run_file(self._run).imported:
                return self._answered_rows()  # the run continues from its own column
            file = run_directory.answers_file(aside) or aside / run_directory.OUTPUT
        return list(rows_of_file(file)), file.name

    def _answered_rows(self) -> tuple[list[dict[str, Any]], str] | None:
        """Return the rows of the dataset itself, if some have an answer already."""
        dataset = self._config.prepared.dataset
        answer = self._config.general.dataset.structure.generated_answer_key
        rows = [dict(item.row) for item in dataset if is_answer(item.row.get(answer))]
        return (rows, dataset.name) if rows else None

    @contextmanager
    def to_plan(self) -> Iterator[Path]:
        """Yield the directory that a run would start from, without changing the real one."""
        self._check_dataset()
        earlier = self._earlier_rows()
        existing = self._run if self._run.exists() and not self._replaces_results() else None
        with TemporaryDirectory(prefix="limpet-") as folder:
            copy = Path(folder) / "run"
            if earlier is None:
                yield existing or copy
                return
            if existing is not None:
                run_directory.copy_for_plan(existing, copy)
            rows, name = earlier
            import_rows(rows, name, replace(self._config.target(), run=copy))
            yield copy


async def _open_and_close(workflow: Workflow) -> None:
    """Fail now if the server is down."""
    await workflow.open()
    await workflow.close()
