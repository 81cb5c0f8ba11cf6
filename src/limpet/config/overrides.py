"""What does `--set path=value` change?

A value is read as YAML and put where the path says before the environment is looked at: so it may
take the place of a variable that is not set. Where the path goes below a short form, that is
written out first: `pace: auto` and `--set pace.max_concurrency=8` go together.
"""

import re
from typing import Any

from limpet.config.errors import Place, quoted, refuse
from limpet.config.short_forms import SHORT_FOR, long_evaluator, long_form, long_kind
from limpet.config.yaml_file import KeyPath, Tree, read_tree
from limpet.errors import ConfigError
from limpet.secrets.in_configs import may_show
from limpet.text import one_line

# Without a sign, what follows the path may still be a value.
_PATH = re.compile(r"(?P<path>[^\s=:]*)[\s=:]*(?P<value>.*)", re.DOTALL)


def override(tree: Tree, text: str, place: Place | None = None) -> None:
    """Put what a `--set` says into the tree.

    Args:
        tree: What the file holds; changed in place.
        text: What stood after `--set`.
        place: What messages call it; None: `--set` and the text, without a value that is secret.

    Raises:
        ConfigError: It is no `path=value`, or leads nowhere.
    """
    name, equals, value = text.partition("=")
    place = place or Place(f"--set {one_line(shown_setting(text))}")
    path = tuple(part.strip() for part in name.split("."))
    if not equals or not all(path):
        refuse(place, "must be path=value", "for example --set trials=3 --set pace.concurrency=8")
    made = _read(name, value, place)
    holder = _holder(tree, path, place)
    tree.forget(path)
    holder[path[-1]] = made.data
    for depth in range(1, len(path) + 1):
        tree.keys.setdefault(path[:depth], place)
        tree.values.setdefault(path[:depth], place)
    for inner in made.values:
        tree.values[path + inner] = tree.keys[path + inner] = place
    tree.written.update({path + inner: word for inner, word in made.written.items()})


def shown_setting(text: str) -> str:
    """Return what may be shown of a `path=value`: the path alone, if the value is a secret."""
    parts = _PATH.fullmatch(text)
    return text if parts is None or may_show(parts["path"], parts["value"]) else parts["path"]


def _read(name: str, value: str, place: Place) -> Tree:
    try:
        return read_tree(value, str(place), place)
    except ConfigError:
        if may_show(name, value):
            raise
        # YAML's complaint may quote what it complains of.
        text = f"{place}: the value cannot be read as YAML"
        raise ConfigError(text, hint="put quotes around it, inside those of the shell") from None


def _holder(tree: Tree, path: KeyPath, place: Place) -> dict[Any, Any]:
    """Return the mapping that the last part of a path stands in; made where there is none."""
    here = tree.data
    for depth, part in enumerate(path[:-1], 1):
        below = _written_out(path[:depth], here.get(part))
        if not isinstance(below, dict):
            named = quoted(".".join(map(str, path[:depth])))
            refuse(place, f"{named} has nothing below it that could be set")
        here[part] = below = dict(below)  # an alias elsewhere keeps what it had
        here = below
    return here  # type: ignore[no-any-return]  # a mapping, all the way down


def _written_out(path: KeyPath, value: Any) -> Any:
    if value is None:
        return {}
    if len(path) == 1 and path[0] in SHORT_FOR:
        return long_form(str(path[0]), value)
    if len(path) == 2 and path[0] == "evaluators":  # noqa: PLR2004 - an evaluator by its name
        return long_evaluator(value)
    if len(path) == 2 and path[0] == "workflow":  # noqa: PLR2004 - a kind of workflow
        return long_kind(str(path[1]), value)
    return value
