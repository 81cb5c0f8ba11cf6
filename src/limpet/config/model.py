"""Which keys does an `eval.yml` have?

These are the long forms; `short_forms` expands the short ones. `values` says what each may hold.
"""

from typing import Annotated, Any

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from limpet.config.values import (
    Argv,
    Concurrency,
    Count,
    CountOrZero,
    Delimiter,
    Durability,
    Encoding,
    EngineOf,
    HalfWidth,
    Header,
    Integer,
    Megabytes,
    Must,
    Name,
    OnBadRow,
    OnChange,
    Path,
    Price,
    Reference,
    ReplyMode,
    ScoreRange,
    Seconds,
    SecretKey,
    Secrets,
    Section,
    Statuses,
    Text,
    Truth,
    VariableName,
    Wait,
)

SHORT_FOR = {
    "dataset": "path",
    "workflow": "python",
    "pace": "concurrency",
    "retry": "max_retries",
    "run": "path",
}
"""Each section, and the key that a plain value stands for."""
SHORT_KINDS = {"nat": "endpoint", "http": "url", "command": "argv"}
"""Each kind of workflow, and the key that a plain value stands for."""


def long_form(section: str, value: Any) -> Any:
    """Return a section as a mapping."""
    return value if isinstance(value, dict) else {SHORT_FOR[section]: value}


def long_kind(kind: str, value: Any) -> Any:
    """Return a kind of workflow as a mapping, if it has a short form."""
    is_short = isinstance(value, (str, list) if kind == "command" else str)
    if kind not in SHORT_KINDS or not is_short:
        return value
    return {SHORT_KINDS[kind]: value}


def long_evaluator(value: Any) -> Any:
    """Return an evaluator as a mapping: `module:name` is Python, another name a built-in."""
    if not isinstance(value, str):
        return value
    return {"python" if ":" in value else "type": value}


def long_model(value: Any) -> Any:
    """Return a model as a mapping: an address is that of a server, `module:name` is Python."""
    if not isinstance(value, str):
        return value
    return {"openai" if value.startswith(("http://", "https://")) else "python": value}


def expanded(data: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with all sections in long form, and without empty values."""
    content = without_empty(data)
    for section in SHORT_FOR:
        if section in content:
            content[section] = without_empty(long_form(section, content[section]))
    for kind in SHORT_KINDS:
        if kind in content.get("workflow", {}):
            content["workflow"][kind] = long_kind(kind, content["workflow"][kind])
    return content


def without_empty(data: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping without its null values. A key that is empty is an error, and stays."""
    return {
        name: value
        for name, value in data.items()
        if value is not None and (name == "key" or getattr(value, "read", value) is not None)
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
    delimiter: Delimiter | None = _key("What separates the cells of a .csv or .tsv file.")
    encoding: Encoding | None = _key("The encoding of a .csv or .tsv file; default: UTF-8.")
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


class ClientSection(Section):
    """A model of a server that speaks the OpenAI API."""

    openai: Text | None = _key("The base address of the server: https://api.openai.com/v1.")
    model: Text | None = _key("The model's name on the server.")
    key: SecretKey | None = _key("Its key, from the environment: ${OPENAI_API_KEY}.")
    params: dict[str, Any] | None = _key("Parameters of each call: {temperature: 0}.")
    reply: ReplyMode | None = _key("How a reply of a given form is asked for; default: auto.")
    organization: Text | None = _key("The organization that pays.")
    api_version: Text | None = _key("The version of the API, for Azure.")
    stream: Truth | None = _key("Stream the reply, and keep the time of its first token.")


class ModelSection(RemoteSection, ClientSection):
    """A model that workflow and judges use by its name."""

    python: Reference | None = _key("A model of your own: module:name.")


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
    engine: EngineOf | None = _key(
        "Where it runs: processes, {processes: {workers: 4, memory: 2GB}}, or ray."
    )


class ConversationSection(Section):
    """What a model is told."""

    prompt: Text | None = _key("One message of the user; may hold placeholders: {{column}}.")
    prompt_file: Path | None = _key("A file with the prompt, relative to this one.")
    messages: Any = _key("The whole conversation; may hold placeholders.")
    images: Any = _key("Images by path or URL: ['{{photo}}'].")
    files: Any = _key("Other files by path or URL.")
    schema_: dict[str, Any] | None = Field(
        default=None, alias="schema", description="The JSON schema of the answer."
    )


class PromptSection(RemoteSection, ConversationSection, ClientSection):
    """A prompt that is evaluated, and the model that it is for."""

    model: Text | None = _key("The model's name on the server; without openai, one of models.")
    version: Text | None = _key("The version of the model, used instead of its address and name.")
    depends_on: DependsOnSection | None = _key("What its answers depend on besides.")


CONVERSATIONS = ("prompt", "prompt_file", "messages")
"""The keys that say what a model is told."""
_OF_PROMPTS = {"openai", "model", *CONVERSATIONS}
_KINDS = {"python", "nat", "http", "command"}


def workflow_section(value: Any) -> type[WorkflowSection | PromptSection]:
    """Return which kind of workflow a mapping describes."""
    keys = set(value) if isinstance(value, dict) else set()
    return PromptSection if keys & _OF_PROMPTS and not keys & _KINDS else WorkflowSection


def _checked_workflow(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
    return workflow_section(value).model_validate(value)


class ScaleSection(Section):
    """What the scores of an evaluator mean. The keys go with those of every kind of evaluator."""

    range: ScoreRange | None = _key("The lowest and the highest score: [1, 5].")
    group: Text | None = _key("The column that says which items belong together.")
    higher_is_better: Truth | None = _key("Whether a higher score is better; default: true.")


class PythonEvaluator(ScaleSection):
    """The user's own evaluator, not imported yet."""

    python: Reference
    version: Text | None = _key("Its version, used instead of its code.")
    endpoint: Text | None = _key("The service it calls; callers of one share a pace.")
    inputs: dict[str, Any] | None = _key("What it gets: {its name: '{{column}}'}.")
    depends_on: DependsOnSection | None = _key(
        "What its scores depend on that its code does not show."
    )
    engine: EngineOf | None = _key(
        "Where it runs: processes, {processes: {workers: 4, memory: 2GB}}, or ray."
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
    models: Models | None = _key("Models that workflow and judges use, by name.")
    workflow: Annotated[WorkflowSection | PromptSection, WrapValidator(_checked_workflow)] = Field(
        description="What is evaluated."
    )
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
    engine: EngineOf | None = _key(
        "Where your functions run: processes, {processes: {workers: 4, memory: 2GB}}, or ray."
    )
    on_change: OnChange | None = _key("When the workflow changed: redo its answers, or keep them.")
    env_file: Path | None = _key("A file of NAME=value lines; set variables keep their values.")
    secrets: Secrets | None = _key("More values to mask on disk; false turns masking off.")
    early_stop: Truth | None = _key("Stop if the first items all fail the same way; default: true.")
    stop_when: dict[str, HalfWidth] | None = _key(
        "Stop when the 95% interval of a score is this narrow: {correct: 0.02} for ± 0.02."
    )
    prices: dict[str, PriceSection] | None = _key(
        "What a million tokens cost, by model; * for all others."
    )
    output: OutputSection = Field(
        default_factory=OutputSection.model_construct, description="The output files."
    )
