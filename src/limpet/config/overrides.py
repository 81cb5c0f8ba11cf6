"""What does `--set path=value` change, and which short forms does a file have?

A value is read as YAML and set before the environment is substituted, so it may replace a variable
that is not set. A path below a short form expands it first: `pace: auto` and
`--set pace.max_concurrency=8` work together.
"""

import re
from collections.abc import Mapping
from typing import Any

from limpet.config.errors import KeyPath, Location, Tree, refuse
from limpet.config.matrix import MATRIX
from limpet.config.model import PROVIDERS
from limpet.config.yaml_file import read_tree
from limpet.errors import ConfigError
from limpet.secrets.in_configs import may_show
from limpet.text import one_line, quoted

# ---- What is the long form of a short form? -----------------------------------------------------

SHORT_FOR = {
    "dataset": "path",
    "workflow": "python",
    "pace": "concurrency",
    "retry": "max_retries",
    "run": "path",
}
"""Each section, and the key that a plain value sets."""
SHORT_KINDS = {"nat": "endpoint", "http": "url", "command": "argv"}
"""Each kind of workflow, and the key that a plain value sets."""


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
        return with_providers(value) if isinstance(value, dict) else value
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
    output = content.get("output")
    if isinstance(output, dict) and isinstance(output.get("nat"), bool):
        content["output"] = {**output, "nat": {} if output["nat"] else None}
    return content


def without_empty(data: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping without its null values. An empty key is an error, and stays."""
    return {
        name: value
        for name, value in with_providers(data).items()
        if value is not None and (name == "key" or getattr(value, "read", value) is not None)
    }


def with_providers(data: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping with True for a provider without an address: `anthropic:` means its own."""
    return {
        name: True if value is None and name in PROVIDERS and name != "openai" else value
        for name, value in data.items()
    }


# Without `=`, the rest may still be a value.
_PATH = re.compile(r"(?P<path>[^\s=:]*)[\s=:]*(?P<value>.*)", re.DOTALL)


# ---- What does `--set path=value` change? -------------------------------------------------------


def override(tree: Tree, text: str, location: Location | None = None) -> None:
    """Apply a `--set` to the tree.

    Args:
        tree: The content of the file; changed in place.
        text: The value of `--set`.
        location: Its location in messages; default: `--set` and the text, without secrets.

    Raises:
        ConfigError: It is not `path=value`, or the path cannot be set.
    """
    name, equals, value = text.partition("=")
    location = location or Location(f"--set {one_line(shown_setting(text))}")
    path = tuple(part.strip() for part in name.split("."))
    if not equals or not all(path):
        refuse(
            location, "must be path=value", "for example --set trials=3 --set pace.concurrency=8"
        )
    set_value(tree, path, _read(name, value, location), location)


def set_value(tree: Tree, path: KeyPath, value: Tree, location: Location) -> None:
    """Set a value in the tree, or replace it.

    Args:
        tree: The content of the file; changed in place.
        path: The value's path.
        value: The value, and the locations of its parts.
        location: The location of the path in messages.

    Raises:
        ConfigError: The path cannot be set.
    """
    holder = _holder(tree, path, location)
    tree.forget(path)
    holder[path[-1]] = value.data
    for depth in range(1, len(path) + 1):
        tree.keys.setdefault(path[:depth], location)
        tree.values.setdefault(path[:depth], location)
    for inner, inner_location in value.values.items():
        tree.values[path + inner] = tree.keys[path + inner] = inner_location
    tree.written.update({path + inner: word for inner, word in value.written.items()})


def set_variant(tree: Tree, values: Mapping[str, Any]) -> None:
    """Set the values of one variant in the tree, and remove its matrix."""
    axes = tree.data.pop(MATRIX, None)
    for name, value in values.items():
        listed = axes.get(name) if isinstance(axes, dict) else None
        if isinstance(listed, list) and value in listed:
            at: KeyPath = (MATRIX, name, listed.index(value))
            given = tree.below(at, value)
        else:  # recorded by a run, and no longer in the file
            at, given = (MATRIX, name), Tree(value, tree.shown)
        set_value(tree, tuple(name.split(".")), given, tree.location(at))


def shown_setting(text: str) -> str:
    """Return a `path=value` for messages: only the path if the value may be a secret."""
    parts = _PATH.fullmatch(text)
    return text if parts is None or may_show(parts["path"], parts["value"]) else parts["path"]


def _read(name: str, value: str, location: Location) -> Tree:
    try:
        return read_tree(value, str(location), location)
    except ConfigError:
        if may_show(name, value):
            raise
        # The error of PyYAML may quote the value.
        text = f"{location}: the value cannot be read as YAML"
        raise ConfigError(text, hint="put quotes around it, inside the shell's quotes") from None


def _holder(tree: Tree, path: KeyPath, location: Location) -> dict[Any, Any]:
    """Return the mapping that holds the last part of a path, creating missing ones."""
    here = tree.data
    for depth, part in enumerate(path[:-1], 1):
        below = _expanded(path[:depth], here.get(part))
        if not isinstance(below, dict):
            named = quoted(".".join(map(str, path[:depth])))
            refuse(location, f"{named} has no keys to set")
        here[part] = below = dict(below)  # an alias elsewhere keeps its value
        here = below
    return here  # type: ignore[no-any-return]  # a mapping, all the way down


def _expanded(path: KeyPath, value: Any) -> Any:
    if value is None:
        return {}
    if len(path) == 1 and path[0] in SHORT_FOR:
        return long_form(str(path[0]), value)
    if len(path) == 2 and path[0] == "evaluators":  # noqa: PLR2004 - an evaluator by its name
        return long_evaluator(value)
    if len(path) == 2 and path[0] == "models":  # noqa: PLR2004 - a model by its name
        return long_model(value)
    if len(path) == 2 and path[0] == "workflow":  # noqa: PLR2004 - a kind of workflow
        return long_kind(str(path[1]), value)
    return value
