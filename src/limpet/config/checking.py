"""Is every key known, and every value valid?"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Never, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from limpet.config.environment import Substituted, is_from_environment, shown
from limpet.config.errors import Findings, KeyPath, named
from limpet.config.imports import BadReferenceError
from limpet.config.model import (
    FOR_A_RATE,
    PROVIDERS,
    EvalFile,
    PromptSection,
    Section,
    WorkflowSection,
    workflow_section,
)
from limpet.config.yaml_file import read_scalar
from limpet.run.options import too_few
from limpet.run.results.score_words import split_name
from limpet.secrets.known import is_secret_key
from limpet.text import hint_near, nearest, one_line, quoted, text_of

S = TypeVar("S", bound=Section)
_MAY_HOLD_KEYS = ("url", "endpoint", "path")
_KINDS = {
    "dataset": ("path", "python"),
    "workflow": ("python", "nat", "http", "command", *PROVIDERS),
}
_EXAMPLES = {
    "dataset": "dataset: questions.jsonl",
    "workflow": "workflow: app:answer",
    "endpoint": "workflow: {nat: http://localhost:8000}",
    "url": "workflow: {http: http://localhost:8000/ask}",
    "argv": "workflow: {command: python agent.py}",
    "script": "script: report.py",
    "function": "function: module:name",
}
# Pydantic's error types, and what the value must be.
_MUST = {
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode",
    "string_pattern_mismatch": "must not be empty",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "literal_error": "must be {expected}",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "value_error": "{error}",
}
_TRUTHS = {"yes": "true", "on": "true", "no": "false", "off": "false"}


def check_keys(data: dict[str, Any], findings: Findings) -> EvalFile | None:
    """Check a configuration in its long form; return None where something is wrong."""
    for section, kinds in _KINDS.items():
        given = data.get(section)
        if not isinstance(given, dict) or workflow_section(given) is PromptSection:
            continue  # missing, or a prompt: reported elsewhere
        misspelt = any(nearest(key, kinds) for key in given if key not in kinds)
        if not only_one(kinds, given, (section,), findings) and not misspelt:
            findings.add((section,), f"needs {' or '.join(kinds)}", f"write {_EXAMPLES[section]}")
    content = checked(EvalFile, data, (), findings)
    if content is not None:
        _check_together(content, findings)
    return content


def _check_together(content: EvalFile, findings: Findings) -> None:
    """Report values that contradict each other."""
    pace, backoff = content.pace, content.retry.backoff
    flow = content.workflow
    if isinstance(flow, WorkflowSection) and flow.args is not None and flow.python is None:
        hint = "others have their own: body for http, input_key for nat, argv for command"
        findings.add(("workflow", "args"), "works only with python", hint)
    for name in content.stop_when or ():
        if split_name(name, content.evaluators or {}) is None:
            known = list(content.evaluators or {})
            hint = hint_near(name, known) or f"known here: {', '.join(known) or 'none'}"
            text = f"stop_when: unknown evaluator {quoted(name)}"
            findings.add_key(("stop_when", name), text, hint)
    if flaw := too_few(pace.concurrency, pace.max_concurrency):
        findings.add(("pace", "max_concurrency"), flaw, "it is the limit of concurrency: auto")
    base, cap = (backoff.base, backoff.cap) if backoff else (None, None)
    if base is not None and cap is not None and cap < base:
        text = f"must be at least base, {base:g}, not {cap:g}"
        findings.add(("retry", "backoff", "cap"), text, "cap is the longest wait")


def checked(kind: type[S], data: dict[str, Any], at: KeyPath, findings: Findings) -> S | None:
    """Return a section of the file; if it is invalid, report why and return None."""
    try:
        return kind.model_validate(data)
    except ValidationError as refused:
        errors = refused.errors(include_url=False)
    extra = [error["loc"] for error in errors if error["type"] == "extra_forbidden"]
    known = {path: _keys_at(kind, path[:-1], data) for path in extra}
    meant = {(*path[:-1], nearest(str(path[-1]), keys)) for path, keys in known.items()}
    for error in errors:
        inner, path = error["loc"], at + error["loc"]
        if inner in known:
            findings.add_key(path, *unknown_key(path, known[inner]))
        elif error["type"] != "missing":
            # The value as written: Pydantic may show what a variable holds.
            _report_value(error, path, _value_at(inner, data), findings)
        elif inner not in meant:  # else an unknown key is this one, misspelt
            text = "is empty" if path in findings.tree.values else f"{path[-1]} is missing"
            findings.add(path, text, f"write {_EXAMPLES[str(path[-1])]}")
    return None


def only_one(
    keys: Sequence[str], given: Mapping[str, Any], path: KeyPath, findings: Findings
) -> list[str]:
    """Return the one of some keys that is given; report several."""
    found = [key for key in keys if key in given]
    if found[1:]:
        text = f"cannot be used with {found[0]}: keep one of {' and '.join(found)}"
        findings.add((*path, found[1]), text)
    return found


def _value_at(path: KeyPath, data: Any) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else data[part]
    return data


def _keys_at(section: type[Section], path: KeyPath, data: Any) -> list[str]:
    """Return the keys of the section at a path."""
    if section is EvalFile and path[:1] == ("workflow",):
        section, path = workflow_section(data["workflow"]), path[1:]
    for part in path:
        if field := section.model_fields.get(str(part)):
            section = _section_in(field.annotation) or section
    return [field.alias or name for name, field in section.model_fields.items()]


def _section_in(kind: Any) -> type[Section] | None:
    if isinstance(kind, type) and issubclass(kind, Section):
        return kind
    return next(filter(None, map(_section_in, get_args(kind))), None)


def _report_value(error: ErrorDetails, path: KeyPath, value: Any, findings: Findings) -> None:
    kind, context = error["type"], error.get("ctx", {})
    bounds = {name: _whole(bound) for name, bound in context.items()}
    must = error["msg"] if kind in ("must", "flaw") else _MUST[kind].format(**bounds)
    if kind == "literal_error":
        must = must.replace("'", "")
    if kind == "flaw":
        whose = shown(value) if isinstance(value, Substituted) else "its value"
        findings.add(path, f"{whose} {must}", context.get("flaw_hint"))
    elif any(is_secret_key(str(part)) for part in path):
        must += f", not {shown(value)}" if isinstance(value, Substituted) else ""
        findings.add(path, must, "put it in quotes" if kind == "string_type" else None)
    elif kind == "string_pattern_mismatch":
        findings.add(path, must)
    else:
        is_string = kind == "string_type"
        hint = _string_hint(path, value, findings) if is_string else _hint(kind, value, context)
        findings.add(path, f"{must}, not {shown(value)}", hint)


def report_argument(
    kind: str,
    error: Exception,
    arguments: Mapping[str, Any],
    path: KeyPath,
    findings: Findings,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Never | None:  # noqa: RUF020 - else mypy lets nobody return it
    """Report a constructor's error on the line of the argument that it names.

    Args:
        kind: The evaluator or workflow.
        error: The exception of its constructor.
        arguments: Its arguments, as in the file.
        path: Its path in the file.
        findings: Collects the problems.
        names: Arguments that have another name in the file, with that name.
    """
    argument = getattr(error, "argument", "")
    name = names.get(argument, argument)
    is_given = name in arguments
    flaw = getattr(error, "flaw", "") if is_given else text_of(error)
    text, _, near = flaw.replace("must be a dict", "must be a mapping").partition("; did you mean ")
    hint = f"did you mean {near}" if near else getattr(error, "hint", None)
    value = arguments[name] if is_given else dict(arguments)
    is_whole = is_given and not getattr(error, "is_part", False) and name not in _MAY_HOLD_KEYS
    if isinstance(value, Substituted) or is_whole:
        text = _text_about(value, text)
    elif is_from_environment(value):
        text, hint = f"{kind} rejects a value from the environment", None
    if text.startswith("must be a string"):
        hint = _string_hint((*path, name), value, findings)
    return findings.add((*path, name) if is_given else path, one_line(text), hint)


def _text_about(value: Any, text: str) -> str:
    """Return a message with the value, but never one from the environment."""
    text = text.replace("True or False", "true or false")
    if value and isinstance(value, (dict, list)):
        return text
    if isinstance(value, Substituted):
        text = text.partition(": ")[0]  # what follows may quote it
    return f"{text}, not {shown(value)}" if text.startswith("must") else f"{shown(value)} {text}"


def _whole(bound: Any) -> Any:
    """Return a bound as people write it: 0, not 0.0."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _hint(kind: str, value: Any, context: dict[str, Any]) -> str | None:
    if isinstance(refused := context.get("error"), BadReferenceError):
        return refused.hint
    if kind == "list_type" and type(value) in (str, int):
        return f"for example [{one_line(value)}]"
    if kind == "bool_type" and (meant := _TRUTHS.get(str(value).lower())):
        return f"did you mean {meant}?"
    if kind == "literal_error" and isinstance(value, str):
        return hint_near(value, re.findall("'([^']+)'", context["expected"]))
    if type(value) is str and isinstance(read_scalar(value), (int, float)):
        return f"leave the quotes out: {one_line(value)}"
    return context.get("hint")


_MEANT = {"where": "filter", "early_stop": "fail_fast", "failed": "retry_failed"}
"""Names in `limpet show`, and former names."""


def unknown_key(path: KeyPath, known: list[str]) -> tuple[str, str]:
    """Return the message for an unknown key, and a hint with the closest known one."""
    key = str(path[-1])
    here = f"(known here: {', '.join(known)})"
    text = f"{named(path[:-1])}unknown key {quoted(key)}"
    if near := _MEANT.get(key) if _MEANT.get(key) in known else nearest(key, known):
        return text, f"did you mean {quoted(near)}?  {here}"
    is_in_section = len(path) == 2 and path[0] in EvalFile.model_fields  # noqa: PLR2004
    meant = _MEANT.get(key, key)
    if is_in_section and meant in EvalFile.model_fields:
        return text, f"{quoted(meant)} belongs at the top level of the file  {here}"
    if path[:-1] == ("pace",):
        return text, f"{FOR_A_RATE}  {here}"
    return text, here.strip("()")


def _string_hint(path: KeyPath, value: Any, findings: Findings) -> str | None:
    """Return a hint for a word that YAML does not read as a string."""
    written = findings.tree.written.get(findings.tree.known(path))
    if not written or isinstance(value, Substituted):
        return None
    kind = "a boolean" if isinstance(value, bool) else "a number"
    return f"YAML reads {written} as {kind}: for the string, put it in quotes, '{written}'"
