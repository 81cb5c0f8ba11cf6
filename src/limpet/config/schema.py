"""What is the JSON schema of `eval.yml`?

The long forms come from the models, the arguments of built-in evaluators from their signatures. The
short forms are added as alternatives.
"""

import inspect
from collections.abc import Callable
from typing import Any, Literal

from pydantic import create_model

from limpet.config.evaluators import JUDGES, keys_of
from limpet.config.model import VARIABLE, EvalFile, ModelSection, PythonEvaluator, ScaleSection
from limpet.config.overrides import SHORT_FOR, SHORT_KINDS
from limpet.evaluators.coerce import BUILT_INS
from limpet.evaluators.judge_prompt import READY

_MODEL_NAMES = {
    "description": "A model under models, or several: a jury.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}
_IN_FILES: dict[str, Any] = {
    "prompt": str,
    "prompt_file": str,
    "against": str,
    "of": Literal[tuple(READY)],
}
"""The keys of a judge that a file writes differently from its constructor."""
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of `eval.yml`, with the short and the long form of every key."""
    schema = _without_null(EvalFile.model_json_schema())
    keys, sections = schema["properties"], schema["$defs"]
    for section, key in SHORT_FOR.items():
        kinds = keys[section].pop("anyOf", None) or [{"$ref": keys[section].pop("$ref")}]
        short = sections[kinds[0]["$ref"].rpartition("/")[2]]["properties"][key]
        keys[section]["anyOf"] = [_bare(short), *kinds]
    kinds = sections["WorkflowSection"]["properties"]
    for kind in SHORT_KINDS:
        long, short = kinds[kind].pop("$ref"), [{"type": "string", "minLength": 1}]
        if kind == "command":
            short.append({"type": "array", "items": {"type": "string"}, "minItems": 1})
        kinds[kind]["anyOf"] = [*short, {"$ref": long}]
    nat = sections["OutputSection"]["properties"]["nat"]
    nat["anyOf"] = [{"type": "boolean"}, {"$ref": nat.pop("$ref")}]
    rows = sections["DatasetSection"]["properties"]
    rows["filter"] = {"description": rows["filter"]["description"], "anyOf": _filters()}
    keys["evaluators"] = {
        "description": keys["evaluators"]["description"],
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_-]*$"},
        "additionalProperties": {"anyOf": _evaluators()},
    }
    keys["models"] = {
        "description": keys["models"]["description"],
        "type": "object",
        "additionalProperties": {"anyOf": _models()},
    }
    return {"$schema": _DRAFT, **schema, "title": "Limpet eval.yml"}


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("default", "title")}


def _without_null(schema: Any) -> Any:
    """Remove what Pydantic adds to each optional key: the alternative null, and titles."""
    if isinstance(schema, list):
        return [_without_null(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {
        key: _without_null(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and not value)
    }
    rest = [kind for kind in cleaned.get("anyOf", ()) if kind != {"type": "null"}]
    if "anyOf" in cleaned and len(rest) < len(cleaned["anyOf"]):
        del cleaned["anyOf"]
        cleaned |= rest[0] if len(rest) == 1 else {"anyOf": rest}
    return cleaned


def _filters() -> list[dict[str, Any]]:
    value = {"type": ["string", "number", "boolean", "null"]}
    columns = {
        "type": "object",
        "additionalProperties": {"anyOf": [value, {"type": "array", "items": value}]},
    }
    sides = {"allow": columns, "deny": columns}
    return [columns, {"type": "object", "properties": sides, "additionalProperties": False}]


def _evaluators() -> list[dict[str, Any]]:
    own = _without_null(PythonEvaluator.model_json_schema())
    del own["$defs"]  # the workflow defines them, too
    return [
        {"enum": list(BUILT_INS), "description": "A built-in evaluator."},
        {"type": "string", "pattern": r":|\$\{", "description": "Your own: module:name."},
        own,
        *(_created(kind, create, "type") for kind, create in BUILT_INS.items()),
        *(_created(kind, create, kind) for kind, create in JUDGES.items()),
    ]


def _models() -> list[dict[str, Any]]:
    return [
        {"type": "string", "pattern": r":|\$\{", "description": "Your own: module:name."},
        _without_null(ModelSection.model_json_schema()),
    ]


def _created(kind: str, create: Callable[..., Any], key: str) -> dict[str, Any]:
    """Return the schema of an evaluator.

    Args:
        kind: Its name.
        create: Its constructor.
        key: The key of its kind: `type`, or that of a judge.
    """
    parameters = inspect.signature(create).parameters
    fields: dict[str, Any] = {
        name: (_IN_FILES[name], None) if name in _IN_FILES else (parameters[name].annotation, None)
        for name in keys_of(create)
    }
    schema = create_model(kind, **fields).model_json_schema()
    arguments = {
        name: {"anyOf": [_bare(argument), VARIABLE]}
        for name, argument in schema.get("properties", {}).items()
    }
    return {
        "type": "object",
        "description": (inspect.getdoc(create) or kind).splitlines()[0],
        "properties": {
            key: {"const": kind} if key == "type" else _MODEL_NAMES,
            **arguments,
            **_without_null(ScaleSection.model_json_schema())["properties"],
        },
        "required": [key],
        "additionalProperties": False,
    }
