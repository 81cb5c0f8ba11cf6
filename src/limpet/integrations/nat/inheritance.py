"""What does `base: other.yml` bring in?

As in the toolkit, the file named is read first, and this one laid over it: mappings are merged, all
else is replaced. Each value keeps the file and line it came from.
"""

from pathlib import Path
from typing import Any

from limpet.config.environment import shown
from limpet.config.errors import refuse
from limpet.config.yaml_file import KeyPath, Tree, read_text, read_tree
from limpet.text import one_line


def read_with_base(file: Path, name: str, text: str, above: tuple[Path, ...] = ()) -> Tree:
    """Read a configuration and what it is based on.

    Args:
        file: The file.
        name: What the user calls it.
        text: What it holds.
        above: The files that are based on it.

    Raises:
        ConfigError: One of them cannot be read, or is based on itself.
    """
    tree = read_tree(text, name)
    if not isinstance(tree.data, dict):
        refuse(tree.place(()), f"must be a mapping of keys to values, not {shown(tree.data)}")
    named = tree.data.pop("base", None)
    if named is None:
        return tree
    place = tree.place(("base",))
    if not isinstance(named, str) or not named.strip():
        refuse(place, f"base: must be the path of a file, not {shown(named)}")
    seen = (*above, file.resolve())
    base = file.parent / named
    if base.resolve() in seen:
        refuse(place, f"base: {one_line(named)} is based on this file", "take one of them out")
    if not base.is_file():
        hint = "the path starts at the folder of this file"
        refuse(place, f"base: {one_line(named)} does not exist", hint)
    below_name = one_line(str(Path(name).parent / named))
    below = read_with_base(base, below_name, read_text(base, below_name), seen)
    _lay_over(below, tree, (), below.data, tree.data)
    below.shown = tree.shown
    return below


def _lay_over(below: Tree, tree: Tree, path: KeyPath, under: Any, over: Any) -> None:
    for key, value in over.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(under.get(key), dict):
            below.keys[here], below.values[here] = tree.keys[here], tree.values[here]
            _lay_over(below, tree, here, under[key], value)
            continue
        below.forget(here)
        under[key] = value
        for old, new in (
            (below.keys, tree.keys),
            (below.values, tree.values),
        ):
            old.update({one: place for one, place in new.items() if one[: len(here)] == here})
        words = tree.written.items()
        below.written.update({one: word for one, word in words if one[: len(here)] == here})
