"""Which evaluators does the `eval:` block name?

Built-in evaluators are created here, so that a wrong argument is reported with its line. All others
are the toolkit's, and run through it: `toolkit_evaluators`. If it is not installed, the message
says how to score with it, and names the closest of ours.
"""

import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from inspect import unwrap
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from limpet.config.checking import checked
from limpet.config.environment import shown, typed
from limpet.config.errors import Findings, KeyPath
from limpet.config.evaluators import built_in, check_name
from limpet.errors import PermanentError
from limpet.evaluators.coerce import BUILT_INS
from limpet.evaluators.functions import as_scores
from limpet.evaluators.libraries.clients import refusals
from limpet.evaluators.libraries.nat import refuse_missing_values, score_of_item
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import CodeStep
from limpet.integrations.nat.eval_block import DatasetBlock, OwnEvaluator, Structure
from limpet.integrations.nat.toolkit import (
    Built,
    Toolkit,
    discover_plugins,
    functions_of,
    is_installed,
    registry,
    toolkit_steps,
)
from limpet.integrations.nat.workflow import counted, named_blocks
from limpet.shapes import Output
from limpet.text import did_you_mean, hint_near, one_line, quoted, text_of

# ---- Does the toolkit know every name in a configuration, before anything is built? -------------
#
# The toolkit reports an unknown model or tool when it builds what uses it, without a line.


def check_evaluators(
    blocks: Mapping[str, Any], findings: Findings, say: Callable[[str], None]
) -> bool:
    """Report what the toolkit does not know or rejects; return whether everything is valid.

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
    """Report each model, tool and so on that is named but missing.

    Args:
        config: The configuration as the toolkit reads it.
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
    """Return whether a tool belongs to a group: `group__tool`, formerly `group.tool`."""
    groups = _parts_of(config, "function_groups")
    owner = name.partition("__")[0].partition(".")[0]
    return section in ("functions", "function_groups") and (name in groups or owner in groups)


def as_toolkit_reads(block: Any) -> Any:
    """Return a block with the values of the environment as the toolkit would read them."""
    if isinstance(block, Mapping):
        return {key: as_toolkit_reads(value) for key, value in block.items()}
    return [as_toolkit_reads(value) for value in block] if isinstance(block, list) else typed(block)


# ---- Which evaluators does the `eval:` block name? ----------------------------------------------

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
        output: The file of the answers, for the toolkit to score.
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
    """Return how to score the answers of a run where the toolkit is installed."""
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
        plug_in = f"from a plug-in of the toolkit: {_way(findings, output)}"
        hint = f"{near}  ({_LISTED})" if near else f"{_LISTED}; {plug_in}"
    return findings.add((*path, "_type"), text, hint)


# ---- How do the toolkit's evaluators, and a user's, score one answer? ---------------------------
#
# Each is a step of the run like any other: its function for a single item is called, never the one
# for a whole dataset, so that each score is on disk at once, and a failure is a failure. A score of
# 0 that means a failure is recognised in `evaluators/libraries/nat.py`.

_Scoring = Callable[[Any], Awaitable[Any]]


class ToolkitEvaluator(CodeStep, Evaluator):
    """An evaluator that the toolkit builds.

    Args:
        name: Its name.
        toolkit: Builds it.
        config: Its block, as the toolkit read it.
        blocks: Its own block and those of its models, without secrets.
        endpoint: The endpoint its calls are paced with.
        structure: The names of the dataset's columns.
        id_key: The column with the ids.
    """

    def __init__(
        self,
        name: str,
        toolkit: Toolkit,
        config: Any,
        blocks: Mapping[str, Any],
        endpoint: str,
        structure: Structure,
        id_key: str,
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self._toolkit = toolkit
        self._config = config
        self._blocks = dict(blocks)
        self._structure = structure
        self._id_key = id_key
        self._built: Built | None = None
        self._score: _Scoring | None = None

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {type(self._config).__name__} of the toolkit>"

    @property
    def code(self) -> Mapping[str, Any]:
        functions = functions_of(self._toolkit.read())
        used = {f"{name}: ": functions[name] for name in self._blocks if name in functions}
        return {"": unwrap(registry().get_evaluator(type(self._config)).build_fn), **used}

    @property
    def stated(self) -> Mapping[str, str]:
        blocks = {name: digest(block) for name, block in self._blocks.items()}
        return {**blocks, "toolkit": version("nvidia-nat-core")}

    @property
    def described(self) -> Mapping[str, Any]:
        return self._blocks

    async def open(self) -> None:
        self._built = await self._toolkit.acquire()
        self._score = item_function(self._built.evaluators[self.name])

    async def close(self) -> None:
        if self._built is not None:
            self._built = self._score = None
            await self._toolkit.release()

    async def call(self, scored: Scored) -> Scores | Output:
        assert self._built is not None
        assert self._score is not None
        try:
            with self._built.context(), refusals():
                returned = await self._score(self._item(scored))
        except NotImplementedError as error:
            raise PermanentError(
                f"{self.name} does not score single items: {one_line(text_of(error))}",
                hint="score whole runs with the toolkit: nat eval --skip_workflow --dataset "
                "…/workflow_output.json",
            ) from error
        return as_scores(score_of_item(returned, self.name), self.name)

    def _item(self, scored: Scored) -> Any:
        """Return an item of the toolkit's, as `nat eval` would make it."""
        assert scored.item is not None
        models = import_module("nat.data_models.evaluator")
        row = dict(scored.item.row)
        is_structured = not self._structure.disable
        expected_steps = row.get(self._structure.expected_trajectory_key) if is_structured else None
        return models.EvalInputItem(
            id=row.get(self._id_key, scored.item.id),
            input_obj=scored.input,
            expected_output_obj="" if scored.expected is None else scored.expected,
            output_obj=scored.output,
            trajectory=toolkit_steps(scored.trace, scored.item.id),
            expected_trajectory=expected_steps or [],
            full_dataset_entry=row,
        )


# ---- from the configuration ------------------------------------------------------------------


def toolkit_evaluators(
    toolkit: Toolkit,
    data: Mapping[str, Any],
    folder: Path,
    dataset: DatasetBlock,
    findings: Findings,
    say: Callable[[str], None],
) -> dict[str, ToolkitEvaluator]:
    """Return the toolkit's evaluators of a configuration, by name.

    Args:
        toolkit: Reads and builds them.
        data: The whole configuration.
        folder: Its folder, where `file://` paths start.
        dataset: The dataset's block.
        findings: Collects the problems.
        say: Called with a line for each evaluator that is left out.

    Raises:
        LimpetError: The toolkit cannot be imported, or rejects the configuration.
    """
    blocks = toolkit.evaluators
    if not blocks or not check_evaluators(blocks, findings, say):
        return {}
    configs = toolkit.read().eval.evaluators
    evaluators = {}
    for name in blocks:
        if getattr(getattr(configs[name], "metric_config", None), "skip", False):
            say(f"{findings.tree.location(('eval', 'evaluators', name))}: {name}: skip is set")
            continue
        made_of, models = _made_of(data, toolkit.with_defaults(), name, folder)
        endpoint = f"llm {models[0]}" if models else name
        evaluators[name] = ToolkitEvaluator(
            name, toolkit, configs[name], made_of, endpoint, dataset.structure, dataset.id_key
        )
    return evaluators


def _made_of(
    data: Mapping[str, Any], defaults: Mapping[str, Any], evaluator: str, folder: Path
) -> tuple[dict[str, Any], list[str]]:
    """Return the blocks of an evaluator, without secrets, and the names of its models.

    They are its own block, and each block of a model, a tool or anything else that it names: as a
    value, as a key, or by a default of the toolkit or the plug-in.
    """
    block = data["eval"]["evaluators"][evaluator]
    named = named_blocks(data, defaults, block, defaults["eval"]["evaluators"][evaluator])
    found = {"evaluator": block, **{".".join(key): part for key, part in named.items()}}
    return counted(found, folder), [name for section, name in named if section == "llms"]


# ---- a function for one item ------------------------------------------------------------------


def item_function(info: Any) -> _Scoring:
    """Return the function that scores one item.

    An evaluator registers a function over a whole dataset, usually a method of an object that also
    scores one item. Without such an object, the function gets a dataset of one item.
    """
    over_samples = getattr(info, "evaluate_atif_fn", None)
    if callable(over_samples):  # the toolkit prefers it, too
        return _over_samples(over_samples)
    evaluator = _owner(info.evaluate_fn, "evaluate_item")
    if evaluator is not None:
        refuse_missing_values(evaluator)
        scoring: _Scoring = evaluator.evaluate_item
        return scoring

    async def score(item: Any) -> Any:
        return _only(await info.evaluate_fn(_dataset_of(item)))

    return score


def _over_samples(evaluate: Callable[[Any], Awaitable[Any]]) -> _Scoring:
    adapter = import_module("nat.plugins.eval.runtime.atif_adapter").EvalAtifAdapter
    evaluator = _owner(evaluate, "evaluate_atif_item")
    if evaluator is not None:
        refuse_missing_values(evaluator)

    async def score(item: Any) -> Any:
        samples = adapter().build_samples(_dataset_of(item))  # it caches by id: a new one each time
        if evaluator is not None:
            return await evaluator.evaluate_atif_item(samples[0])
        return _only(await evaluate(samples))

    return score


def _dataset_of(item: Any) -> Any:
    return import_module("nat.data_models.evaluator").EvalInput(eval_input_items=[item])


def _only(output: Any) -> Any:
    items = list(output.eval_output_items)
    if len(items) != 1:
        raise PermanentError(
            f"it returned {len(items)} scores for one item",
            hint="Limpet calls an evaluator for one item at a time",
        )
    return items[0]


def _owner(function: Any, method: str) -> Any:
    """Return the object with this method that a function belongs to, or closes over."""
    around = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    candidates = [getattr(function, "__self__", None), *around]
    owners = [candidate for candidate in candidates if callable(getattr(candidate, method, None))]
    return owners[0] if len(owners) == 1 else None
