"""Which keys does an `eval.yml` have, and what may each hold?

These are the long forms; `overrides` expands the short ones. `checking` turns the errors of
Pydantic into plain messages.
"""

from collections.abc import Callable
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

from limpet.arguments import TIME_PATTERN, as_seconds
from limpet.config.environment import Substituted, typed
from limpet.config.imports import checked_reference
from limpet.datasets.csv_files import flaw_of_delimiter, flaw_of_encoding
from limpet.engines.spec import as_engine
from limpet.fingerprints.steps import flaw_of_variable
from limpet.run.budget import as_budget
from limpet.secrets.known import flaw_of_declared
from limpet.shapes import Scale
from limpet.transport.address import flaw_of_header

VARIABLE = {"type": "string", "pattern": r"\$\{", "description": "${NAME} or ${NAME:-default}"}
_MOST = 10**9
_LONGEST_NAME = 200


class _OrVariable:
    """Marks a value that may also be written as `${NAME}`."""

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(typed, handler(kind))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), VARIABLE]}


class Must:
    """Replaces Pydantic's messages about a value by one of ours."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        self._message = message
        self._context = None if hint is None else {"hint": hint}

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(kind),
            custom_error_type="must",
            custom_error_message=self._message,
            custom_error_context=self._context,
        )


def _flaw_of_name(name: str) -> str | None:
    fits = name.strip() == name and name not in ("", ".", "..") and name.isprintable()
    if fits and not set("/\\") & set(name) and len(name.encode()) <= _LONGEST_NAME:
        return None
    return "must be usable as the name of a directory: no '/', '\\' or line breaks"


def _flaw_of_path(path: str) -> str | None:
    return None if path.strip() and "\0" not in path else "must be a path"


def _seconds(value: Any) -> Any:
    return as_seconds(typed(value))


def _without(flaw_of: Callable[[str], str | None], kind: str = "must") -> AfterValidator:
    """Return the check that a value has no flaw."""

    def check(value: str) -> str:
        if flaw := flaw_of(value):
            raise PydanticCustomError(kind, "{flaw}", {"flaw": flaw})
        return value

    return AfterValidator(check)


def _secrets(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return check(value)
    more = "; to mask nothing: mask: false" if typed(value) is False else ""
    raise ValueError(f"must be a list of strings{more}")


def _variable(value: Any) -> Any:
    # `${NAME}` means the name here, not its value.
    name = value.written if isinstance(value, Substituted) else value
    if isinstance(name, str) and (flaw := flaw_of_variable(name)):
        raise ValueError(flaw)
    return value


def _secret_key(value: Any) -> Any:
    # Only from a variable: the file is stored with the run, and shared.
    if isinstance(value, str) and not isinstance(value, Substituted):
        hint = "write ${NAME} in its place, and set the variable NAME in the environment"
        raise PydanticCustomError("flaw", "must not be in the file", {"flaw_hint": hint})
    if isinstance(value, str) and not value.strip():
        raise PydanticCustomError("flaw", "is empty", {"flaw_hint": "set it to the key"})
    return value


def _range(value: Any) -> tuple[float, float] | None:
    given: Any = [typed(end) for end in value] if isinstance(value, list) else value
    try:
        return Scale(range=given).range
    except (TypeError, ValueError):
        must = "must be two finite numbers, the lower first, like [1, 5]"
        raise PydanticCustomError("flaw", must) from None


def _engine(value: Any) -> Any:
    given: Any = typed(value)
    try:
        as_engine(given)
    except (TypeError, ValueError) as error:
        flaw = str(error).removeprefix(f"engine={given!r}: ").removeprefix("engine: ")
        raise PydanticCustomError("flaw", "{flaw}", {"flaw": flaw}) from None
    return given


def _budget(value: Any) -> Any:
    try:
        return as_budget(typed(value))
    except (TypeError, ValueError) as error:
        raise PydanticCustomError("flaw", "{flaw}", {"flaw": str(error)}) from None


Text = Annotated[str, Field(pattern=r"\S")]
Delimiter = Annotated[str, _without(flaw_of_delimiter)]
Encoding = Annotated[Text, _without(flaw_of_encoding)]
Name = Annotated[str, _without(_flaw_of_name)]
Path = Annotated[str, _without(_flaw_of_path)]
Header = Annotated[str, _without(flaw_of_header, "flaw")]
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
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), _OrVariable()]
OnBadRow = Annotated[Literal["raise", "skip"], _OrVariable()]
Durability = Annotated[Literal["sync", "flush"], _OrVariable()]
ReplyMode = Annotated[Literal["auto", "schema", "tool", "text", "decision"], _OrVariable()]
Api = Annotated[Literal["chat", "responses"], _OrVariable()]
OwnAddress = Annotated[
    Annotated[str, Field(pattern=r"\S")] | Literal[True],
    Must("must be an address, or empty for the provider's own"),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"enum": [None, True]}]}),
]
OnStall = Annotated[Literal["wait", "retry", "fail"], _OrVariable()]
OnChange = Annotated[Literal["redo", "keep"], _OrVariable()]
Secrets = Annotated[
    list[Annotated[str, _without(flaw_of_declared)]],
    WrapValidator(_secrets),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]
SecretKey = Annotated[
    str,
    BeforeValidator(_secret_key),
    WithJsonSchema({"type": "string", "pattern": r"\$\{"}),
]
VariableName = Annotated[str, BeforeValidator(_variable)]
Argv = Annotated[
    str | list[str],
    Must("must be a list of strings, or a string, like [python, agent.py]"),
]
Statuses = Annotated[list[int], _OrVariable()]
_PAIR = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
ScoreRange = Annotated[tuple[float, float], PlainValidator(_range), WithJsonSchema(_PAIR)]


def _mapping_of(**keys: Any) -> dict[str, Any]:
    return {"type": "object", "properties": keys, "additionalProperties": False}


_WORKERS = {"type": "integer", "minimum": 1}
_MEMORY = {"type": ["string", "integer"], "examples": ["2GB"]}
_RAY = _mapping_of(
    address={"type": "string", "examples": ["auto", "ray-head:6379"]},
    workers=_WORKERS,
    resources={"type": "object", "examples": [{"num_gpus": 0.25}]},
    runtime_env={"type": "object", "examples": [{"working_dir": "."}]},
)
_PROCESSES = {"anyOf": [_WORKERS, _mapping_of(workers=_WORKERS, memory=_MEMORY)]}
_ENGINES = _mapping_of(processes=_PROCESSES, ray=_RAY)
_ENGINE = {"anyOf": [{"enum": ["processes", "ray"]}, _ENGINES, VARIABLE]}
EngineOf = Annotated[Any, PlainValidator(_engine), WithJsonSchema(_ENGINE)]
FOR_A_RATE = "for a rate: calls a second times their length, so 30 for 20 a second of 1.5 s each"
Concurrency = Annotated[
    Annotated[int, Field(ge=1, le=_MOST)] | Literal["auto"],
    _OrVariable(),
    Must("must be auto or an integer, 1 or more", FOR_A_RATE),
]
_AMOUNT = {"type": ["number", "string"]}
BudgetOf = Annotated[
    Any,
    PlainValidator(_budget),
    WithJsonSchema(_mapping_of(cost=_AMOUNT, tokens=_AMOUNT, calls=_AMOUNT, time=_AMOUNT)),
]
_TIME_TEXT = {"type": "string", "pattern": rf"^{TIME_PATTERN}$|\$\{{"}
Wait = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False),
    BeforeValidator(_seconds),
    Must("must be a number of seconds, 0 or more, or a time like 90s, 2m or 1h"),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, _TIME_TEXT]}),
]
Seconds = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(_seconds),
    Must("must be a number of seconds above 0, or a time like 90s, 2m or 1h"),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, _TIME_TEXT]}),
]


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    def given(self, *names: str) -> dict[str, Any]:
        """Return the values that are set, by name; without names, all of them."""
        values = {name: getattr(self, name) for name in names or self.model_fields_set}
        return {
            name: str(value) if isinstance(value, str) else typed(value)
            for name, value in values.items()
            if value is not None and name in self.model_fields_set
        }


Models = Annotated[
    dict[str, Any], Must("must map names to models, like grader: {openai: …, model: …}")
]
Evaluators = Annotated[
    dict[str, Any], Must("must map names to evaluators, like correct: exact_match")
]


def _key(description: str, *, default: Any = None) -> Any:
    """Return an optional key of a section."""
    return Field(default=default, description=description)


def _section(kind: type[Section], description: str) -> Any:
    """Return a section that may be left out."""
    return Field(default_factory=kind.model_construct, description=description)


class DatasetSection(Section):
    """Where the rows are, and how to read them."""

    path: Path | None = _key("The file, relative to this one.")
    python: Reference | None = _key("A function that returns the rows.")
    id: Text | None = _key("The column with the ids.")
    input: Text | None = _key("The column with the input.")
    expected: Text | None = _key("The column with the expected answer.")
    on_bad_row: OnBadRow = _key("What to do with a bad row.", default="raise")
    limit: Count | None = _key("Use the first N rows.")
    sample: Count | None = _key("Use N random rows, chosen by the seed.")
    shuffle: Truth = _key("Shuffle the rows with the seed.", default=False)
    seed: Integer = _key("The seed for sample and shuffle.", default=0)
    sheet: Text | None = _key("The sheet of an .xlsx file.")
    delimiter: Delimiter | None = _key("What separates the cells of a .csv or .tsv file.")
    encoding: Encoding | None = _key("The encoding of a .csv or .tsv file; default: UTF-8.")
    filter: dict[str, Any] | None = _key("Which rows to keep, by column.")


class RemoteSection(Section):
    """The keys that all workflows and models on a server share."""

    headers: dict[str, Header] | None = _key("Sent with each call; write secrets as ${NAME}.")
    connect_timeout: Seconds | None = _key("Time limit for connecting.")
    first_byte_timeout: Seconds | None = _key("Time limit until the first byte.")
    between_bytes_timeout: Seconds | None = _key("Time limit between two chunks of the answer.")
    timeout: Seconds | None = _key("Time limit for the whole call.")
    max_response_mb: Positive | None = _key("The largest answer.")


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
    max_output_mb: Positive | None = _key("The largest output.")


class ClientSection(Section):
    """A model of a provider: one key names it, and holds its address."""

    openai: Text | None = _key("The base address of the server: https://api.openai.com/v1.")
    anthropic: OwnAddress | None = _key("Anthropic's Messages; the address may be left out.")
    gemini: OwnAddress | None = _key("Google's Gemini API; the address may be left out.")
    ollama: OwnAddress | None = _key("Ollama's own API; the address may be left out.")
    bedrock: OwnAddress | None = _key("Bedrock's Converse; without an address, AWS_REGION says it.")
    api: Api | None = _key("With openai: chat (Chat Completions), or responses; default: chat.")
    model: Text | None = _key("The model's name on the server.")
    key: SecretKey | None = _key("Its key, from the environment: ${OPENAI_API_KEY}.")
    keys: list[SecretKey] | None = _key("Several keys, each with a limit of its own.")
    params: dict[str, Any] | None = _key("Parameters for each call: {temperature: 0}.")
    reply: ReplyMode | None = _key("How a structured reply is requested; default: auto.")
    organization: Text | None = _key("The organization that pays.")
    api_version: Text | None = _key("The version of the API, for Azure.")
    stream: Truth | None = _key("Stream the reply, and keep the time of its first token.")
    cache: Truth | None = _key("Mark the constant part of the prompt for the provider's cache.")


class ModelSection(RemoteSection, ClientSection):
    """A model that workflow and judges use by its name."""

    python: Reference | None = _key("A model of your own: module:name.")


class DependsOnSection(Section):
    """What results depend on besides the code."""

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
    depends_on: DependsOnSection | None = _key("What its answers depend on besides its code.")
    engine: EngineOf | None = _key(
        "Where it runs: processes, {processes: {workers: 4, memory: 2GB}}, or ray."
    )


class ConversationSection(Section):
    """The messages to a model."""

    prompt: Text | None = _key("One user message; may hold placeholders: {{column}}.")
    prompt_file: Path | None = _key("A file with the prompt, relative to this one.")
    messages: Any = _key("The whole conversation; may hold placeholders.")
    images: Any = _key("Images by path or URL: ['{{photo}}'].")
    files: Any = _key("Other files by path or URL.")
    schema_: dict[str, Any] | None = Field(
        default=None, alias="schema", description="The JSON schema of the answer."
    )


class PromptSection(RemoteSection, ConversationSection, ClientSection):
    """A prompt to evaluate, and its model."""

    model: Text | None = _key("The model's name on the server; without a provider, one of models.")
    version: Text | None = _key("The version of the model, used instead of its address and name.")
    depends_on: DependsOnSection | None = _key("What else its answers depend on.")


CONVERSATIONS = ("prompt", "prompt_file", "messages")
"""The keys of the messages to a model."""
PROVIDERS = ("openai", "anthropic", "gemini", "ollama", "bedrock")
"""The keys of providers."""
_OF_PROMPTS = {"model", *PROVIDERS, *CONVERSATIONS}
_KINDS = {"python", "nat", "http", "command"}


def workflow_section(value: Any) -> type[WorkflowSection | PromptSection]:
    """Return which kind of workflow a mapping describes."""
    keys = set(value) if isinstance(value, dict) else set()
    return PromptSection if keys & _OF_PROMPTS and not keys & _KINDS else WorkflowSection


def _checked_workflow(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
    return workflow_section(value).model_validate(value)


class ScaleSection(Section):
    """What the scores of an evaluator mean. The keys work with every kind of evaluator."""

    range: ScoreRange | None = _key("The lowest and the highest score: [1, 5].")
    group: Text | None = _key("The column that groups items.")
    higher_is_better: Truth | None = _key("Whether a higher score is better; default: true.")


class PythonEvaluator(ScaleSection):
    """The user's own evaluator, not imported yet."""

    python: Reference
    version: Text | None = _key("Its version, used instead of its code.")
    endpoint: Text | None = _key("The service it calls; callers of the same one share a pace.")
    inputs: dict[str, Any] | None = _key("What it gets: {its name: '{{column}}'}.")
    depends_on: DependsOnSection | None = _key("What its scores depend on besides its code.")
    engine: EngineOf | None = _key(
        "Where it runs: processes, {processes: {workers: 4, memory: 2GB}}, or ray."
    )


class PaceSection(Section):
    """The limit of calls in flight."""

    concurrency: Concurrency | None = _key("Calls in flight, or auto to find the limit.")
    max_concurrency: Count | None = _key("The limit of auto.")
    remember: bool | None = _key("Whether to start from what earlier runs learned of the endpoint.")
    share: bool | None = _key(
        "Whether to share the endpoint's limit with other runs of yours here."
    )


class BackoffSection(Section):
    """How long a failed call waits before its retry."""

    base: Wait | None = _key("The longest first wait.")
    cap: Wait | None = _key("The longest wait.")


class RetrySection(Section):
    """How often a call is retried."""

    max_retries: CountOrZero | None = _key("Retries after a failure.")
    max_timeouts: CountOrZero | None = _key("Retries after a timeout.")
    backoff: BackoffSection | None = None


class RunSection(Section):
    """Where results are stored, and how durably."""

    path: Path | None = _key("The run's directory, relative to this file.")
    durability: Durability | None = _key("When a result is considered stored.")


class NatOutputSection(Section):
    """How the output files of the NeMo Agent Toolkit are written."""

    bare: Truth | None = _key("Write only the outputs to workflow_output.json.")
    trace_filter: list[str] | None = _key("Types or kinds of trace events to write.")


class StallSection(Section):
    """What to do with a call far beyond its step's usual time."""

    after: Seconds | None = _key("The age of such a call; default: 30 s, or 4 times the p99.")
    do: OnStall | None = _key("wait; retry: ask again, the first answer counts; or fail.")


class OutputSection(Section):
    """What is written at the end, besides the results."""

    nat: NatOutputSection | None = _key(
        "The output files of the NeMo Agent Toolkit, workflow_output.json and others: true, or how."
    )


class PriceSection(Section):
    """What a million tokens of one model cost, in any currency."""

    prompt: Price | None = _key("Input tokens.")
    completion: Price | None = _key("Output tokens.")
    cached: Price | None = _key("Tokens read from a cache.")
    cache_write: Price | None = _key("Tokens written to a cache.")


class EvalFile(Section):
    """An evaluation: a dataset, a workflow, and evaluators that score its answers."""

    name: Name | None = _key("The name of the evaluation.")
    dataset: DatasetSection = Field(description="The rows.")
    models: Models | None = _key("Models that the workflow and judges use, by name.")
    workflow: Annotated[WorkflowSection | PromptSection, WrapValidator(_checked_workflow)] = Field(
        description="What is evaluated."
    )
    run: RunSection = _section(RunSection, "The run's directory.")
    trials: Count = _key("How many times each item runs.", default=1)
    evaluators: Evaluators | None = _key("The evaluators, by name.")
    matrix: dict[str, list[Any]] | None = _key(
        "Variants: lists of values by path, like workflow.args.model: [a, b]."
    )
    pace: PaceSection = _section(PaceSection, "How many calls run at once.")
    retry: RetrySection = _section(RetrySection, "Retries after a failure.")
    timeout: Seconds | None = _key("Time limit for an attempt: seconds, or a time like 90s or 2m.")
    engine: EngineOf | None = _key(
        "Where your functions run: processes, {processes: {workers: 4, memory: 2GB}}, or ray."
    )
    on_change: OnChange | None = _key("If the workflow changed: redo its answers, or keep them.")
    env_file: Path | None = _key("A file of NAME=value lines; set variables keep their values.")
    retry_failed: Truth | None = _key("Retry what failed in earlier sessions; default: true.")
    secrets: Secrets | None = _key("More values to mask on disk.")
    mask: Truth | None = _key("Mask secrets in answers, scores and errors; default: true.")
    fail_fast: Truth | None = _key("Stop if the first items all fail the same way; default: true.")
    stop_when: dict[str, Positive] | None = _key(
        "Stop when the 95% interval of a score is this narrow: {correct: 0.02} for ± 0.02."
    )
    budget: BudgetOf | None = _key(
        "Stop when all sessions have spent this: {cost: 20, tokens: 5M, calls: 5000, time: 2h}."
    )
    stall: StallSection = _section(StallSection, "Calls far beyond their step's usual time.")
    prices: dict[str, PriceSection] | None = _key(
        "What a million tokens cost, by model; * for all others."
    )
    output: OutputSection = _section(OutputSection, "The output files.")
