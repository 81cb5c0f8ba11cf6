"""Which keys does an `eval.yml` have, and what may their values be?

These are the long forms; `short_forms` expands the short ones. `checking` turns Pydantic's errors
into plain messages.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from limpet.config.environment import Substituted, typed
from limpet.config.imports import checked_reference
from limpet.fingerprints.declared import flaw_of_variable
from limpet.secrets.known import flaw_of_declared
from limpet.transport.address import flaw_of_header

VARIABLE = {"type": "string", "pattern": r"\$\{", "description": "${NAME} or ${NAME:-default}"}
_MOST = 10**9
_LONGEST_NAME = 200
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


class _OrVariable:
    """Marks a value that may also be written as `${NAME}`."""

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(typed, handler(kind))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), VARIABLE]}


class _Must:
    """Replaces what Pydantic says about a value by one message."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(kind), custom_error_type="must", custom_error_message=self._message
        )


def _name(value: str) -> str:
    fits = value.strip() == value and value not in ("", ".", "..") and value.isprintable()
    if not fits or set("/\\") & set(value) or len(value.encode()) > _LONGEST_NAME:
        raise ValueError("must be usable as the name of a directory: no '/', '\\' or line breaks")
    return value


def _path(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ValueError("must be a path")
    return value


def _seconds(value: Any) -> Any:
    given = typed(value)
    time = _TIME.fullmatch(given) if isinstance(given, str) else None
    return given if time is None else float(time[1]) * _SECONDS[time[2]]


def _header(value: str) -> str:
    if flaw := flaw_of_header(value):
        raise PydanticCustomError("flaw", "{flaw}", {"flaw": flaw})
    return value


def _secrets(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    # By hand: for Pydantic, 0 is False, and would turn masking off.
    if typed(value) is False:
        return False
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return check(value)
    raise ValueError("must be false, or a list of strings")


def _secret(value: str) -> str:
    if flaw := flaw_of_declared(value):
        raise ValueError(flaw)
    return value


def _variable(value: Any) -> Any:
    # Of `${NAME}`, the name was meant, not what it holds.
    name = value.written if isinstance(value, Substituted) else value
    if isinstance(name, str) and (flaw := flaw_of_variable(name)):
        raise ValueError(flaw)
    return value


Text = Annotated[str, Field(pattern=r"\S")]
Name = Annotated[str, AfterValidator(_name)]
Path = Annotated[str, AfterValidator(_path)]
Header = Annotated[str, AfterValidator(_header)]
Reference = Annotated[
    str,
    PlainValidator(checked_reference),
    WithJsonSchema({"type": "string", "pattern": r":|\$\{", "examples": ["app:answer"]}),
]
Integer = Annotated[int, Field(gt=-(10**18), lt=10**18), _OrVariable()]
Count = Annotated[int, Field(ge=1, le=_MOST), _OrVariable()]
CountOrZero = Annotated[int, Field(ge=0, le=_MOST), _OrVariable()]
Truth = Annotated[bool, _OrVariable()]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False), _OrVariable()]
Megabytes = Annotated[float, Field(gt=0, allow_inf_nan=False), _OrVariable()]
OnBadRow = Annotated[Literal["raise", "skip"], _OrVariable()]
Durability = Annotated[Literal["sync", "flush"], _OrVariable()]
OnChange = Annotated[Literal["redo", "keep"], _OrVariable()]
Secrets = Annotated[
    list[Annotated[str, AfterValidator(_secret)]],
    WrapValidator(_secrets),  # lets False through, too
    WithJsonSchema({"anyOf": [{"const": False}, {"type": "array", "items": {"type": "string"}}]}),
]
VariableName = Annotated[str, BeforeValidator(_variable)]
Argv = Annotated[
    str | list[str],
    _Must("must be a list of strings, or a string, like [python, agent.py]"),
]
Statuses = Annotated[list[int], _OrVariable()]
Concurrency = Annotated[
    Annotated[int, Field(ge=1, le=_MOST)] | Literal["auto"],
    _OrVariable(),
    _Must("must be auto or an integer of at least 1"),
]
_TIME_TEXT = {"type": "string", "pattern": rf"^{_TIME.pattern}$|\$\{{"}
Wait = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False),
    BeforeValidator(_seconds),
    _Must("must be a number of seconds, 0 or more, or a time like 90s, 2m or 1h"),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, _TIME_TEXT]}),
]
Seconds = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(_seconds),
    _Must("must be a number of seconds above 0, or a time like 90s, 2m or 1h"),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, _TIME_TEXT]}),
]
Evaluators = Annotated[
    dict[str, Any], _Must("must map names to evaluators, like correct: exact_match")
]


def _key(description: str, *, default: Any = None) -> Any:
    """Return an optional key of a section."""
    return Field(default=default, description=description)


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class DatasetSection(Section):
    """Where the rows are, and how to read them."""

    path: Path | None = _key("The file, relative to this one.")
    python: Reference | None = _key("A function that returns the rows.")
    id: Text | None = _key("The column of the ids.")
    input: Text | None = _key("The column of the input.")
    expected: Text | None = _key("The column of the expected answer.")
    on_bad_row: OnBadRow = _key("What to do with a bad row.", default="raise")
    limit: Count | None = _key("Use the first N rows.")
    sample: Count | None = _key("Use N random rows, chosen by the seed.")
    shuffle: Truth = _key("Shuffle the rows by the seed.", default=False)
    seed: Integer = _key("The seed of sample and shuffle.", default=0)
    sheet: Text | None = _key("The sheet of an .xlsx file.")
    delimiter: str | None = _key("What separates the cells of a .csv or .tsv file.")
    encoding: Text | None = _key("The encoding of a .csv or .tsv file; default: UTF-8.")
    filter: dict[str, Any] | None = _key("Which rows to keep, by column.")


class RemoteSection(Section):
    """What calls to a server have in common."""

    headers: dict[str, Header] | None = _key("Sent with each call; write secrets as ${NAME}.")
    connect_timeout: Seconds | None = _key("Time limit to connect.")
    first_byte_timeout: Seconds | None = _key("Time limit until the first byte.")
    between_bytes_timeout: Seconds | None = _key("Time limit between two chunks of the answer.")
    timeout: Seconds | None = _key("Time limit of the whole call.")
    max_response_mb: Megabytes | None = _key("The largest answer.")


class NatSection(RemoteSection):
    """An agent of the NeMo Agent Toolkit, served by `nat serve`."""

    endpoint: Text = Field(description="Its address: http://localhost:8000.")
    path: Text | None = _key("The path to call; default: /generate/full.")
    input_key: Text | None = _key("The name of its input parameter.")


class HttpSection(RemoteSection):
    """A server that answers with JSON."""

    url: Text = Field(description="Its address; may hold placeholders: {{column}}.")
    method: Text | None = _key("GET, POST, PUT, PATCH or DELETE.")
    body: Any = _key("The request body; may hold placeholders.")
    answer: Text | None = _key("A JSONPath to the answer.")
    statuses: Statuses | None = _key("The statuses that mean success.")


class CommandSection(Section):
    """A program: it reads the row as JSON from stdin, and writes the answer to stdout."""

    argv: Argv = Field(description="The program and its arguments; may hold placeholders.")
    env: dict[str, str] | None = _key("Variables for it; write secrets as ${NAME}.")
    cwd: Path | None = _key("Its working directory, relative to this file; default: the file's.")
    answer: Text | None = _key("text, json, or a JSONPath to the answer in the JSON it writes.")
    max_output_mb: Megabytes | None = _key("The largest output.")


class DependsOnSection(Section):
    """What results depend on that the code does not show."""

    files: list[str] | None = _key(
        "Files that are read, relative to this one; * and ** match many."
    )
    env: list[VariableName] | None = _key("Environment variables, by value.")
    packages: list[str] | None = _key("Packages, by version.")


class WorkflowSection(Section):
    """What is evaluated. Each kind of workflow has its own key; exactly one is given."""

    python: Reference | None = _key("A function or class: module:name.")
    args: dict[str, Any] | None = _key("Arguments of the function, or of the class's constructor.")
    nat: NatSection | None = _key("An agent that `nat serve` serves.")
    http: HttpSection | None = _key("A server that answers with JSON.")
    command: CommandSection | None = _key("A program that answers on stdout.")
    version: Text | None = _key("Its version, used instead of its code.")
    depends_on: DependsOnSection | None = _key(
        "What its answers depend on that its code does not show."
    )


class PythonEvaluator(Section):
    """The user's own evaluator, not imported yet."""

    python: Reference
    version: Text | None = _key("Its version, used instead of its code.")
    endpoint: Text | None = _key("The service it calls; callers of one share a pace.")
    depends_on: DependsOnSection | None = _key(
        "What its scores depend on that its code does not show."
    )


class PaceSection(Section):
    """The number of calls in flight."""

    concurrency: Concurrency | None = _key("Calls in flight, or auto to find the limit.")
    max_concurrency: Count | None = _key("The most calls in flight with auto.")


class BackoffSection(Section):
    """How long a failed call waits before its retry."""

    base: Wait | None = _key("The longest first wait.")
    cap: Wait | None = _key("The longest wait.")


class RetrySection(Section):
    """How often a call is retried."""

    max_retries: CountOrZero | None = _key("Retries after a failure.")
    max_timeouts: CountOrZero | None = _key("Retries after a timeout.")
    backoff: BackoffSection | None = None
    failed: Truth | None = _key("Retry what failed in earlier sessions; default: true.")


class RunSection(Section):
    """Where results are kept, and when a result counts."""

    path: Path | None = _key("The run's directory, relative to this file.")
    durability: Durability | None = _key("When a result counts as on disk.")


class OutputSection(Section):
    """How the output files are written."""

    bare: Truth | None = _key("Write only the outputs to workflow_output.json.")
    trace_filter: list[str] | None = _key("Types or kinds of trace events to keep.")


class PriceSection(Section):
    """What a million tokens of one model cost, in any currency."""

    prompt: Price | None = _key("Input tokens.")
    completion: Price | None = _key("Output tokens.")
    cached: Price | None = _key("Tokens read from a cache.")


class EvalFile(Section):
    """An evaluation: a dataset, a workflow, and evaluators that score its answers."""

    name: Name | None = _key("The name of the evaluation.")
    dataset: DatasetSection = Field(description="The rows.")
    workflow: WorkflowSection = Field(description="What is evaluated.")
    run: RunSection = Field(
        default_factory=RunSection.model_construct, description="The run's directory."
    )
    trials: Count = _key("How many times each item runs.", default=1)
    evaluators: Evaluators | None = _key("The evaluators, by name.")
    matrix: dict[str, list[Any]] | None = _key(
        "Variants: lists of values by path, like workflow.args.model: [a, b]."
    )
    pace: PaceSection = Field(
        default_factory=PaceSection.model_construct, description="How many calls run at once."
    )
    retry: RetrySection = Field(
        default_factory=RetrySection.model_construct, description="Retries after a failure."
    )
    timeout: Seconds | None = _key("Time limit of an attempt: seconds, or a time like 90s or 2m.")
    on_change: OnChange | None = _key("When the workflow changed: redo its answers, or keep them.")
    env_file: Path | None = _key("A file of NAME=value lines; set variables keep their values.")
    secrets: Secrets | None = _key("More values to mask on disk; false turns masking off.")
    early_stop: Truth | None = _key("Stop if the first items all fail the same way; default: true.")
    prices: dict[str, PriceSection] | None = _key(
        "What a million tokens cost, by model; * for all others."
    )
    output: OutputSection = Field(
        default_factory=OutputSection.model_construct, description="The output files."
    )
