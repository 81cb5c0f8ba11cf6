"""Which evaluators does the `eval:` block ask for?

Built-in evaluators are created here, so that a wrong argument is reported with its line. All others
are the toolkit's, and run through it: `toolkit_evaluators`. Where it is not installed, the way to
score with it and the closest of ours are named.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ValidationError

from limpet.config.checking import checked
from limpet.config.environment import shown, typed
from limpet.config.errors import Findings, KeyPath
from limpet.config.evaluators import built_in, check_name
from limpet.evaluators.coerce import BUILT_INS
from limpet.integrations.nat.eval_block import OwnEvaluator
from limpet.integrations.nat.toolkit import discover_plugins, is_installed, registry
from limpet.text import did_you_mean, hint_near, one_line, quoted

# ---- Does the toolkit know what a configuration names, before anything is built? ----------------
#
# The toolkit reports an unknown model or tool when it builds what uses it, without a line.


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


# ---- Which evaluators does the `eval:` block ask for? -------------------------------------------

_JUDGE = "similarity for the wording; a judge of your own for the meaning"
_MEASURED = "workflow_output.jsonl, which has the seconds and tokens of each call"
_NEAREST: Mapping[str, str] = {
    "ragas": _JUDGE,
    "tunable_rag_evaluator": _JUDGE,
    "rag_evaluator": _JUDGE,
    "trajectory": "trajectory without llm_name, which compares tool calls by name",
    "trajectory_evaluator": "trajectory, which compares tool calls by name",
    "langsmith": "exact_match or similarity",
    "langsmith_custom": _JUDGE,
    "langsmith_judge": _JUDGE,
    "red_teaming_evaluator": "regex, for what must not be said",
    "swe_bench": "a Python function that runs the tests",
    "avg_llm_latency": _MEASURED,
    "avg_workflow_runtime": _MEASURED,
    "avg_num_llm_calls": _MEASURED,
    "avg_tokens_per_llm_end": _MEASURED,
}
_OWN = "{_type: python, function: module:name}"
_LISTED = f"built in: {', '.join(BUILT_INS)}; your own: {_OWN}"


@dataclass(frozen=True, slots=True)
class ToolkitBlock:
    """The block of an evaluator that only the toolkit has. The toolkit checks it."""

    block: Mapping[str, Any]


def read_evaluators(section: Any, findings: Findings, output: str) -> Mapping[str, Any]:
    """Return each evaluator by name: created, a `PythonEvaluator` to import, a `ToolkitBlock`.

    Args:
        section: The block.
        findings: Collects the problems.
        output: Where the answers will be, for the toolkit to score.
    """
    folded: dict[str, str] = {}
    evaluators = {}
    for name, value in section.items() if isinstance(section, dict) else ():
        path = ("eval", "evaluators", name)
        check_name(name, path, folded, findings)
        if isinstance(value, dict) and "_type" in value:
            evaluators[name] = _evaluator(value, path, findings, output)
        else:
            text = "needs _type" if value is None else f"needs _type, not {shown(value)}"
            findings.add(path, text, _LISTED)
    return evaluators


def _way(findings: Findings, output: str) -> str:
    """Return how the toolkit scores the answers of a run, wherever it is installed."""
    config = shlex.quote(findings.tree.shown)
    return (
        "run with --no-evaluators, then score where the toolkit is installed: nat eval "
        f"--config_file {config} --skip_workflow --dataset {output}"
    )


def _evaluator(value: dict[str, Any], path: KeyPath, findings: Findings, output: str) -> Any:
    kind = value["_type"]
    if kind == "python":
        return checked(OwnEvaluator, value, path, findings)
    is_theirs = kind == "trajectory" and "llm_name" in value
    if isinstance(kind, str) and kind in BUILT_INS and not is_theirs:
        return built_in(kind, value, path, findings, "_type")
    if isinstance(kind, str) and is_installed():
        return ToolkitBlock(value)
    if isinstance(kind, str) and kind in _NEAREST:
        text = f"{shown(kind)} is an evaluator of the toolkit, which Limpet does not run here"
        hint = f"{_way(findings, output)}; or use {_NEAREST[kind]}; or write your own: {_OWN}"
    else:
        text = f"unknown evaluator {shown(kind)}"
        near = hint_near(kind, (*BUILT_INS, "python")) if isinstance(kind, str) else None
        plug_in = f"of a plug-in of the toolkit: {_way(findings, output)}"
        hint = f"{near}  ({_LISTED})" if near else f"{_LISTED}; {plug_in}"
    return findings.add((*path, "_type"), text, hint)
