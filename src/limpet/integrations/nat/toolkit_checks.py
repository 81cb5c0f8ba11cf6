"""Does the toolkit know what a configuration names, before anything is built?

The toolkit reports an unknown model or tool when it builds what uses it, without a line.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ValidationError

from limpet.config.environment import typed
from limpet.config.errors import Findings
from limpet.config.yaml_file import KeyPath
from limpet.evaluators.by_name import BUILT_INS
from limpet.integrations.nat.toolkit import discover_plugins, registry
from limpet.text import did_you_mean, hint_near, one_line, quoted


def check_evaluators(
    blocks: Mapping[str, Any], findings: Findings, say: Callable[[str], None]
) -> bool:
    """Report what the toolkit does not know or rejects; return whether all is well.

    Args:
        blocks: The blocks of the toolkit's evaluators, by name.
        findings: Collects the problems.
        say: Called with a line for each key that the toolkit ignores.
    """
    discover_plugins()
    known = {info.local_name: info.config_type for info in registry().get_registered_evaluators()}
    is_well = True
    for name, block in blocks.items():
        path, kind = ("eval", "evaluators", name), str(block["_type"])
        if kind not in known:
            near = hint_near(kind, (*BUILT_INS, *known))
            where = "install the plug-in that registers it"
            text = f"unknown evaluator {quoted(kind)}: Limpet and the toolkit's plug-ins have none"
            findings.add((*path, "_type"), text, f"{near}, or {where}" if near else where)
            is_well = False
            continue
        for key, fields in _ignored(block, known[kind]):
            near = did_you_mean(key, fields)
            unknown = f"unknown key {quoted(key)}, ignored as in nat eval"
            say(f"{findings.tree.key_location((*path, key))}: {'.'.join(path)}: {unknown}{near}")
        try:
            known[kind].model_validate(as_toolkit_reads(block))
        except ValidationError as error:
            is_well = False
            _report(path, error, findings)
    return is_well


def _ignored(block: Mapping[str, Any], model: Any) -> Iterator[tuple[str, list[str]]]:
    if model.model_config.get("extra", "ignore") != "ignore":
        return
    fields = [name for name in model.model_fields if name != "type"]
    for key in block:
        if key not in fields and key != "_type":
            yield str(key), fields


def _report(path: KeyPath, error: ValidationError, findings: Findings) -> None:
    for wrong in error.errors(include_url=False, include_input=False):
        within = [part for part in wrong["loc"] if part != "type"]
        whole = (*path, *within)
        is_there = findings.tree.known(whole) == whole
        name = "" if is_there or not within else f"{'.'.join(map(str, within))}: "
        findings.add(whole, f"{name}the toolkit rejects it: {one_line(wrong['msg'])}")


def check_names(config: Any, *, runs_workflow: bool, findings: Findings) -> None:
    """Report each model, tool and so on that is named and not there.

    Args:
        config: The configuration as the toolkit read it.
        runs_workflow: Whether the workflow and its functions are built here.
        findings: Collects the problems.
    """
    users: dict[KeyPath, Any] = {}
    if config.eval is not None:
        users |= {("eval", "evaluators", name): e for name, e in config.eval.evaluators.items()}
    if runs_workflow:
        users |= {("functions", name): block for name, block in config.functions.items()}
        users["workflow",] = config.workflow
    for path, block in users.items():
        for field, section, name in _names_in(block):
            there = _parts_of(config, section)
            if name not in there and not _is_in_group(name, section, config):
                text = f"{section} has no {quoted(name)}"
                findings.add((*path, field), text, hint_near(name, there))


def _names_in(block: BaseModel) -> Iterator[tuple[str, str, str]]:
    """Yield each field that names a part, with the part's section and name."""
    reference = import_module("nat.data_models.component_ref").ComponentRef
    for field, value in block:
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, reference):
                yield field, str(name.component_group), str(name)
            elif field == "llm_name" and isinstance(name, str):
                yield field, "llms", name


def _parts_of(config: Any, section: str) -> list[str]:
    return list(getattr(config, section, None) or {})


def _is_in_group(name: str, section: str, config: Any) -> bool:
    """Return whether a tool belongs to a group: `group__tool`, once `group.tool`."""
    groups = _parts_of(config, "function_groups")
    owner = name.partition("__")[0].partition(".")[0]
    return section in ("functions", "function_groups") and (name in groups or owner in groups)


def as_toolkit_reads(block: Any) -> Any:
    """Return a block with the values of the environment as the toolkit would read them."""
    if isinstance(block, Mapping):
        return {key: as_toolkit_reads(value) for key, value in block.items()}
    return [as_toolkit_reads(value) for value in block] if isinstance(block, list) else typed(block)
