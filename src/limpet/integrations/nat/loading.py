"""How does a configuration of the toolkit become an evaluation?

Read the YAML and its `base`, apply the command line, substitute the environment, check. We read
only `eval`. The other blocks, `workflow`, `llms`, `functions`, belong to the toolkit: they stay
unchanged, and are part of the fingerprint of the answers.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from limpet.config.checking import checked
from limpet.config.dataset_checks import check_directory, checked_side, located
from limpet.config.environment import shown, substitute, typed, written_as
from limpet.config.errors import Findings, KeyPath, Location, Tree, named, refuse
from limpet.config.file_text import read_text
from limpet.config.overrides import override
from limpet.config.yaml_file import read_tree
from limpet.datasets.rows import RESERVED
from limpet.datasets.sources import SUFFIXES, shown_path
from limpet.integrations.nat.config import NatConfig
from limpet.integrations.nat.eval_block import (
    DatasetBlock,
    EvalBlock,
    Evaluation,
    GeneralBlock,
    JobsBlock,
    OpenBlock,
    OutputBlock,
    ScriptBlock,
)
from limpet.integrations.nat.evaluators import ToolkitBlock, read_evaluators
from limpet.integrations.nat.flags import Flags, flags_of
from limpet.integrations.nat.run_directory import OUTPUT
from limpet.integrations.nat.toolkit import is_installed
from limpet.run.record_fields import TOOLKIT_METADATA
from limpet.text import did_you_mean, nearest_file, one_line, quoted


def load(file: Path, given: Mapping[str, Any]) -> NatConfig:
    """Read a configuration of the toolkit with the flags of the command line."""
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
    remarks = [
        remark for where, value in flags.overrides for remark in apply_override(tree, where, value)
    ]
    for text in flags.settings:
        override(tree, text)
    if flags.no_evaluators:
        override(tree, "eval.evaluators={}", Location("--no-evaluators"))
    findings = Findings(tree)

    def say(path: KeyPath, text: str, hint: str) -> None:
        findings.add(("eval", *path), text, hint, final=True)

    evaluation = read_eval(substitute(tree.data.get("eval"), say), findings, flags.dataset)
    evaluation.remarks.extend(remarks)
    config = NatConfig(file.parent.resolve() / file.name, tree, evaluation, flags, original)
    if config.toolkit.runs_workflow or config.toolkit.evaluators:
        config.remarks.extend(_unset_variables(tree))
    return config


def _unset_variables(tree: Tree) -> list[str]:
    """Return a remark for each variable in the toolkit's blocks that it would read as empty."""
    remarks: list[str] = []

    def remark(path: KeyPath, text: str, hint: str) -> None:
        remarks.append(f"{tree.location(path)}: {named(path)}{text}; {hint}")

    substitute({key: value for key, value in tree.data.items() if key != "eval"}, remark)
    return remarks


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
    """Apply an `--override` to the tree; return a remark if it may be misspelt.

    Raises:
        ConfigError: It is not a path, goes through a value, or the value has another type.
    """
    # Without the value: a path that does not exist may be a misspelt `api_key`.
    location = Location(f"--override {one_line(path.partition('=')[0])}")
    parts = [part.strip() for part in path.split(".")]
    if "=" in path or not all(parts):
        hint = "for example --override eval.general.max_concurrency 4"
        refuse(location, "must be a path and a value", hint)
    remarks: list[str] = []
    data: Any = tree.data
    for part in parts:
        known = list(map(str, data)) if isinstance(data, dict) else []
        near = "" if part in known or parts[0] == "eval" else did_you_mean(part, known)
        if near:
            remarks.append(
                f"{location}: the file has no {quoted(part)} there, so it is added{near}"
            )
        data = data[part] if part in known else None
    # We know the types of keys of `eval`; of new ones elsewhere only the toolkit does.
    if isinstance(data, str) or (data is None and parts[0] != "eval"):
        value = json.dumps(value)
    elif isinstance(data, list) and not value.lstrip().startswith("["):
        value = json.dumps([part.strip() for part in value.split(",")])
    else:
        _check_type(data, value, location)
    override(tree, f"{path}={value}", location)
    return remarks


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


# ---- Is the `eval:` block valid, and which of its keys are not supported? -----------------------
#
# Relative paths start at the current directory, as they do in `nat eval`.

_GENERAL: KeyPath = ("eval", "general")
_DATASET: KeyPath = (*_GENERAL, "dataset")
_OUTPUT: KeyPath = (*_GENERAL, "output")
_JOBS: KeyPath = (*_OUTPUT, "job_management")
# Keys that change no result, and the effect of ignoring them.
_IGNORED: Mapping[KeyPath, str] = {
    (*_GENERAL, "validate_llm_endpoints"): "",
    (*_GENERAL, "verbose"): "",
    (*_JOBS, "max_jobs"): ": results are never deleted",
    (*_JOBS, "eviction_policy"): ": results are never deleted",
}
_NEEDS_TOOLKIT: Mapping[KeyPath, str] = {
    (*_GENERAL, "profiler"): "no profile is written",
    (*_OUTPUT, "s3"): "nothing is uploaded",
    (*_OUTPUT, "remote_dir"): "nothing is uploaded",
    (*_OUTPUT, "write_atif_workflow_output"): "it is not written",
}
# Blocks whose unknown keys the toolkit accepts. Like the toolkit, we refuse those of `dataset`.
_OPEN: Mapping[KeyPath, type[OpenBlock]] = {
    ("eval",): EvalBlock,
    _GENERAL: GeneralBlock,
    _OUTPUT: OutputBlock,
    _JOBS: JobsBlock,
}
_SUFFIXES_OF: Mapping[str, tuple[str, ...]] = {
    "json": (".json",),
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv",),
    "parquet": (".parquet",),
    "xls": (".xlsx",),
}


def read_eval(data: Any, findings: Findings, dataset: Path | None) -> Evaluation:
    """Check the block.

    Args:
        data: The block, with the environment substituted.
        findings: Collects the problems.
        dataset: The file of `--dataset`, which replaces the block's.

    Raises:
        ConfigError: The block is invalid. The message lists each problem with its line.
    """
    block = checked(EvalBlock, {} if data is None else data, ("eval",), findings)
    data = {"eval": data}  # so that paths are those of the file
    evaluators = read_evaluators(_value(data, "eval", "evaluators"), findings, _output_of(block))
    _refuse_file_references(data["eval"], ("eval",), findings, evaluators)
    keep = _check_dataset(data, findings, replaced=dataset is not None)
    _check_output(data, findings)
    if block is not None:
        _check_columns(block.general.dataset, findings)
    findings.raise_any()
    assert block is not None
    general = block.general
    if dataset is not None:
        replaced = general.dataset.model_copy(update={"file_path": dataset.absolute()})
        general = general.model_copy(update={"dataset": replaced})
    return Evaluation(general, keep, evaluators, _remarks(data, findings))


def _output_of(block: EvalBlock | None) -> str:
    """Return the path of the answers, for a shell command."""
    if block is None:  # it is not valid
        return f"…/{OUTPUT}"
    folder = block.general.directory
    if block.general.has_jobs:
        folder = folder / "jobs" / "…"
    return shlex.quote(shown_path(folder / OUTPUT))


def _value(data: Any, *path: str | int) -> Any:
    """Return the value at a path, even if the rest is invalid; None if it is missing."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return None if typed(data) is None else data


def _remarks(data: Any, findings: Findings) -> list[str]:
    remarks = {path: f"not supported, ignored{effect}" for path, effect in _IGNORED.items()}
    if not is_installed():
        needs = "needs the toolkit, which is not installed here: "
        remarks |= {path: f"{needs}{effect}" for path, effect in _NEEDS_TOOLKIT.items()}
    locations = {
        path: findings.tree.key_location(path)
        for path in remarks
        if typed(_value(data, *path)) and _value(data, *path) != "time_created"  # the default
    }
    said = {path: f"{named(path)}{remarks[path]}" for path in locations}
    for path, known in _unknown_keys(data):
        locations[path] = findings.tree.key_location(path)
        near = did_you_mean(str(path[-1]), known)
        unknown = f"unknown key {quoted(str(path[-1]))}, ignored as in nat eval"
        said[path] = f"{named(path[:-1])}{unknown}{near}"
    ordered = sorted(said, key=lambda path: locations[path].line or 0)
    return [f"{locations[path]}: {said[path]}" for path in ordered]


def _unknown_keys(data: Any) -> Iterator[tuple[KeyPath, list[str]]]:
    """Yield the path of each key that the toolkit ignores, and the keys that are known there."""
    scripts = _value(data, *_OUTPUT, "custom_scripts") or {}
    blocks: dict[KeyPath, type[OpenBlock]] = {**_OPEN}
    blocks |= {(*_OUTPUT, "custom_scripts", name): ScriptBlock for name in scripts}
    for path, block in blocks.items():
        known = list(block.model_fields)
        for key in _value(data, *path) or ():
            if key not in known:
                yield (*path, key), known


def _refuse_file_references(
    value: Any, path: KeyPath, findings: Findings, evaluators: Mapping[str, Any]
) -> None:
    if path[1:2] == ("evaluators",) and isinstance(evaluators.get(str(path[-1])), ToolkitBlock):
        return  # the toolkit reads them
    if isinstance(value, Mapping):
        for key, below in value.items():
            _refuse_file_references(below, (*path, key), findings, evaluators)
    elif isinstance(value, str) and value.startswith("file://"):
        findings.add(path, "file:// is not read inside eval", "write the content of the file here")


def _check_output(data: Any, findings: Findings) -> None:
    own = (*_OUTPUT, "dir")
    path = own if _value(data, *own) else (*_GENERAL, "output_dir")
    check_directory(_value(data, *path), path, Path.cwd(), findings)
    scripts = _value(data, *_OUTPUT, "custom_scripts")
    for name in scripts if isinstance(scripts, dict) else ():
        path = (*_OUTPUT, "custom_scripts", name, "script")
        text = _value(data, *path)
        if isinstance(text, str) and not located(text.strip(), Path.cwd()).is_file():
            hint = "paths start at the current directory"
            findings.add(path, f"{one_line(written_as(text))} does not exist", hint)


# ---- the dataset ------------------------------------------------------------------------------


def _check_dataset(data: Any, findings: Findings, *, replaced: bool) -> dict[str, Any] | None:
    """Report the problems of the dataset, and return its filter in our form."""
    remote = (*_DATASET, "remote_file_path")
    is_remote = bool(typed(_value(data, *remote))) and not replaced
    if is_remote and not is_installed():
        text = "downloading datasets needs the toolkit, which is not installed here"
        findings.add(remote, text, "download the file, and give it with --dataset FILE")
    if _value(data, *_DATASET, "_type") == "custom":
        if not _value(data, *_DATASET, "function"):
            findings.add(_DATASET, "needs function: module.name, which returns the rows")
    else:
        for key in ("function", "kwargs"):
            if _value(data, *_DATASET, key) is not None:
                findings.add((*_DATASET, key), "is only read with _type: custom")
        if not replaced:
            _check_file(data, findings, is_remote=is_remote)
    sides = {}
    for ours, theirs in (("allow", "allowlist"), ("deny", "denylist")):
        path = (*_DATASET, "filter", theirs, "field")
        columns = _value(data, *path)
        if columns is not None:
            sides[ours] = checked_side(columns, path, findings)
    return sides or None


def _check_columns(dataset: DatasetBlock, findings: Findings) -> None:
    """Report result columns that would overwrite each other, or our own fields."""
    columns = dataset.structure
    if columns.disable:
        return
    taken = {dataset.id_key: "id_key", **dict.fromkeys((*RESERVED, TOOLKIT_METADATA), "")}
    for key in ("generated_answer_key", "trajectory_key"):
        column = getattr(columns, key)
        if column in taken:
            text = (
                f"the column {quoted(column)} is {_whose(taken[column])}: it would be overwritten"
            )
            findings.add((*_DATASET, "structure", key), text, "give it another name")
        taken[column] = key


def _whose(key: str) -> str:
    return f"also that of {key}" if key else "reserved by Limpet"


def _check_file(data: Any, findings: Findings, *, is_remote: bool) -> None:
    block, path = _value(data, *_DATASET), (*_DATASET, "file_path")
    if block is None:
        hint = "write eval.general.dataset, or give --dataset FILE"
        return findings.add(_DATASET, "dataset is missing", hint)
    kind, text = _value(block, "_type") or "json", _value(block, "file_path")
    if text is None and isinstance(block, dict):
        return findings.add(_DATASET, "file_path is missing", "or give --dataset FILE")
    if not isinstance(text, str) or not text.strip():
        return None  # reported elsewhere
    shown, file = one_line(written_as(text)), located(text.strip(), Path.cwd())
    if not file.exists() and not is_remote:
        return findings.add(path, f"{shown} does not exist", _hint_of_missing(text, file, findings))
    expected = _SUFFIXES_OF.get(kind, ()) if isinstance(kind, str) else ()
    if expected and file.suffix.lower() not in expected:
        kinds = [name for name, ends in _SUFFIXES_OF.items() if file.suffix.lower() in ends]
        hint = f"write _type: {kinds[0]}" if kinds else f"supported: {', '.join(SUFFIXES)}"
        text = f"{shown} is not a {' or '.join(expected)} file, which _type {kind} reads"
        return findings.add(path, text, hint)
    return None


def _hint_of_missing(text: str, file: Path, findings: Findings) -> str:
    folder = Path(findings.tree.shown).parent
    if not Path(text).is_absolute() and (folder / text).exists():
        return f"paths start at the current directory, as in nat eval: cd {one_line(str(folder))}"
    try:
        near = nearest_file(file)
    except OSError:
        near = None
    return f"did you mean {one_line(near)}?" if near else "paths start at the current directory"
