"""What does a checked configuration of the toolkit do before and after its run?"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from limpet.config.environment import substitute
from limpet.config.errors import Findings, Tree
from limpet.config.imports import put_first
from limpet.config.preparing import imported_object, prepared_evaluators
from limpet.datasets import LoadedDataset
from limpet.errors import ConfigError
from limpet.evaluators import as_evaluator
from limpet.fingerprints.keys import digest
from limpet.integrations.nat import run_directory
from limpet.integrations.nat.eval_block import Evaluation, Flags
from limpet.integrations.nat.evaluators import ToolkitBlock, check_names
from limpet.integrations.nat.finishing import (
    download,
    run_scripts,
    upload,
    with_defaults,
    write_config_files,
    write_toolkit_files,
)
from limpet.integrations.nat.importing import RecordedAnswers, RowAnswers, Target
from limpet.integrations.nat.in_process import InProcessWorkflow, PreProcessed
from limpet.integrations.nat.rows import read_dataset_rows
from limpet.integrations.nat.toolkit import Toolkit, check_installed
from limpet.integrations.nat.toolkit_evaluators import toolkit_evaluators
from limpet.integrations.nat.workflow import (
    ConfiguredWorkflow,
    counted_blocks,
    served,
    without_judges,
)
from limpet.run.api import Arguments
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.options import Pace, Retry, RunOptions
from limpet.run.record_fields import RecordNames
from limpet.secrets.in_configs import Literals, masked
from limpet.secrets.known import maskable
from limpet.text import one_line
from limpet.types import Item
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
        if self.has_jobs:
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
    def has_jobs(self) -> bool:
        """Whether each run gets a directory of its own."""
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
        findings = Findings(self.tree, self.path.parent)
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
        keys = Literals(substitute(blocks)).keys
        options["secrets"] = maskable(keys)
        self._prepared = Arguments(
            dataset,
            workflow,
            evaluators,
            self.run,
            self.trials,
            options,
            known_secrets=keys,
            nat_files=True,
            written_events=self.general.output.steps,
            bare_outputs=self.general.dataset.structure.disable,
            as_toolkit=True,
            asked=self.source,
            names=self._names,
            configuration=self.public,
        )
        return self._prepared

    @property
    def source(self) -> str:
        """Where the items come from. A session over other items does not finish these."""
        file, function = self.general.dataset.file_path, self.general.dataset.function
        return " ".join(str(part) for part in (function, file and file.resolve()) if part)

    @property
    def prepared(self) -> Arguments:
        """What `prepare` returns, prepared once."""
        return self._prepared or self.prepare()

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
        return imported_object(reference, (*_GENERAL, *key), findings)

    def _evaluators(self, findings: Findings) -> Mapping[str, Any]:
        at = ("eval", "evaluators")
        evaluators = dict(
            prepared_evaluators(self._evaluation.evaluators, findings, at, "function")
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

    def target(self) -> Target:
        """Return where imported answers go."""
        prepared = self.prepared
        dataset: LoadedDataset = prepared.dataset
        return Target(
            self.run,
            dataset.items,
            self.trials,
            prepared.workflow,
            dataset.roles.input,
            replace(self._names, id=dataset.roles.id or "id"),
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


def _value_at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[part.strip()]
    return data


# ---- Which workflow answers: a served one, the configuration's own, or none? --------------------


def workflow_of(config: NatConfig, items: Iterable[Item]) -> Workflow:
    """Return the workflow of an evaluation.

    Args:
        config: The configuration.
        items: The items of its dataset.

    Raises:
        ConfigError: It cannot be called with this configuration and these flags.
        LimpetError: The toolkit cannot be imported, or rejects the configuration.
    """
    flags = config.flags
    if flags.skip_workflow:
        return _existing_answers(config, items)
    if flags.endpoint is None:
        inner, known = _own(config), config.toolkit.with_defaults()
    else:
        inner, known = served(flags.endpoint, flags), {}
    blocks = counted_blocks(without_judges(config.tree.data, known), config.path.parent)
    return ConfiguredWorkflow(inner, blocks, flags.result_json_path)


def _own(config: NatConfig) -> Workflow:
    check_installed(one_line(config.tree.shown))
    data = config.tree.data
    if "workflow" not in data:
        raise ConfigError(
            f"{one_line(config.tree.shown)}: has no workflow block, and --endpoint is not given",
            hint="serve the workflow and give its address: --endpoint http://localhost:8000",
        )
    return InProcessWorkflow(
        config.toolkit,
        name=config.name,
        user_id=config.flags.user_id,
        per_input_user_id=config.general.per_input_user_id,
    )


def _existing_answers(config: NatConfig, items: Iterable[Item]) -> Workflow:
    if config.flags.dataset is None:
        functions = run_directory.run_file(config.run).functions
        if functions and run_directory.has_answers(config.run):
            return RecordedAnswers(next(reversed(functions.values())))
        if run_directory.is_foreign(config.run):
            return RecordedAnswers({"recorded": digest(run_directory.OUTPUT)})
    return RowAnswers(config.general.dataset.structure, items)
