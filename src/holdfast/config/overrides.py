"""What does `--set path=value` change?

A value is read as YAML and put where the path says before the environment is looked at: so it may
take the place of a variable that is not set. Where the path goes below a short form, that is
written out first: `pace: auto` and `--set pace.max_concurrency=8` go together.
"""

from typing import Any

from holdfast.config.forms import SHORT_FOR, long_evaluator, long_form, long_kind
from holdfast.config.problems import Place, quoted, refuse
from holdfast.config.tree import Path, Tree, read_tree
from holdfast.text import one_line


def override(tree: Tree, text: str, place: Place | None = None) -> None:
    """Put what a `--set` says into the tree.

    Args:
        tree: What the file holds; changed in place.
        text: What stood after `--set`.
        place: What messages call it; None: `--set` and the text.

    Raises:
        ConfigError: It is no `path=value`, or leads nowhere.
    """
    place = place or Place(f"--set {one_line(text)}")
    name, equals, value = text.partition("=")
    path = tuple(part.strip() for part in name.split("."))
    if not equals or not all(path):
        refuse(place, "must be path=value", "for example --set trials=3 --set pace.concurrency=8")
    made = read_tree(value, str(place), place)
    holder = _holder(tree, path, place)
    tree.forget(path)
    holder[path[-1]] = made.data
    for depth in range(1, len(path) + 1):
        tree.keys.setdefault(path[:depth], place)
        tree.values.setdefault(path[:depth], place)
    for inner in made.values:
        tree.values[path + inner] = tree.keys[path + inner] = place
    tree.written.update({path + inner: word for inner, word in made.written.items()})


def _holder(tree: Tree, path: Path, place: Place) -> dict[Any, Any]:
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


def _written_out(path: Path, value: Any) -> Any:
    if value is None:
        return {}
    if len(path) == 1 and path[0] in SHORT_FOR:
        return long_form(str(path[0]), value)
    if len(path) == 2 and path[0] == "evaluators":  # noqa: PLR2004 - an evaluator by its name
        return long_evaluator(value)
    if len(path) == 2 and path[0] == "workflow":  # noqa: PLR2004 - a kind of workflow
        return long_kind(str(path[1]), value)
    return value
