"""What does `--override PATH VALUE` change?

As in the toolkit, the value is of the kind that it takes the place of: a text stays a text, and of
a list it gives the parts between commas.
"""

import json
from typing import Any

from limpet.config.errors import Place, quoted, refuse
from limpet.config.overrides import override
from limpet.config.yaml_file import Tree
from limpet.text import did_you_mean, one_line


def apply_override(tree: Tree, path: str, value: str) -> None:
    """Put what an `--override` says into the tree.

    Raises:
        ConfigError: It leads nowhere.
    """
    # Without the value: a path that leads nowhere may be a mistyped `api_key`.
    place = Place(f"--override {one_line(path.partition('=')[0])}")
    parts = [part.strip() for part in path.split(".")]
    if "=" in path or not all(parts):
        refuse(
            place,
            "must be a path and a value",
            "for example --override eval.general.max_concurrency 4",
        )
    if parts[0] != "eval":  # what may stand there, we know; elsewhere only the toolkit does
        _check_there(tree.data, parts, place)
    override(tree, f"{path}={_as_before(_now(tree.data, parts), value)}", place)


def _check_there(data: Any, parts: list[str], place: Place) -> None:
    for part in parts:
        known = list(map(str, data)) if isinstance(data, dict) else []
        if part not in known:
            more = did_you_mean(part, known) or (f": {', '.join(known[:8])}" if known else "")
            refuse(
                place,
                f"the file has no {quoted(part)} there{more}",
                "as in the toolkit, only what is written is overridden; --set puts in what is not",
            )
        data = data[part]


def _now(data: Any, parts: list[str]) -> Any:
    for part in parts:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _as_before(now: Any, value: str) -> str:
    """Return the value as YAML of the kind that stands there now."""
    if isinstance(now, str):
        return json.dumps(value)
    if isinstance(now, list) and not value.lstrip().startswith("["):
        return json.dumps([part.strip() for part in value.split(",")])
    return value
