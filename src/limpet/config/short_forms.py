"""Which long form does a short form stand for?"""

from typing import Any

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
