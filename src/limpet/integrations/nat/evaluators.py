"""Which evaluators does the `eval:` block ask for?

Ours are made here, so that a wrong argument is said with its line. One in Python is only named. One
of the toolkit's that we do not have is named too, with what comes nearest.
"""

from collections.abc import Mapping
from typing import Any

from limpet.config.environment import shown
from limpet.config.errors import Findings, did_you_mean
from limpet.config.evaluators import BUILT_INS, built_in, check_name
from limpet.config.model import PythonScorer
from limpet.integrations.nat.blocks import Block
from limpet.integrations.nat.toolkit_evaluators import NEAREST, OWN

_LISTED = f"ours: {', '.join(BUILT_INS)}; your own: {OWN}"


def read_evaluators(block: Block, findings: Findings) -> Mapping[str, Any]:
    """Return each evaluator by its name: made, or a `PythonScorer`.

    Args:
        block: What stands under `evaluators`.
        findings: Where to say what is wrong.
    """
    folded: dict[str, str] = {}
    made = {}
    for name in block.keys():  # noqa: SIM118 - a block is no mapping: asking it marks what is known
        check_name(name, (*block.path, name), folded, findings)
        value = block.get(name)
        if isinstance(value, dict) and "_type" in value:
            made[name] = _evaluator(block, name, value, findings)
        else:
            text = f"needs _type, not {shown(value)}" if value is not None else "needs _type"
            findings.add((*block.path, name), text, _LISTED)
    return made


def _evaluator(block: Block, name: str, value: dict[str, Any], findings: Findings) -> Any:
    kind, path = value["_type"], (*block.path, name)
    if kind == "python":
        return _python(block.block(name), findings)
    is_theirs = kind == "trajectory" and "llm_name" in value
    if isinstance(kind, str) and kind in BUILT_INS and not is_theirs:
        return built_in(kind, value, path, findings, "_type")
    if isinstance(kind, str) and kind in NEAREST:
        text = f"{shown(kind)} is an evaluator of the toolkit, which Limpet does not have"
        hint = f"nearest of ours: {NEAREST[kind]}; or write your own: {OWN}"
    else:
        text = f"there is no evaluator {shown(kind)} here"
        near = did_you_mean(kind, (*BUILT_INS, "python")) if isinstance(kind, str) else None
        hint = f"{near}  ({_LISTED})" if near else _LISTED
    return findings.add((*path, "_type"), text, hint)


def _python(block: Block, findings: Findings) -> PythonScorer | None:
    block.get("_type")
    target = block.reference("function")
    version, endpoint = block.text("version"), block.text("endpoint")
    if target is None and not block.get("function"):
        findings.add(block.path, "needs function", f"such as {OWN}")
    block.check()
    return (
        None if target is None else PythonScorer(python=target, version=version, endpoint=endpoint)
    )
