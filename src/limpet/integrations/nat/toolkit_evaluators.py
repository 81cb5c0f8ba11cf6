"""How do the toolkit's evaluators, and a user's registered ones, score one answer?

Each is a step of the run like any other: its function for a single item is called, never the one
for a whole dataset, so that each score is on disk as soon as there is one, and a failure is a
failure. A score of 0 that stands for a failure is recognised in `evaluators/libraries/nat.py`.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from typing import Any

from limpet.config.errors import Findings
from limpet.errors import PermanentError
from limpet.evaluators.functions import as_scores
from limpet.evaluators.libraries.clients import refusals
from limpet.evaluators.libraries.nat import refuse_missing_values, score_of_item
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import CodeStep
from limpet.integrations.nat.eval_block import DatasetBlock, Structure
from limpet.integrations.nat.evaluators import check_evaluators
from limpet.integrations.nat.toolkit import Built, Toolkit, registry, toolkit_steps, toolkit_version
from limpet.integrations.nat.workflow import counted, named_blocks
from limpet.text import one_line, text_of
from limpet.types import Output

_Scoring = Callable[[Any], Awaitable[Any]]


class ToolkitEvaluator(CodeStep, Evaluator):
    """An evaluator that the toolkit builds.

    Args:
        name: Its name.
        toolkit: Builds it.
        config: Its block, as the toolkit read it.
        blocks: What it is made of, without secrets: its own block, and those of its models.
        endpoint: The endpoint its calls are paced with.
        structure: The names of the dataset's columns.
        id_key: The column of the ids.
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
        functions = self._toolkit.functions()
        used = {f"{name}: ": functions[name] for name in self._blocks if name in functions}
        return {"": unwrap(registry().get_evaluator(type(self._config)).build_fn), **used}

    @property
    def stated(self) -> Mapping[str, str]:
        blocks = {name: digest(block) for name, block in self._blocks.items()}
        return {**blocks, "toolkit": toolkit_version()}

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
    """Return what an evaluator is made of, without secrets, and the names of its models.

    That is its own block, and each block of a model, a tool or anything else that it names: as a
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
    scores one item. Where there is no such object, the function gets a dataset of one item.
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
            hint="Limpet calls an evaluator for each item alone",
        )
    return items[0]


def _owner(function: Any, method: str) -> Any:
    """Return the object with this method that a function belongs to, or closes over."""
    around = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    candidates = [getattr(function, "__self__", None), *around]
    owners = [candidate for candidate in candidates if callable(getattr(candidate, method, None))]
    return owners[0] if len(owners) == 1 else None
