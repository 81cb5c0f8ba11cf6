"""What may the values in an `eval.yml` be?

`checking` turns Pydantic's errors into plain messages.
"""

import re
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

from limpet.config.environment import Substituted, typed
from limpet.config.imports import checked_reference
from limpet.datasets.csv_files import flaw_of_delimiter, flaw_of_encoding
from limpet.engines.spec import as_engine
from limpet.fingerprints.steps import flaw_of_variable
from limpet.secrets.known import flaw_of_declared
from limpet.transport.address import flaw_of_header
from limpet.types import Scale

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


class Must:
    """Replaces what Pydantic says about a value by one message."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(kind), custom_error_type="must", custom_error_message=self._message
        )


def _flaw_of_name(name: str) -> str | None:
    fits = name.strip() == name and name not in ("", ".", "..") and name.isprintable()
    if fits and not set("/\\") & set(name) and len(name.encode()) <= _LONGEST_NAME:
        return None
    return "must be usable as the name of a directory: no '/', '\\' or line breaks"


def _flaw_of_path(path: str) -> str | None:
    return None if path.strip() and "\0" not in path else "must be a path"


def _seconds(value: Any) -> Any:
    given = typed(value)
    time = _TIME.fullmatch(given) if isinstance(given, str) else None
    return given if time is None else float(time[1]) * _SECONDS[time[2]]


def _without(flaw_of: Callable[[str], str | None], kind: str = "must") -> AfterValidator:
    """Return the check that a value has no flaw."""

    def check(value: str) -> str:
        if flaw := flaw_of(value):
            raise PydanticCustomError(kind, "{flaw}", {"flaw": flaw})
        return value

    return AfterValidator(check)


def _secrets(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    # By hand: for Pydantic, 0 is False, and would turn masking off.
    if typed(value) is False:
        return False
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return check(value)
    raise ValueError("must be false, or a list of strings")


def _variable(value: Any) -> Any:
    # Of `${NAME}`, the name was meant, not what it holds.
    name = value.written if isinstance(value, Substituted) else value
    if isinstance(name, str) and (flaw := flaw_of_variable(name)):
        raise ValueError(flaw)
    return value


def _secret_key(value: Any) -> Any:
    # The value of a variable, and nothing else: the file is kept with the run, and shared.
    if isinstance(value, str) and not isinstance(value, Substituted):
        hint = "write key: ${OPENAI_API_KEY}, and set that variable in the environment"
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
Megabytes = Annotated[float, Field(gt=0, allow_inf_nan=False), _OrVariable()]
HalfWidth = Annotated[float, Field(gt=0, allow_inf_nan=False), _OrVariable()]
OnBadRow = Annotated[Literal["raise", "skip"], _OrVariable()]
Durability = Annotated[Literal["sync", "flush"], _OrVariable()]
ReplyMode = Annotated[Literal["auto", "schema", "tool", "text", "decision"], _OrVariable()]
OnChange = Annotated[Literal["redo", "keep"], _OrVariable()]
Secrets = Annotated[
    list[Annotated[str, _without(flaw_of_declared)]],
    WrapValidator(_secrets),  # lets False through, too
    WithJsonSchema({"anyOf": [{"const": False}, {"type": "array", "items": {"type": "string"}}]}),
]
SecretKey = Annotated[
    str,
    BeforeValidator(_secret_key),
    WithJsonSchema({"type": "string", "pattern": r"\$\{", "description": "${NAME}"}),
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
Concurrency = Annotated[
    Annotated[int, Field(ge=1, le=_MOST)] | Literal["auto"],
    _OrVariable(),
    Must("must be auto or an integer of at least 1"),
]
_TIME_TEXT = {"type": "string", "pattern": rf"^{_TIME.pattern}$|\$\{{"}
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
        """Return the values that are set, without how they were written; all without names."""
        values = {name: getattr(self, name) for name in names or self.model_fields_set}
        return {
            name: str(value) if isinstance(value, str) else typed(value)
            for name, value in values.items()
            if value is not None and name in self.model_fields_set
        }
