"""What does a checked configuration of the toolkit do before and after its run?"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from limpet.config.environment import substitute
from limpet.config.errors import Findings
from limpet.config.imports import put_first
from limpet.config.preparing import imported_object, prepared_evaluators
from limpet.config.yaml_file import Tree
from limpet.datasets import LoadedDataset
from limpet.errors import ConfigError
from limpet.evaluators import as_evaluator
from limpet.integrations.nat import run_directory
from limpet.integrations.nat.eval_block import Evaluation
from limpet.integrations.nat.evaluators import ToolkitBlock
from limpet.integrations.nat.existing_answers import RowAnswers, is_answer
from limpet.integrations.nat.finishing import parse_outputs, run_scripts, write_config_files
from limpet.integrations.nat.flags import Flags
from limpet.integrations.nat.importing import Target, import_rows
from limpet.integrations.nat.pre_processing import PreProcessed
from limpet.integrations.nat.rows import read_dataset_rows, rows_of_file
from limpet.integrations.nat.toolkit import Toolkit
from limpet.integrations.nat.toolkit_checks import check_names
from limpet.integrations.nat.toolkit_evaluators import toolkit_evaluators
from limpet.integrations.nat.toolkit_files import (
    download,
    upload,
    with_defaults,
    write_toolkit_files,
)
from limpet.integrations.nat.workflow import ConfiguredWorkflow, workflow_of
from limpet.run.api import Arguments
from limpet.run.options import Pace, Retry, RunOptions
from limpet.run.record_fields import RecordNames
from limpet.run.results.evaluation_result import EvaluationResult
from limpet.secrets.in_configs import Literals, masked
from limpet.secrets.known import maskable
from limpet.text import one_line
from limpet.workflows.protocol import Workflow

_ENDPOINT_TIMEOUT_S = 300.0
_RETRIES, _TIMEOUTS = 3, 1
_GENERAL = ("eval", "general")


class NatConfig:
    """A checked configuration of the toolkit; nothing that it names is imported yet.

    Attributes:
        path: The file, absolute.
        name: The name of the evaluation.
        run: The run's directory, absolute.
        trials: How many times each item runs.
        public: The `eval` block as written, with the command line applied: safe to keep on disk.
        notes: What is ignored, each with its line.
        original: The text of the file when it was read: it may be edited during the run.
    """

    def __init__(
        self, path: Path, tree: Tree, evaluation: Evaluation, flags: Flags, original: str
    ) -> None:
        self.general = evaluation.general
        self.path = path
        self.name = self.general.workflow_alias or path.stem
        self.run = self.general.output.dir or self.general.output_dir
        if self._has_jobs:
            self.run = run_directory.choose_job(self.run, latest=flags.continues)
        last = run_directory.run_file(self.run).session if flags.skip_workflow else None
        self.trials = flags.reps or (last and last.trials) or 1
        self.public: dict[str, Any] = {"eval": masked(tree.data).get("eval")}
        self.notes = evaluation.notes
        self.original = original
        self.tree = tree
        self.flags = flags
        self.toolkit = self._new_toolkit(evaluation)
        self._evaluation = evaluation
        self._prepared: Arguments | None = None

    def __repr__(self) -> str:
        return f"<NatConfig {self.name}: {self.path}>"

    @property
    def _has_jobs(self) -> bool:
        return self.general.output.job_management.append_job_id_to_output_dir

    def _new_toolkit(self, evaluation: Evaluation) -> Toolkit:
        flags, evaluators = self.flags, evaluation.evaluators
        paths = [path for path, _ in flags.overrides]
        paths += [text.partition("=")[0].strip() for text in flags.settings]
        return Toolkit(
            self.path,
            tuple((path, _value_at(self.tree.data, path)) for path in paths),
            general={
                "max_concurrency": self.general.max_concurrency,
                "output_dir": str(self.run),
            },
            evaluators={
                name: evaluator.block
                for name, evaluator in evaluators.items()
                if isinstance(evaluator, ToolkitBlock)
            },
            runs_workflow=flags.endpoint is None and not flags.skip_workflow,
        )

    # ---- before ---------------------------------------------------------------------------------

    def prepare(self) -> Arguments:
        """Import what the file names, check it, and read the dataset.

        Raises:
            ConfigError: Something cannot be imported, or is of the wrong kind.
            DatasetError: The dataset cannot be read.
        """
        findings = Findings(self.tree)
        put_first(Path.cwd())
        function = self._imported(("dataset", "function"), self.general.dataset.function, findings)
        evaluators = self._evaluators(findings)
        if self.toolkit.is_needed:
            findings.raise_any()
            check_names(
                self.toolkit.read(), runs_workflow=self.toolkit.runs_workflow, findings=findings
            )
        findings.raise_any()
        if self.general.dataset.remote_file_path and self.flags.dataset is None:
            download(self.general.dataset)
        dataset = read_dataset_rows(
            self.general.dataset, self._evaluation.filter, function, self.notes.append
        )
        workflow = workflow_of(self, dataset)
        if isinstance(workflow, ConfiguredWorkflow):
            workflow.check()
        options = self._options()
        if isinstance(workflow, RowAnswers):
            options["on_change"] = "redo"  # reading other rows costs nothing
        # Of models and tools only: a column of the dataset may be called `token`.
        blocks = {name: block for name, block in self.tree.data.items() if name != "eval"}
        keys = Literals(substitute(blocks, lambda *_: None)).keys
        options["secrets"] = maskable(keys)
        self._prepared = Arguments(
            dataset,
            workflow,
            evaluators,
            self.run,
            self.trials,
            options,
            known_secrets=keys,
            written_events=self.general.output.steps,
            bare_outputs=self.general.dataset.structure.disable,
            names=self._names,
            configuration=self.public,
        )
        return self._prepared

    @property
    def _names(self) -> RecordNames:
        dataset = self.general.dataset
        return RecordNames(
            dataset.id_key,
            dataset.structure.generated_answer_key,
            dataset.structure.trajectory_key,
            dataset.structure.expected_trajectory_key,
        )

    def _imported(self, key: tuple[str, ...], reference: str | None, findings: Findings) -> Any:
        if reference is None:
            return None
        return imported_object(reference, (*_GENERAL, *key), self.path.parent, findings)

    def _evaluators(self, findings: Findings) -> Mapping[str, Any]:
        at = ("eval", "evaluators")
        evaluators = dict(
            prepared_evaluators(
                self._evaluation.evaluators, self.path.parent, findings, at, "function"
            )
        )
        evaluators = {
            name: evaluator
            for name, evaluator in evaluators.items()
            if not isinstance(evaluator, ToolkitBlock)
        }
        evaluators |= toolkit_evaluators(
            self.toolkit,
            self.tree.data,
            self.path.parent,
            self.general.dataset,
            findings,
            self.notes.append,
        )
        key = "custom_pre_eval_process_function"
        function = self._imported(("output", key), getattr(self.general.output, key), findings)
        if function is None:
            return evaluators
        steps = self.general.dataset.structure.expected_trajectory_key
        return {
            name: PreProcessed(as_evaluator(evaluator, name), function, steps)
            for name, evaluator in evaluators.items()
            if evaluator is not None  # reported already
        }

    def _options(self) -> RunOptions:
        flags = self.flags
        # An agent that fails or hangs costs more than a call of a model.
        retry = Retry(_RETRIES, max_timeouts=_TIMEOUTS)
        options: RunOptions = {
            "pace": Pace(max_concurrency=self.general.max_concurrency),
            "retry": retry if flags.max_retries is None else flags.max_retries,
        }
        timeout_s = flags.endpoint_timeout_s
        if flags.endpoint is not None:
            timeout_s = timeout_s or _ENDPOINT_TIMEOUT_S
        if timeout_s is not None:
            options["timeout"] = timeout_s
        return options

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
        self.set_foreign_aside(say, imported=self.flags.continues)
        self._set_finished_aside(say)
        if earlier is not None:
            rows, name = earlier
            aside = None if self.flags.dataset else run_directory.latest_foreign_beside(self.run)
            source = None if aside is None else aside.name
            say(str(import_rows(rows, name, self.target(), source)))

    def set_foreign_aside(self, say: Callable[[str], None], *, imported: bool = False) -> None:
        """Set aside results of `nat eval` itself that are in the run's directory.

        Args:
            say: Called with a line for each thing that is done.
            imported: Whether their answers are imported.
        """
        if not run_directory.is_foreign(self.run):
            return
        aside = run_directory.set_aside(self.run, self._protected, run_directory.is_foreign)
        if aside is None:
            return
        shown = one_line(str(self.run))
        say(f"{shown} holds results of nat eval: they are kept as {one_line(str(aside))}")
        if not imported:
            say("their answers are not used: --skip-completed-entries imports them")

    def _set_finished_aside(self, say: Callable[[str], None]) -> None:
        if not self._starts_again():
            return
        aside = run_directory.set_aside(self.run, self._protected, run_directory.is_finished)
        if aside is not None:
            say(
                f"cleanup: the finished run in {one_line(str(self.run))} is kept as "
                f"{one_line(str(aside))}, and a new one starts; cleanup: false continues it instead"
            )

    @property
    def _protected(self) -> list[Path]:
        file = self.general.dataset.file_path
        return [Path.cwd(), self.path, *([] if file is None else [file])]

    def _check_dataset(self) -> None:
        """Reject a dataset that the run would overwrite: it could not be resumed."""
        file = self.flags.dataset
        if file is not None and file.resolve().is_relative_to(self.run.resolve()):
            raise ConfigError(
                f"--dataset {one_line(str(file))}: is in the run's own directory",
                hint="leave --dataset out: --skip-workflow and --skip-completed-entries read the "
                "answers from there; or copy the file elsewhere first",
            )

    def _replaces_results(self) -> bool:
        return self._starts_again() or run_directory.is_foreign(self.run)

    def _starts_again(self) -> bool:
        cleans = self.general.output.cleanup and not self._has_jobs and not self.flags.continues
        return cleans and run_directory.is_finished(self.run)

    def _check_workflow(self) -> None:
        workflow = (self._prepared or self.prepare()).workflow
        if self.flags.endpoint is not None:
            asyncio.run(_open_and_close(workflow))
        elif isinstance(workflow, ConfiguredWorkflow):
            workflow.check()

    def _earlier_rows(self) -> tuple[list[dict[str, Any]], str] | None:
        """Return the rows of an earlier run to import answers from, and their file's name."""
        flags = self.flags
        foreign = run_directory.is_foreign(self.run)
        if not (flags.skip_completed or (flags.skip_workflow and foreign and not flags.dataset)):
            return None
        file = self.run / run_directory.OUTPUT
        if flags.skip_completed and flags.dataset is not None:
            file = flags.dataset
        elif not foreign:
            # Set aside and perhaps not imported: by a run that was killed in between, or that was
            # not asked to import.
            aside = run_directory.latest_foreign_beside(self.run)
            if aside is None or aside.name in run_directory.run_file(self.run).imported:
                return self._answered_rows()  # the run continues from its own column
            file = aside / run_directory.OUTPUT
        return list(rows_of_file(file)), file.name

    def _answered_rows(self) -> tuple[list[dict[str, Any]], str] | None:
        """Return the rows of the dataset itself, if some have an answer already."""
        dataset = (self._prepared or self.prepare()).dataset
        answer = self.general.dataset.structure.generated_answer_key
        rows = [dict(item.row) for item in dataset if is_answer(item.row.get(answer))]
        return (rows, dataset.name) if rows else None

    @contextmanager
    def to_plan(self) -> Iterator[Path]:
        """Yield the directory that a run would start from, without changing the real one."""
        self._check_dataset()
        earlier = self._earlier_rows()
        existing = self.run if self.run.exists() and not self._replaces_results() else None
        with TemporaryDirectory(prefix="limpet-") as folder:
            copy = Path(folder) / "run"
            if earlier is None:
                yield existing or copy
                return
            if existing is not None:
                run_directory.copy_for_plan(existing, copy)
            rows, name = earlier
            import_rows(rows, name, replace(self.target(), run=copy))
            yield copy

    def target(self) -> Target:
        """Return where imported answers go."""
        prepared = self._prepared or self.prepare()
        dataset: LoadedDataset = prepared.dataset
        return Target(
            self.run,
            dataset.items,
            self.trials,
            prepared.workflow,
            dataset.roles.input,
            replace(self._names, id=dataset.roles.id or "id"),
            self.general.output.steps,
        )

    # ---- after ----------------------------------------------------------------------------------

    def finish(
        self, result: EvaluationResult, say: Callable[[str], None], *, stopped: bool
    ) -> bool:
        """Write what readers of the toolkit's files expect, and run the user's scripts.

        Args:
            result: The result of the run.
            say: Called with a line for each script and each failure.
            stopped: The run was stopped before its end, so no script runs.

        Returns:
            Whether all of it succeeded.
        """
        output, data = self.general.output, self.tree.data
        try:
            if self.general.dataset.structure.disable:
                parse_outputs(self.run)
            effective = with_defaults(data, self.toolkit, say)
            write_config_files(self.run, self.path, self.original, data, effective, self.flags)
        except OSError as error:
            say(f"{one_line(str(self.run))}: some files could not be written: {error.strerror}")
            return False
        if stopped:
            return True
        profiler, items = self.general.profiler, lambda: result.items
        done = [
            write_toolkit_files(self.run, profiler, output, items, say),
            run_scripts(output.custom_scripts, self.run, say),
            upload(self.run, output, say),
        ]
        return all(done)


async def _open_and_close(workflow: Workflow) -> None:
    """Fail now if the server is down."""
    await workflow.open()
    await workflow.close()


def _value_at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[part.strip()]
    return data
