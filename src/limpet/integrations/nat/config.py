"""What does a checked configuration of the toolkit do before and after its run?"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from limpet.config.configuration import Configuration, Say
from limpet.config.environment import substitute
from limpet.config.errors import Findings, Tree
from limpet.config.imports import put_first
from limpet.config.preparing import imported_object, prepared_evaluators
from limpet.datasets.rows import BadRow
from limpet.errors import ConfigError
from limpet.evaluators import as_evaluator
from limpet.fingerprints.keys import digest
from limpet.integrations.nat import run_directory
from limpet.integrations.nat.eval_block import Evaluation
from limpet.integrations.nat.evaluators import ToolkitBlock, check_names, toolkit_evaluators
from limpet.integrations.nat.finishing import (
    download,
    run_scripts,
    upload,
    with_defaults,
    write_config_files,
    write_toolkit_files,
)
from limpet.integrations.nat.flags import TOOL, Flags
from limpet.integrations.nat.in_process import InProcessWorkflow, PreProcessed
from limpet.integrations.nat.rows import read_dataset_rows
from limpet.integrations.nat.toolkit import Toolkit, check_installed
from limpet.integrations.nat.workflow import (
    ConfiguredWorkflow,
    RecordedAnswers,
    RowAnswers,
    counted_blocks,
    served,
    without_judges,
)
from limpet.run.api import Arguments
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.options import Pace, Retry, RunOptions
from limpet.run.record_fields import ToolkitNames
from limpet.secrets.in_configs import Literals, masked
from limpet.secrets.known import maskable
from limpet.shapes import Item
from limpet.text import one_line
from limpet.workflows.protocol import Workflow

_ENDPOINT_TIMEOUT_S = 300.0
_RETRIES, _TIMEOUTS = 3, 1
_GENERAL = ("eval", "general")
_MOST_ROWS = 5


class NatConfig(Configuration):
    """A checked configuration of the toolkit.

    Attributes:
        trials: How many times each item runs.
        public: The `eval` block as written, with the command line applied: safe to store.
        remarks: Ignored keys, each with its line, and skipped rows.
        original: The text of the file when it was read: it may be edited during the run.
    """

    shares_run = True

    def __init__(
        self, path: Path, tree: Tree, evaluation: Evaluation, flags: Flags, original: str
    ) -> None:
        self.general = evaluation.general
        self.path = path
        self.name = self.general.workflow_alias or path.stem
        self.run = self.general.directory
        if self.general.has_jobs:
            self.run = run_directory.choose_job(self.run, latest=flags.continues)
        last = run_directory.run_file(self.run).session if flags.skip_workflow else None
        self.trials = flags.reps or (last and last.trials) or 1
        self.public: dict[str, Any] = {"eval": masked(tree.data).get("eval")}
        self.remarks: list[str] = evaluation.remarks
        self.original = original
        self.tree = tree
        self.flags = flags
        self.toolkit = self._new_toolkit(evaluation)
        self._evaluation = evaluation
        file = self.general.dataset.file_path
        protected = [Path.cwd(), path, *([] if file is None else [file])]
        self._earlier = run_directory.EarlierResults(self.run, self.general, flags, protected)

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
        """Import what the file names, check it, and read the dataset."""
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
            self.general.dataset, self._evaluation.filter, function, self.remarks.append
        )
        self._add_skipped(dataset.bad_rows)
        workflow = self._workflow(dataset)
        options = self._options()
        if isinstance(workflow, RowAnswers):
            options["on_change"] = "redo"  # reading other rows costs nothing
        # Only in models and tools: a column of the dataset may be called `token`.
        blocks = {name: block for name, block in self.tree.data.items() if name != "eval"}
        keys = Literals(substitute(blocks)).keys
        options["secrets"] = maskable(keys)
        columns = self.general.dataset.structure
        return Arguments(
            dataset,
            workflow,
            evaluators,
            self.run,
            self.trials,
            options,
            known_secrets=keys,
            nat_files=True,
            written_events=self.general.output.steps,
            bare_outputs=columns.disable,
            as_toolkit=True,
            dataset_name=self.general.dataset.source,
            names=ToolkitNames(
                self.general.dataset.id_key,
                columns.generated_answer_key,
                columns.trajectory_key,
                columns.expected_trajectory_key,
            ),
            configuration=self.public,
        )

    def _add_skipped(self, rows: Sequence[BadRow]) -> None:
        self.remarks += [f"skipped: {row}" for row in rows[:_MOST_ROWS]]
        if len(rows) > _MOST_ROWS:
            more = len(rows) - _MOST_ROWS
            self.remarks.append(f"skipped: {more:,} more rows; summary.json lists them all")

    def _imported(self, key: tuple[str, ...], reference: str | None, findings: Findings) -> Any:
        if reference is None:
            return None
        return imported_object(reference, (*_GENERAL, *key), findings)

    def _evaluators(self, findings: Findings) -> Mapping[str, Any]:
        at, written = ("eval", "evaluators"), self._evaluation.evaluators
        evaluators = {
            name: evaluator
            for name, evaluator in prepared_evaluators(written, findings, at, "function").items()
            if not isinstance(evaluator, ToolkitBlock)
        }
        evaluators |= toolkit_evaluators(
            self.toolkit,
            self.tree.data,
            self.path.parent,
            self.general.dataset,
            findings,
            self.remarks.append,
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
        # An agent that fails or hangs costs more than a call to a model.
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

    def to_plan(self, prepared: Arguments) -> AbstractContextManager[Arguments]:
        return self._earlier.to_plan(prepared)

    def begin(self, prepared: Arguments, say: Say) -> None:
        self._earlier.begin(prepared, say)

    def make_room(self, say: Say) -> None:
        self._earlier.set_foreign_aside(say, imported=True)

    # ---- Which workflow answers: a served one, the configuration's own, or none? ----------------

    def _workflow(self, items: Iterable[Item]) -> Workflow:
        flags = self.flags
        if flags.skip_workflow:
            return self._existing_answers(items)
        if flags.endpoint is None:
            inner, known = self._own(), self.toolkit.with_defaults()
        else:
            inner, known = served(flags.endpoint, flags), {}
        blocks = counted_blocks(without_judges(self.tree.data, known), self.path.parent)
        return ConfiguredWorkflow(inner, blocks, flags.result_json_path)

    def _own(self) -> Workflow:
        shown = one_line(self.tree.shown)
        check_installed(shown)
        if "workflow" not in self.tree.data:
            raise ConfigError(
                f"{shown}: has no workflow block, and --endpoint is not given",
                hint="serve the workflow and give its address: --endpoint http://localhost:8000",
            )
        return InProcessWorkflow(
            self.toolkit,
            name=self.name,
            user_id=self.flags.user_id,
            per_input_user_id=self.general.per_input_user_id,
        )

    def _existing_answers(self, items: Iterable[Item]) -> Workflow:
        if self.flags.dataset is None:
            functions = run_directory.run_file(self.run).functions
            if functions and run_directory.has_answers(self.run):
                return RecordedAnswers(next(reversed(functions.values())))
            if run_directory.is_foreign(self.run):
                return RecordedAnswers({"recorded": digest(run_directory.OUTPUT)})
        return RowAnswers(self.general.dataset.structure, items)

    # ---- after ----------------------------------------------------------------------------------

    def finish(self, result: EvaluationResult, say: Say, *, stopped: bool) -> bool:
        """Write what readers of the toolkit's files expect, and run the user's scripts."""
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

    def next_steps(self, file: str, run: str) -> list[str]:
        if not self.flags.no_evaluators:
            return []
        scoring = f"{TOOL} --config_file {file} --skip_workflow --dataset"
        return [f"score with the toolkit: {scoring} {run}/{run_directory.OUTPUT}"]


def _value_at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[part.strip()]
    return data
