"""How does a configuration of the toolkit become an evaluation?

Read the YAML and its `base`, apply the command line, substitute the environment, check. Only `eval`
is ours to read. The other blocks, `workflow`, `llms`, `functions`, belong to the toolkit: they stay
as they are, and count in the fingerprint of the answers.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from limpet.config.environment import shown, substitute
from limpet.config.errors import Findings, KeyPath, Location, Tree, named, refuse
from limpet.config.file_text import read_text
from limpet.config.overrides import override
from limpet.config.yaml_file import read_tree
from limpet.integrations.nat.config import NatConfig
from limpet.integrations.nat.eval_block_reader import read_eval
from limpet.integrations.nat.flags import Flags, flags_of
from limpet.text import did_you_mean, nearest, one_line, quoted

_TOOLKIT_BLOCKS = frozenset({"llms", "functions", "function_groups", "embedders", "retrievers"})


def owns(tree: Tree) -> bool:
    """Return whether a file is the toolkit's: it has `eval` at its top level.

    Raises:
        ConfigError: It has only other blocks of the toolkit.
    """
    data = tree.data
    if not isinstance(data, dict) or "dataset" in data:
        return False
    if "eval" in data or ("base" in data and "evaluators" not in data):
        return True
    if _TOOLKIT_BLOCKS.intersection(data):
        _refuse_without_eval(tree)
    return False


def _refuse_without_eval(tree: Tree) -> NoReturn:
    for key in tree.data:
        if nearest(key, ["eval"]):
            refuse(tree.key_location((key,)), f"unknown key {quoted(key)}", "did you mean 'eval'?")
    text = "has no 'eval': this configuration of the NeMo Agent Toolkit describes no evaluation"
    refuse(Location(tree.shown, 1), text, "add eval: with a dataset and evaluators")


def load(file: Path, given: Mapping[str, Any]) -> NatConfig:
    """Read a configuration of the toolkit as the command line asks for it."""
    return load_nat_config(file, flags_of(given))


def load_nat_config(path: str | Path, flags: Flags | None = None) -> NatConfig:
    """Read a configuration of the toolkit and check it. Nothing that it names is imported yet.

    Args:
        path: The file.
        flags: The flags of the command line.

    Raises:
        ConfigError: The file is invalid. The message lists each problem with its line.
    """
    flags = flags or Flags()
    file = Path(path)
    name = one_line(str(path))
    original = read_text(file, name)
    tree = _read_with_base(file, name, original)
    notes = [
        note for where, value in flags.overrides for note in apply_override(tree, where, value)
    ]
    for text in flags.settings:
        override(tree, text)
    if flags.no_evaluators:
        override(tree, "eval.evaluators={}", Location("--no-evaluators"))
    findings = Findings(tree)

    def say(path: KeyPath, text: str, hint: str) -> None:
        findings.add(("eval", *path), text, hint, final=True)

    evaluation = read_eval(substitute(tree.data.get("eval"), say), findings, flags.dataset)
    evaluation.notes.extend(notes)
    config = NatConfig(file.parent.resolve() / file.name, tree, evaluation, flags, original)
    if config.toolkit.runs_workflow or config.toolkit.evaluators:
        config.notes.extend(_unset_variables(tree))
    return config


def _unset_variables(tree: Tree) -> list[str]:
    """Return a note for each variable in the toolkit's own blocks that it would take as empty."""
    notes: list[str] = []

    def note(path: KeyPath, text: str, hint: str) -> None:
        notes.append(f"{tree.location(path)}: {named(path)}{text}; {hint}")

    substitute({key: value for key, value in tree.data.items() if key != "eval"}, note)
    return notes


# ---- base: other.yml --------------------------------------------------------------------------
# As in the toolkit, the base is read first and this file merged into it: mappings are merged,
# everything else is replaced. Each value keeps its file and line.


def _read_with_base(file: Path, name: str, text: str, above: tuple[Path, ...] = ()) -> Tree:
    """Read a configuration and its base.

    Args:
        file: The file.
        name: Its name in messages.
        text: Its content.
        above: The files that are based on it.

    Raises:
        ConfigError: One of them cannot be read, or is based on itself.
    """
    tree = read_tree(text, name)
    if not isinstance(tree.data, dict):
        refuse(tree.location(()), f"must be a mapping of keys to values, not {shown(tree.data)}")
    base_name = tree.data.pop("base", None)
    if base_name is None:
        return tree
    location = tree.location(("base",))
    if not isinstance(base_name, str) or not base_name.strip():
        refuse(location, f"base: must be the path of a file, not {shown(base_name)}")
    seen = (*above, file.resolve())
    base_file = file.parent / base_name
    if base_file.resolve() in seen:
        refuse(location, f"base: {one_line(base_name)} is based on this file", "remove one base")
    if not base_file.is_file():
        hint = "the path is relative to this file"
        refuse(location, f"base: {one_line(base_name)} does not exist", hint)
    shown_base = one_line(str(Path(name).parent / base_name))
    base = _read_with_base(base_file, shown_base, read_text(base_file, shown_base), seen)
    _merge(base, tree, (), base.data, tree.data)
    base.shown = tree.shown
    return base


def _merge(base: Tree, tree: Tree, path: KeyPath, under: Any, over: Any) -> None:
    for key, value in over.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(under.get(key), dict):
            base.keys[here], base.values[here] = tree.keys[here], tree.values[here]
            _merge(base, tree, here, under[key], value)
            continue
        base.forget(here)
        under[key] = value
        for attribute in ("keys", "values", "written"):
            facts = getattr(tree, attribute).items()
            below = {known: fact for known, fact in facts if known[: len(here)] == here}
            getattr(base, attribute).update(below)


# ---- --override PATH VALUE --------------------------------------------------------------------
# As in the toolkit, a path that does not exist is created, and a value gets the type of the value
# that it replaces: a string stays a string, and a list is split at its commas.


def apply_override(tree: Tree, path: str, value: str) -> list[str]:
    """Apply an `--override` to the tree; return a note if it may be misspelt.

    Raises:
        ConfigError: It is not a path, leads through a value, or the value has another type.
    """
    # Without the value: a path that does not exist may be a misspelt `api_key`.
    location = Location(f"--override {one_line(path.partition('=')[0])}")
    parts = [part.strip() for part in path.split(".")]
    if "=" in path or not all(parts):
        hint = "for example --override eval.general.max_concurrency 4"
        refuse(location, "must be a path and a value", hint)
    notes: list[str] = []
    data: Any = tree.data
    for part in parts:
        known = list(map(str, data)) if isinstance(data, dict) else []
        near = "" if part in known or parts[0] == "eval" else did_you_mean(part, known)
        if near:
            notes.append(f"{location}: the file has no {quoted(part)} there, so it is added{near}")
        data = data[part] if part in known else None
    # We know the types of keys of `eval`; of new ones elsewhere only the toolkit does.
    if isinstance(data, str) or (data is None and parts[0] != "eval"):
        value = json.dumps(value)
    elif isinstance(data, list) and not value.lstrip().startswith("["):
        value = json.dumps([part.strip() for part in value.split(",")])
    else:
        _check_type(data, value, location)
    override(tree, f"{path}={value}", location)
    return notes


def _check_type(replaced: Any, value: str, location: Location) -> None:
    if isinstance(replaced, bool):
        if value.strip().lower() not in ("true", "false"):
            refuse(location, "must be true or false, like the value that it replaces")
    elif isinstance(replaced, (int, float)):
        try:
            type(replaced)(value)
        except ValueError:
            kind = "an integer" if isinstance(replaced, int) else "a number"
            refuse(location, f"must be {kind}, like the value that it replaces")
