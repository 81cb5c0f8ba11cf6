"""Which keys does the `eval:` block have, and what may their values be?

Keys and defaults are the toolkit's. A null key is treated as missing. Keys that Limpet does not
support have the type `Any` here; `loading` ignores some with a remark and rejects the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, model_validator

from limpet.config.dataset_checks import located
from limpet.config.environment import typed
from limpet.config.imports import BadReferenceError, checked_reference
from limpet.config.model import Count, PythonEvaluator, Section, Text
from limpet.config.overrides import without_empty

_DEFAULT_DIR = ".tmp/nat/examples/default"
_DEFAULT_STEPS = ("LLM_END", "TOOL_END")
_TRUTHS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


def _truth(value: Any) -> Any:
    """Return the boolean for one of YAML's words, which the toolkit accepts."""
    value = typed(value)
    return _TRUTHS.get(value.lower(), value) if isinstance(value, str) else value


def _path(value: Any) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError("must be a path")
    return located(value.strip(), Path.cwd())


def _reference(value: Any) -> str:
    """Return a reference as `module:name`; the toolkit writes `module.name`."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        return checked_reference(text if ":" in text else ":".join(text.rsplit(".", 1)))
    except BadReferenceError as error:
        must = "must be module.name or module:name"
        raise BadReferenceError(must, hint=error.hint) from None


Truth = Annotated[bool, BeforeValidator(_truth)]
LocalPath = Annotated[Path, PlainValidator(_path)]  # starts at the current directory
Reference = Annotated[str, PlainValidator(_reference)]


class Block(Section):
    """A mapping of known keys."""

    model_config = ConfigDict(str_strip_whitespace=True)

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, data: Any) -> Any:
        return without_empty(data) if isinstance(data, dict) else data


class OpenBlock(Block):
    """A mapping whose unknown keys are ignored, as in the toolkit, but with a remark."""

    model_config = ConfigDict(extra="ignore")


class Structure(Block):
    """The names of the dataset's columns; with `disable`, the input is the whole row."""

    disable: Truth = False
    question_key: Text = "question"
    answer_key: Text = "answer"
    generated_answer_key: Text = "generated_answer"
    trajectory_key: Text = "intermediate_steps"
    expected_trajectory_key: Text = "expected_intermediate_steps"


class FilterSide(Block):
    """Values by column."""

    field: Any = None


class FilterBlock(Block):
    """Which rows to keep."""

    allowlist: FilterSide | None = None
    denylist: FilterSide | None = None


class DatasetBlock(Block):
    """Where the rows are: in a file, or returned by a function."""

    type: Literal["json", "jsonl", "csv", "parquet", "xls", "custom"] = Field(
        default="json", alias="_type"
    )
    file_path: LocalPath | None = None
    id_key: Text = "id"
    structure: Structure = Field(default_factory=Structure.model_construct)
    filter: FilterBlock | None = None
    function: Reference | None = None
    kwargs: dict[str, Any] = Field(default_factory=dict)
    s3: Any = None
    remote_file_path: Any = None

    @property
    def source(self) -> str:
        """The source of the items. A session over other items does not finish these."""
        file = self.file_path and self.file_path.resolve()
        return " ".join(str(part) for part in (self.function, file) if part)


class ScriptBlock(OpenBlock):
    """A script of the user that runs when the results are on disk."""

    script: LocalPath
    kwargs: dict[str, Any] = Field(default_factory=dict)


class JobsBlock(OpenBlock):
    """Whether each run has its own directory under `jobs/`."""

    append_job_id_to_output_dir: Truth = False
    max_jobs: Any = None
    eviction_policy: Any = None


class OutputBlock(OpenBlock):
    """What is written, and where."""

    dir: LocalPath | None = None
    # The toolkit's default is true, and deletes. Here a run continues unless told otherwise.
    cleanup: Truth = False
    workflow_output_step_filter: list[str] | None = None
    custom_pre_eval_process_function: Reference | None = None
    custom_scripts: dict[str, ScriptBlock] = Field(default_factory=dict)
    job_management: JobsBlock = Field(default_factory=JobsBlock.model_construct)
    s3: Any = None
    remote_dir: Any = None
    write_atif_workflow_output: Any = None

    @property
    def steps(self) -> tuple[str, ...]:
        """The types of steps to keep."""
        steps = self.workflow_output_step_filter
        return _DEFAULT_STEPS if steps is None else tuple(steps)


class GeneralBlock(OpenBlock):
    """Everything but the evaluators."""

    max_concurrency: Count = 8
    workflow_alias: Text | None = None
    output_dir: LocalPath = Field(default_factory=lambda: Path.cwd() / _DEFAULT_DIR)
    output: OutputBlock = Field(default_factory=OutputBlock.model_construct)
    dataset: DatasetBlock = Field(default_factory=DatasetBlock.model_construct)
    per_input_user_id: Truth = True
    profiler: Any = None
    validate_llm_endpoints: Any = None
    verbose: Any = None

    @property
    def directory(self) -> Path:
        """Where the results go; with jobs, each run has its own directory below it."""
        return self.output.dir or self.output_dir

    @property
    def has_jobs(self) -> bool:
        """Whether each run gets its own directory."""
        return self.output.job_management.append_job_id_to_output_dir


class EvalBlock(OpenBlock):
    """The `eval:` block."""

    general: GeneralBlock = Field(default_factory=GeneralBlock.model_construct)
    evaluators: dict[str, Any] = Field(default_factory=dict)


class OwnEvaluator(PythonEvaluator, Block):
    """An evaluator of the user, not imported yet."""

    type: Literal["python"] = Field(alias="_type")
    python: Reference = Field(alias="function")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A checked block.

    Attributes:
        general: Its keys, without the evaluators.
        filter: Which rows to keep: `allow` and `deny`.
        evaluators: Each evaluator by name: created, a `PythonEvaluator` to import, or a
            `ToolkitBlock`.
        remarks: Ignored keys, each with its line.
    """

    general: GeneralBlock
    filter: Mapping[str, Any] | None
    evaluators: Mapping[str, Any]
    remarks: list[str]
