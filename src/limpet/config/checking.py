"""Is every key known, and every value what it must be?"""

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from limpet.config.environment import Substituted
from limpet.config.findings import Findings, named, shown
from limpet.config.model import (
    BackoffShape,
    DatasetShape,
    HttpShape,
    NatShape,
    OutputShape,
    PaceShape,
    PriceShape,
    RetryShape,
    RunShape,
    Section,
    Shape,
    WorkflowShape,
)
from limpet.config.problems import nearest, quoted
from limpet.config.scalars import read_scalar
from limpet.config.tree import Path
from limpet.text import one_line

_SECTIONS: dict[Path, type[Section]] = {
    (): Shape,
    ("dataset",): DatasetShape,
    ("workflow",): WorkflowShape,
    ("workflow", "nat"): NatShape,
    ("workflow", "http"): HttpShape,
    ("pace",): PaceShape,
    ("retry",): RetryShape,
    ("retry", "backoff"): BackoffShape,
    ("run",): RunShape,
    ("output",): OutputShape,
}
_KINDS = {"dataset": ("path", "python"), "workflow": ("python", "nat", "http")}
_EXAMPLES = {
    "dataset": "dataset: questions.jsonl",
    "workflow": "workflow: app:answer",
    "endpoint": "workflow: {nat: http://localhost:8000}",
    "url": "workflow: {http: http://localhost:8000/ask}",
}


def check_shape(data: dict[str, Any], findings: Findings) -> Shape | None:
    """Check the keys and values of a configuration in its long form.

    Args:
        data: The configuration, with the values of the environment in it.
        findings: Where to say what is wrong.

    Returns:
        The configuration, or None where something is wrong.
    """
    for section, kinds in _KINDS.items():
        _check_kind(section, kinds, data.get(section), findings)
    try:
        return Shape.model_validate(data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    meant = {_meant(one["loc"]) for one in errors if one["type"] == "extra_forbidden"}
    for one in errors:
        if one["type"] == "missing" and one["loc"] in meant:
            continue  # the unknown key beside it is this one, misspelt
        _tell(one, findings)
    return None


def _check_kind(section: str, kinds: tuple[str, ...], value: Any, findings: Findings) -> None:
    if not isinstance(value, dict):
        return  # missing: said elsewhere
    given = [kind for kind in kinds if kind in value]
    if len(given) > 1:
        both = " and ".join(given)
        findings.add((section, given[1]), f"stands beside {given[0]}: keep one of {both}")
    misspelt = any(nearest(key, kinds) for key in value if key not in kinds)
    if not given and not misspelt:
        findings.add((section,), f"needs {' or '.join(kinds)}", f"write {_EXAMPLES[section]}")


def _section_at(path: Path) -> type[Section]:
    return PriceShape if path[:1] == ("prices",) and len(path) > 1 else _SECTIONS[path]


def _meant(path: Path) -> Path:
    near = nearest(str(path[-1]), _section_at(path[:-1]).model_fields)
    return (*path[:-1], near or "")


def _tell(one: ErrorDetails, findings: Findings) -> None:
    path: Path = one["loc"]
    if one["type"] == "extra_forbidden":
        known = list(_section_at(path[:-1]).model_fields)
        return findings.add_key(path, *unknown_key(path, known))
    if one["type"] == "missing":
        text = "is empty" if path in findings.tree.values else f"{path[-1]} is missing"
        return findings.add(path, text, f"write {_EXAMPLES[str(path[-1])]}")
    refused = one.get("ctx", {}).get("error")
    must = str(refused) if refused is not None else "must be a mapping of keys to values"
    hint = getattr(refused, "hint", None) or yaml_hint(path, must, one["input"], findings)
    if path[0] != "secrets":
        must += f", not {shown(one['input'])}"
    return findings.add(path, must, hint)


def unknown_key(path: Path, known: list[str]) -> tuple[str, str]:
    """Return what to say of a key that is not known, and the hint that names the nearest."""
    key = str(path[-1])
    here = f"(known here: {', '.join(known)})"
    text = f"{named(path[:-1])}unknown key {quoted(key)}"
    if near := nearest(key, known):
        return text, f"did you mean {quoted(near)}?  {here}"
    if len(path) == 2 and key in Shape.model_fields:  # noqa: PLR2004 - of a section
        return text, f"{quoted(key)} stands at the top level of the file  {here}"
    return text, here.strip("()")


def yaml_hint(path: Path, must: str, value: Any, findings: Findings) -> str | None:
    """Return what YAML made of a word: a number of what was meant as a text, or the reverse."""
    if type(value) is str and "number" in must and isinstance(read_scalar(value), (int, float)):
        return f"leave the quotes out: {one_line(value)}"
    written = findings.tree.written.get(findings.tree.known(path))
    if must != "must be a text" or not written or isinstance(value, Substituted):
        return None
    made = "a truth value" if isinstance(value, bool) else "a number"
    return f"YAML reads {written} as {made}: for the text, put it in quotes, '{written}'"
