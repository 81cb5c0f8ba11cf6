"""Which evaluators does the `eval:` block ask for?

Built-in evaluators are created here, so that a wrong argument is reported with its line. All others
are the toolkit's, and run through it: `toolkit_evaluators`. Where it is not installed, the way to
score with it and the closest of ours are named.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from limpet.config.checking import checked
from limpet.config.environment import shown
from limpet.config.errors import Findings
from limpet.config.evaluators import built_in, check_name
from limpet.config.yaml_file import KeyPath
from limpet.evaluators.by_name import BUILT_INS
from limpet.integrations.nat.eval_block import OwnEvaluator
from limpet.integrations.nat.toolkit import is_installed
from limpet.text import hint_near

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
