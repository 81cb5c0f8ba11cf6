"""Which keys does an `eval.yml` have, in the long form that `forms` makes of a short one?"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from limpet.config.values import (
    Concurrency,
    Count,
    CountOrNone,
    File,
    Folder,
    Headers,
    Name,
    OnBadRow,
    Positive,
    Price,
    Reference,
    Seconds,
    Statuses,
    Text,
    Texts,
    Truth,
    Wait,
    WhenDurable,
    Whole,
)


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetShape(Section):
    """Where the rows are, and how they are read."""

    path: File | None = Field(default=None, description="The file, relative to this one.")
    python: Reference | None = Field(default=None, description="A function that returns the rows.")
    id: Text | None = Field(default=None, description="The column of the ids.")
    input: Text | None = Field(default=None, description="The column of what is asked.")
    expected: Text | None = Field(default=None, description="The column of the expected answer.")
    on_bad_row: OnBadRow = Field(
        default="raise", description="What to do about a row that is no good."
    )
    limit: Count | None = Field(default=None, description="Take the first so many.")
    sample: Count | None = Field(default=None, description="Take so many, chosen by the seed.")
    shuffle: Truth = Field(default=False, description="Take them in an order chosen by the seed.")
    seed: Whole = Field(default=0, description="Which shuffle, which sample.")
    sheet: Text | None = Field(default=None, description="The sheet of an .xlsx file.")


class RemoteShape(Section):
    """What calls to a server have in common."""

    headers: Headers | None = Field(
        default=None, description="What else is sent; values are secrets: ${NAME}."
    )
    connect_timeout: Seconds | None = Field(default=None, description="Until a connection.")
    first_byte_timeout: Seconds | None = Field(default=None, description="Until it answers.")
    between_bytes_timeout: Seconds | None = Field(
        default=None, description="From one piece of the answer to the next."
    )
    timeout: Seconds | None = Field(default=None, description="For all of it.")
    max_response_mb: Positive | None = Field(default=None, description="The largest answer.")


class NatShape(RemoteShape):
    """An agent of the NeMo Agent Toolkit, served by `nat serve`."""

    endpoint: Text = Field(description="Where it is served: http://localhost:8000.")
    path: Text | None = Field(default=None, description="What is called there: /generate/full.")
    input_key: Text | None = Field(default=None, description="The name of its parameter.")


class HttpShape(RemoteShape):
    """A server that answers with JSON."""

    url: Text = Field(description="Where it is; may hold placeholders: {{column}}.")
    method: Text | None = Field(default=None, description="GET, POST, PUT, PATCH or DELETE.")
    body: Any = Field(default=None, description="What is sent, with placeholders.")
    answer: Text | None = Field(default=None, description="A JSONPath to the answer.")
    statuses: Statuses | None = Field(default=None, description="Those that are a success.")


class DependsOnShape(Section):
    """What results depend on that the code does not show."""

    files: Texts | None = Field(
        default=None, description="Files that are read, relative to this one; * and ** match many."
    )
    env: Texts | None = Field(default=None, description="Variables, by their values.")
    packages: Texts | None = Field(default=None, description="Packages, by their versions.")


class WorkflowShape(Section):
    """What is evaluated. Each kind of workflow has a key of its own, and exactly one is given."""

    python: Reference | None = Field(default=None, description="A function or class: module:name.")
    nat: NatShape | None = Field(default=None, description="An agent that `nat serve` serves.")
    http: HttpShape | None = Field(default=None, description="A server that answers with JSON.")
    version: Text | None = Field(default=None, description="What it is, in place of its code.")
    depends_on: DependsOnShape | None = Field(
        default=None, description="What its answers depend on that its code does not show."
    )


class PaceShape(Section):
    """How many calls are made at once."""

    concurrency: Concurrency | None = Field(
        default=None, description="Calls in flight; auto: what is taken."
    )
    max_concurrency: Count | None = Field(
        default=None, description="With auto, the most in flight."
    )


class BackoffShape(Section):
    """How long a failed call waits before it is tried again."""

    base: Wait | None = Field(default=None, description="The first wait is up to this long.")
    cap: Wait | None = Field(default=None, description="No wait is longer.")


class RetryShape(Section):
    """How often a call is tried again."""

    max_retries: CountOrNone | None = Field(default=None, description="How often after a failure.")
    max_timeouts: CountOrNone | None = Field(
        default=None, description="How often after a time-out."
    )
    backoff: BackoffShape | None = None


class OutputShape(Section):
    """What is written, and where."""

    dir: Folder | None = Field(
        default=None, description="The run's directory, relative to this file."
    )
    durability: WhenDurable | None = Field(
        default=None, description="When a result counts as on disk."
    )
    bare: Truth | None = Field(
        default=None, description="Write workflow_output.json as outputs alone."
    )
    trace_filter: Texts | None = Field(
        default=None, description="Which types of events of a trace are kept."
    )
    mask: Truth | None = Field(
        default=None,
        description="Mask secrets in answers, scores and errors on disk; true unless said.",
    )


class PriceShape(Section):
    """What a million tokens of one model cost, in any currency."""

    prompt: Price | None = Field(default=None, description="Tokens that go in.")
    completion: Price | None = Field(default=None, description="Tokens that come out.")
    cached: Price | None = Field(default=None, description="Tokens that were known already.")


class Shape(Section):
    """An evaluation: a dataset, a workflow, and evaluators that score what comes out."""

    name: Name | None = Field(default=None, description="What the evaluation is called.")
    dataset: DatasetShape = Field(description="The rows.")
    filter: dict[str, Any] | None = Field(
        default=None, description="Which rows to keep, by column."
    )
    workflow: WorkflowShape = Field(description="What is evaluated.")
    trials: Count = Field(default=1, description="How often each item is asked.")
    evaluators: dict[str, Any] | None = Field(default=None, description="What scores it, by name.")
    pace: PaceShape = Field(default=PaceShape(), description="Calls at once.")
    retry: RetryShape = Field(default=RetryShape(), description="Tries after a failure.")
    timeout: Seconds | None = Field(
        default=None, description="Seconds an attempt may take; or 90s, 2m."
    )
    early_stop: Truth | None = Field(
        default=None, description="Stop if the first items all fail alike; true."
    )
    prices: dict[str, PriceShape] | None = Field(
        default=None, description="What a million tokens cost, by model; * for all others."
    )
    output: OutputShape = Field(default=OutputShape(), description="The run's directory.")
