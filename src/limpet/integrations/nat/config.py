"""What was asked for, once a configuration of the toolkit has been read and checked?"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from limpet.config.config import Prepared
from limpet.config.credentials import Literals
from limpet.config.environment import substitute
from limpet.config.findings import Findings
from limpet.config.tree import Tree
from limpet.datasets import Dataset
from limpet.errors import ConfigError
from limpet.integrations.nat import run_directory as room
from limpet.integrations.nat.configured import ConfiguredWorkflow
from limpet.integrations.nat.existing_answers import RowAnswers
from limpet.integrations.nat.files import rename_columns, write_question_files
from limpet.integrations.nat.flags import Flags
from limpet.integrations.nat.importing import Target, import_rows
from limpet.integrations.nat.preparing import prepared_evaluators, prepared_function
from limpet.integrations.nat.rows import read_dataset_rows, rows_of_file
from limpet.integrations.nat.scripts import run_scripts
from limpet.integrations.nat.secrets import masked
from limpet.integrations.nat.wanted import Wanted
from limpet.integrations.nat.workflow import workflow_of
from limpet.run.api import EvaluationOptions
from limpet.text import one_line
from limpet.workflows.protocol import Workflow

_ENDPOINT_TIMEOUT_S = 300.0
_RETRIES, _TIMEOUTS = 3, 1


class NatConfig:
    """A configuration of the toolkit that was checked, of which nothing has been imported yet.

    Attributes:
        path: The file, absolute.
        name: What the evaluation is called.
        run: The run's directory, absolute.
        trials: How often each item is asked.
        public: The `eval` block as it is written, with what the command line says: fit to be kept.
        notes: What of it is left out, each with its line.
        original: The text of the file when it was read: it may be edited while the run goes on.
    """

    def __init__(
        self,
        path: Path,
        tree: Tree,
        wanted: Wanted,
        flags: Flags,
        notes: list[str],
        original: str,
    ) -> None:
        self.path = path
        self.name = wanted.alias or path.stem
        self.run = room.choose_directory(wanted.output, latest=flags.goes_on)
        self.trials = flags.reps or (flags.skip_workflow and room.trials(self.run)) or 1
        self.public: dict[str, Any] = {"eval": masked(tree.data).get("eval")}
        self.notes = notes
        self.original = original
        self.tree = tree
        self.wanted = wanted
        self.flags = flags
        self._prepared: Prepared | None = None

    def __repr__(self) -> str:
        return f"<NatConfig {self.name}: {self.path}>"

    # ---- before ---------------------------------------------------------------------------------

    def prepare(self) -> Prepared:
        """Import what the file names, check it, and read the dataset.

        Raises:
            ConfigError: Something cannot be imported, or is not what it should be.
            DatasetError: The dataset cannot be used as it is.
        """
        findings = Findings(self.tree)
        function = prepared_function(
            self.wanted.dataset.function, ("dataset", "function"), self.path, findings
        )
        evaluators = prepared_evaluators(self.wanted, self.path, findings)
        findings.raise_any()
        dataset = read_dataset_rows(self.wanted.dataset, function)
        workflow = workflow_of(self, dataset)
        options = self._options()
        if isinstance(workflow, RowAnswers):
            options["on_change"] = "redo"  # other rows: reading them anew costs nothing
        self._prepared = Prepared(dataset, workflow, evaluators, options)
        return self._prepared

    def _options(self) -> EvaluationOptions:
        wanted, flags = self.wanted, self.flags
        told: dict[str, Any] = {
            "concurrency": "auto",
            "max_concurrency": wanted.max_concurrency,
            "trace_filter": wanted.output.steps,
            "bare_outputs": wanted.dataset.structure.disable,
            # An agent that fails or hangs costs more than a call of a model does.
            "max_retries": _RETRIES if flags.max_retries is None else flags.max_retries,
            "max_timeouts": _TIMEOUTS if flags.max_retries is None else None,
            # In this process the toolkit sets no limit, and an agent may well take long.
            "timeout": flags.endpoint_timeout_s,
        }
        # What the models and tools use; a column of the dataset may be called `token`, too.
        used = {name: block for name, block in self.tree.data.items() if name != "eval"}
        told["secrets"] = Literals(substitute(used, lambda *_: None)).keys
        if flags.endpoint is not None:
            told["timeout"] = flags.endpoint_timeout_s or _ENDPOINT_TIMEOUT_S
        return cast("EvaluationOptions", told)

    def begin(self, say: Callable[[str], None]) -> None:
        """Make room for the run, and take over earlier answers if that was asked for.

        Args:
            say: Told of what is done.

        Raises:
            ConfigError: There can be no room.
        """
        self._check_dataset()
        earlier = self._earlier()
        if self._sets_aside():
            self._check_workflow()  # before anything is moved
        self._make_room(say)
        if earlier is not None:
            rows, name = earlier
            aside = None if self.flags.dataset else room.latest_foreign_beside(self.run)
            source = None if aside is None else aside.name
            say(str(import_rows(rows, name, self.target(), source)))

    def make_room_beside_theirs(self, say: Callable[[str], None], *, taken: bool = False) -> None:
        """Set aside results of `nat eval` itself that are in the run's directory.

        Args:
            say: Told of it.
            taken: Whether their answers are taken over.
        """
        if room.is_foreign(self.run):
            to = room.set_aside(self.run, self._needed, room.is_foreign)
            shown = one_line(str(self.run))
            if to is not None:
                say(f"{shown} holds results of nat eval: they are kept as {one_line(str(to))}")
            if to is not None and not taken:
                say("none of their answers is used: --skip-completed-entries takes them over")

    @property
    def _needed(self) -> list[Path]:
        file = self.wanted.dataset.file
        return [Path.cwd(), self.path, *([] if file is None else [file])]

    def _check_dataset(self) -> None:
        """Refuse a dataset that the run itself would write over: it is gone when it resumes."""
        file = self.flags.dataset
        if file is not None and file.resolve().is_relative_to(self.run.resolve()):
            raise ConfigError(
                f"--dataset {one_line(str(file))}: it lies in the run's own directory",
                hint="leave --dataset out: --skip-workflow and --skip-completed-entries take the "
                "answers from there; or copy the file elsewhere first",
            )

    def _make_room(self, say: Callable[[str], None]) -> None:
        self.make_room_beside_theirs(say, taken=self.flags.goes_on)
        if self._starts_anew():
            shown = one_line(str(self.run))
            to = room.set_aside(self.run, self._needed, room.is_finished)
            if to is not None:
                say(
                    f"cleanup: the finished run in {shown} is kept as {one_line(str(to))}, and a "
                    "new one begins; with cleanup: false it would go on"
                )

    def _sets_aside(self) -> bool:
        return self._starts_anew() or room.is_foreign(self.run)

    def _check_workflow(self) -> None:
        workflow = (self._prepared or self.prepare()).workflow
        if self.flags.endpoint is not None:
            asyncio.run(_open_and_close(workflow))
        elif isinstance(workflow, ConfiguredWorkflow):
            workflow.check()

    def _starts_anew(self) -> bool:
        output = self.wanted.output
        asked = output.cleanup and not output.has_jobs and not self.flags.goes_on
        return asked and room.is_finished(self.run)

    def _earlier(self) -> tuple[list[dict[str, Any]], str] | None:
        """Return the answers of an earlier run that are to be taken over, and their file's name."""
        flags = self.flags
        foreign = room.is_foreign(self.run)
        if not (flags.skip_completed or (flags.skip_workflow and foreign and not flags.dataset)):
            return None
        file = self.run / room.OUTPUT
        if flags.skip_completed and flags.dataset is not None:
            file = flags.dataset
        elif not foreign:
            # Set aside, and perhaps not taken over: by a run that was killed in between, or was
            # not told to.
            aside = room.latest_foreign_beside(self.run)
            if aside is None or aside.name in room.about(self.run).get("imported", []):
                return None  # the run's own column is what is gone on from
            file = aside / room.OUTPUT
        return list(rows_of_file(file)), file.name

    @contextmanager
    def to_plan(self) -> Iterator[Path]:
        """Yield what a run would begin with: room made, earlier answers taken, nothing changed."""
        self._check_dataset()
        earlier = self._earlier()
        there = self.run if self.run.exists() and not self._sets_aside() else None
        with TemporaryDirectory(prefix="limpet-") as folder:
            copy = Path(folder) / "run"
            if earlier is None:
                yield there or copy
                return
            if there is not None:
                room.copy_to_plan(there, copy)
            rows, name = earlier
            import_rows(rows, name, replace(self.target(), run=copy))
            yield copy

    def target(self) -> Target:
        """Return where imported answers go."""
        ready = self._prepared or self.prepare()
        dataset: Dataset = ready.dataset
        return Target(
            self.run,
            dataset.items,
            self.trials,
            ready.workflow,
            dataset.roles.input,
            self.wanted.dataset.structure,
            self.wanted.dataset.id or "id",
            self.wanted.output.steps,
        )

    # ---- after ----------------------------------------------------------------------------------

    def finish(self, say: Callable[[str], None], *, stopped: bool) -> bool:
        """Write what a reader of the toolkit's files expects, and run the user's scripts.

        Args:
            say: Told of what fails.
            stopped: The run was stopped before its end: then no script runs.

        Returns:
            Whether all of that went well.
        """
        try:
            rename_columns(self.run, self.wanted.dataset.structure, self.wanted.dataset.id)
            write_question_files(self.run, self.path, self.original, self.tree.data, self.flags)
        except OSError as error:
            say(f"{one_line(str(self.run))}: not all files could be written: {error.strerror}")
            return False
        return stopped or run_scripts(self.wanted.output.scripts, self.run, say)


async def _open_and_close(workflow: Workflow) -> None:
    """Find out whether the server is there: one that is not is said now."""
    await workflow.open()
    await workflow.close()
