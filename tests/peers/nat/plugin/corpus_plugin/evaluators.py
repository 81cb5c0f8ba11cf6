"""Evaluators, one for each way in which one can be written."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

from nat.builder.builder import EvalBuilder
from nat.builder.evaluator import EvaluatorInfo
from nat.builder.framework_enum import LLMFrameworkEnum
from nat.cli.register_workflow import register_evaluator
from nat.data_models.component_ref import EmbedderRef, FunctionRef, LLMRef
from nat.data_models.evaluator import EvalInput, EvalInputItem, EvaluatorBaseConfig
from nat.plugins.eval.data_models.evaluator_io import EvalOutput, EvalOutputItem
from nat.plugins.eval.evaluator.atif_base_evaluator import AtifBaseEvaluator
from nat.plugins.eval.evaluator.atif_evaluator import AtifEvalSample, AtifEvalSampleList
from nat.plugins.eval.evaluator.base_evaluator import BaseEvaluator


def share(text: str) -> float:
    """Return a number between 0 and 1 that follows from the text."""
    return hashlib.sha256(text.encode()).digest()[0] / 255


def right(item: EvalInputItem) -> bool:
    return str(item.output_obj) == str(item.expected_output_obj)


class EqualConfig(EvaluatorBaseConfig, name="corpus_equal"):
    """A BaseEvaluator that judges one item at a time."""

    max_concurrency: int = 4


class Equal(BaseEvaluator):
    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        said = {"said": str(item.output_obj), "kind": type(item.output_obj).__name__}
        return EvalOutputItem(id=item.id, score=float(right(item)), reasoning=said)


@register_evaluator(config_type=EqualConfig)
async def equal(config: EqualConfig, builder: EvalBuilder):
    evaluator = Equal(max_concurrency=config.max_concurrency, tqdm_desc="Equal")
    yield EvaluatorInfo(config=config, evaluate_fn=evaluator.evaluate, description="Equal or not")


class ClosureConfig(EvaluatorBaseConfig, name="corpus_closure"):
    """No class at all: the function is a closure."""

    weight: float = 1.0


@register_evaluator(config_type=ClosureConfig)
async def closure(config: ClosureConfig, builder: EvalBuilder):
    async def evaluate_fn(eval_input: EvalInput) -> EvalOutput:
        items = [
            EvalOutputItem(
                id=item.id,
                score=config.weight * share(str(item.output_obj)),
                reasoning=f"weighed with {config.weight}",
            )
            for item in eval_input.eval_input_items
        ]
        mean = sum(item.score for item in items) / len(items)
        return EvalOutput(average_score=mean, eval_output_items=items)

    yield EvaluatorInfo(config=config, evaluate_fn=evaluate_fn, description="A closure")


class AtifConfig(EvaluatorBaseConfig, name="corpus_atif"):
    """Reads the ATIF form of a trajectory; the legacy lane is optional."""

    with_legacy: bool = False
    enable_atif_evaluator: bool = True


class AtifSteps(AtifBaseEvaluator):
    async def evaluate_atif_item(self, sample: AtifEvalSample) -> EvalOutputItem:
        if "raise" in str(sample.expected_output_obj):
            raise RuntimeError("no ATIF verdict")
        sources = Counter(step.source for step in sample.trajectory.steps)
        calls = [
            call.function_name for step in sample.trajectory.steps for call in step.tool_calls or ()
        ]
        return EvalOutputItem(
            id=sample.item_id,
            score=float(str(sample.output_obj) in str(sample.expected_output_obj)),
            reasoning={
                "sources": dict(sorted(sources.items())),
                "calls": calls,
                "schema": sample.trajectory.schema_version,
                "metadata": sorted(sample.metadata),
            },
        )


@register_evaluator(config_type=AtifConfig)
async def atif(config: AtifConfig, builder: EvalBuilder):
    legacy = Equal(max_concurrency=builder.get_max_concurrency())
    info = EvaluatorInfo(config=config, description="Reads ATIF")
    if config.with_legacy:
        info.evaluate_fn = legacy.evaluate
    if config.enable_atif_evaluator:
        info.evaluate_atif_fn = AtifSteps(builder.get_max_concurrency()).evaluate_atif_fn
    yield info


class JudgeConfig(EvaluatorBaseConfig, name="corpus_judge"):
    """Asks a model for a number."""

    llm_name: LLMRef


class Judge(BaseEvaluator):
    def __init__(self, llm: Any, max_concurrency: int) -> None:
        super().__init__(max_concurrency=max_concurrency, tqdm_desc="Judge")
        self.llm = llm

    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        asked = f"Grade this answer to {item.input_obj!r}: {item.output_obj!r}"
        said = (await self.llm.ainvoke(asked)).content
        return EvalOutputItem(id=item.id, score=float(said), reasoning={"said": said})


@register_evaluator(config_type=JudgeConfig)
async def judge(config: JudgeConfig, builder: EvalBuilder):
    llm = await builder.get_llm(config.llm_name, wrapper_type=LLMFrameworkEnum.LANGCHAIN)
    evaluator = Judge(llm, builder.get_max_concurrency())
    yield EvaluatorInfo(config=config, evaluate_fn=evaluator.evaluate, description="Asks a model")


class SimilarityConfig(EvaluatorBaseConfig, name="corpus_similarity"):
    """Compares embeddings, in the ATIF lane."""

    embedder_name: EmbedderRef


class Similarity(AtifBaseEvaluator):
    def __init__(self, embedder: Any, max_concurrency: int) -> None:
        super().__init__(max_concurrency)
        self.embedder = embedder

    async def evaluate_atif_item(self, sample: AtifEvalSample) -> EvalOutputItem:
        texts = [str(sample.output_obj), str(sample.expected_output_obj)]
        one, other = await self.embedder.aembed_documents(texts)
        dot = sum(a * b for a, b in zip(one, other, strict=True))
        norm = (sum(a * a for a in one) * sum(b * b for b in other)) ** 0.5
        return EvalOutputItem(id=sample.item_id, score=round(dot / norm, 6), reasoning={})


@register_evaluator(config_type=SimilarityConfig)
async def similarity(config: SimilarityConfig, builder: EvalBuilder):
    wrapper = LLMFrameworkEnum.LANGCHAIN
    embedder = await builder.get_embedder(config.embedder_name, wrapper_type=wrapper)
    info = EvaluatorInfo(config=config, description="Compares embeddings")
    info.evaluate_atif_fn = Similarity(embedder, builder.get_max_concurrency()).evaluate_atif_fn
    yield info


class RaisesConfig(EvaluatorBaseConfig, name="corpus_raises"):
    """Raises for an item, for all of them at once, or while it is built."""

    where: str = "item"


class Raises(BaseEvaluator):
    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        if int(str(item.output_obj) or 1) % 2:
            raise KeyError("odd")
        return EvalOutputItem(id=item.id, score=1.0, reasoning="even")

    async def evaluate(self, eval_input: EvalInput) -> EvalOutput:
        if self.where == "evaluate":
            raise RuntimeError("the whole evaluator")
        return await super().evaluate(eval_input)


@register_evaluator(config_type=RaisesConfig)
async def raises(config: RaisesConfig, builder: EvalBuilder):
    if config.where == "build":
        raise RuntimeError("cannot be built")
    yield EvaluatorInfo(
        config=config, evaluate_fn=Raises(config.where).evaluate, description="Raises"
    )
    if config.where == "teardown":
        raise RuntimeError("cannot be closed")


class RankConfig(EvaluatorBaseConfig, name="corpus_rank"):
    """Needs all items at once: an item's score is its place among the others."""


class Rank(BaseEvaluator):
    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        raise NotImplementedError("one item has no rank")

    async def evaluate(self, eval_input: EvalInput) -> EvalOutput:
        items = eval_input.eval_input_items
        order = sorted(items, key=lambda item: (len(str(item.output_obj)), str(item.output_obj)))
        places = {id(item): place for place, item in enumerate(order)}
        scored = [
            EvalOutputItem(
                id=item.id,
                score=places[id(item)] / max(1, len(items) - 1),
                reasoning={"place": places[id(item)], "of": len(items)},
            )
            for item in items
        ]
        return EvalOutput(average_score="not meaningful", eval_output_items=scored)


@register_evaluator(config_type=RankConfig)
async def rank(config: RankConfig, builder: EvalBuilder):
    yield EvaluatorInfo(config=config, evaluate_fn=Rank().evaluate, description="Ranks")


class SetUpConfig(EvaluatorBaseConfig, name="corpus_set_up"):
    """Opens a journal before the first item, and closes it after the last."""

    journal: str = "journal.txt"


class Journal(BaseEvaluator):
    def __init__(self, path: Path) -> None:
        super().__init__(max_concurrency=1)
        self.path = path
        self.open = False

    def note(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        self.note(f"item {item.id}")
        return EvalOutputItem(id=item.id, score=float(self.open), reasoning=None)


@register_evaluator(config_type=SetUpConfig)
async def set_up(config: SetUpConfig, builder: EvalBuilder):
    evaluator = Journal(Path(config.journal))
    evaluator.note("set up")
    evaluator.open = True
    try:
        yield EvaluatorInfo(config=config, evaluate_fn=evaluator.evaluate, description="Journal")
    finally:
        evaluator.open = False
        evaluator.note("torn down")


class FunctionConfig(EvaluatorBaseConfig, name="corpus_function"):
    """Asks a function of the configuration."""

    function_name: FunctionRef


class ByFunction(BaseEvaluator):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        value = await self.function.ainvoke(str(item.input_obj), to_type=str)
        score = float(value in str(item.output_obj))
        return EvalOutputItem(id=item.id, score=score, reasoning={"function": value})


@register_evaluator(config_type=FunctionConfig)
async def by_function(config: FunctionConfig, builder: EvalBuilder):
    evaluator = ByFunction(await builder.get_function(config.function_name))
    yield EvaluatorInfo(config=config, evaluate_fn=evaluator.evaluate, description="A function")


class TracesConfig(EvaluatorBaseConfig, name="corpus_traces"):
    """Counts the events of a run, unfiltered."""


class Traces(BaseEvaluator):
    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        kinds = Counter(step.event_type.value for step in item.trajectory)
        starts = kinds["LLM_START"] + kinds["FUNCTION_START"]
        return EvalOutputItem(id=item.id, score=starts, reasoning=dict(sorted(kinds.items())))


@register_evaluator(config_type=TracesConfig)
async def traces(config: TracesConfig, builder: EvalBuilder):
    yield EvaluatorInfo(config=config, evaluate_fn=Traces().evaluate, description="Counts events")


class EntryConfig(EvaluatorBaseConfig, name="corpus_entry"):
    """Reads the other columns of the dataset, and the expected trajectory."""

    column: str = "level"


class Entry(BaseEvaluator):
    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column

    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        entry = item.full_dataset_entry
        expected = [step.name for step in item.expected_trajectory]
        used = [step.name for step in item.trajectory if step.event_type.value == "TOOL_END"]
        score = {"easy": 0.5, "hard": 1.0}.get(entry.get(self.column), 0.0) * right(item)
        return EvalOutputItem(
            id=item.id,
            score=score + (expected == used),
            reasoning={"columns": sorted(entry), "expected": expected, "used": used},
        )


@register_evaluator(config_type=EntryConfig)
async def entry(config: EntryConfig, builder: EvalBuilder):
    yield EvaluatorInfo(
        config=config, evaluate_fn=Entry(config.column).evaluate, description="Reads columns"
    )


class OddConfig(EvaluatorBaseConfig, name="corpus_odd"):
    """Returns what an evaluator may return, and rarely does."""

    kind: str = "scores"


SCORES: list[Any] = [True, None, "good", float("nan"), {"a": 1}, 3, -2.5, float("inf"), "0.5"]


@register_evaluator(config_type=OddConfig)
async def odd(config: OddConfig, builder: EvalBuilder):
    class Scores(BaseEvaluator):
        async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
            score = SCORES[int(item.full_dataset_entry["number"]) % len(SCORES)]
            error = "said so" if score is None else None
            return EvalOutputItem(
                id=item.id, score=score, reasoning=[type(score).__name__], error=error
            )

    async def fewer(eval_input: EvalInput) -> EvalOutput:
        ids = [item.id for item in eval_input.eval_input_items]
        ids = [*ids[1:], ids[-1], "stranger"]  # one is missing, one is double, one is unknown
        items = [EvalOutputItem(id=id_, score=1, reasoning={}) for id_ in ids]
        return EvalOutput(average_score=None, eval_output_items=items)

    async def empty(eval_input: EvalInput) -> EvalOutput:
        return EvalOutput(average_score=0.25, eval_output_items=[])

    async def nothing(eval_input: EvalInput) -> None:
        return None

    async def opaque(eval_input: EvalInput) -> EvalOutput:
        items = [
            EvalOutputItem(id=item.id, score=1, reasoning={"object": object()})
            for item in eval_input.eval_input_items
        ]
        return EvalOutput(average_score=1, eval_output_items=items)

    def plain(eval_input: EvalInput) -> EvalOutput:
        return EvalOutput(average_score=1, eval_output_items=[])

    async def both(atif_samples: AtifEvalSampleList) -> EvalOutput:
        raise RuntimeError("the whole ATIF evaluator")

    functions = {
        "scores": Scores().evaluate,
        "fewer": fewer,
        "empty": empty,
        "nothing": nothing,
        "plain": plain,
        "opaque": opaque,
        "atif_raises": Scores().evaluate,
    }
    info = EvaluatorInfo(config=config, evaluate_fn=functions[config.kind], description="Odd")
    if config.kind == "atif_raises":
        info.evaluate_atif_fn = both
    yield info
