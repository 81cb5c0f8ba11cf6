"""How does an evaluator of the NeMo Agent Toolkit score one item?

Its function for a single item is called, never the one for a whole dataset, so that a failure stays
a failure. The toolkit writes a score of 0 for many failures; their reasoning shows which.
"""

import copy
import math
import re
from collections.abc import Mapping
from functools import wraps
from importlib import import_module
from typing import Any

from limpet.errors import InvalidReplyError, PermanentError, RateLimitError, TransientError
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields
from limpet.evaluators.libraries.clients import outspoken, refusals
from limpet.evaluators.libraries.overrides import address_and_model, described, without_retries
from limpet.evaluators.libraries.shapes import get, has, settings_of
from limpet.nat_trace import nat_steps
from limpet.shapes import Score
from limpet.text import one_line

ONE_ATTEMPT: Mapping[str, Any] = {
    "stop_after_attempt": 1,
    "initial_backoff_delay_seconds": 1,
    "has_exponential_jitter": False,
}
"""`llm_retry_control_params` that make no retries."""
_FIELDS = {
    "id": "{{id}}",
    "input_obj": "{{input}}",
    "expected_output_obj": "{{expected}}",
    "output_obj": "{{output}}",
    "trajectory": "{{trace}}",
    "full_dataset_entry": "{{row}}",
}
_UNCOUNTED = ("llm", "metric", "max_concurrency", "tqdm_desc", "llm_retry_control_params")
_REFUSED = re.compile(r"\b429\b|RateLimit|Too Many Requests", re.IGNORECASE)
_RAISED = "Evaluator error: "
_UNREADABLE = "Error in evaluator from parsing judge LLM response"


class NatEvaluator(Adapter):
    """An object with `evaluate_item`, as the toolkit's `BaseEvaluator` has it."""

    library = "the NeMo Agent Toolkit"
    package = "nvidia-nat"

    @classmethod
    def fits(cls, thing: Any) -> bool:
        return has(thing, "evaluate_item", "semaphore")

    def own_name(self) -> str:
        return type(self.theirs).__name__

    def wanted(self) -> EvaluatorFields:
        return EvaluatorFields(tuple(_FIELDS), optional=("expected_trajectory",), defaults=_FIELDS)

    def parts(self) -> Mapping[str, Any]:
        stated = settings_of(self.theirs, without=_UNCOUNTED)
        llm, metric = get(self.theirs, "llm"), get(self.theirs, "metric")
        stated |= {} if llm is None else {"model": described(llm)}
        return stated | ({} if metric is None else {"metric": settings_of(metric)})

    def model(self) -> tuple[Any, Any] | None:
        return address_and_model(get(self.theirs, "llm"))

    async def open(self) -> None:
        await super().open()
        self._evaluator = _impatient(self.theirs)

    def clients(self) -> list[Any]:
        return [get(self.theirs, "llm", "root_async_client")]

    async def score(self, values: Mapping[str, Any]) -> Any:
        item = {**values, "trajectory": nat_steps(values["trajectory"])}
        if item["expected_output_obj"] is None:
            item["expected_output_obj"] = ""
        models = import_module("nat.data_models.evaluator")
        with refusals():
            returned = await self._evaluator.evaluate_item(models.EvalInputItem(**item))
        return score_of_item(returned, self.name)


def _impatient(evaluator: Any) -> Any:
    """Return a copy of an evaluator whose model neither retries nor hides a refusal."""
    evaluator = copy.copy(evaluator)
    if has(evaluator, "llm_retry_control_params"):
        evaluator.llm_retry_control_params = dict(ONE_ATTEMPT)
    llm = get(evaluator, "llm")
    if has(llm, "ainvoke"):
        evaluator.llm = outspoken(copy.copy(without_retries(llm)))
    if has(evaluator, "metric"):
        evaluator.metric = copy.copy(evaluator.metric)
    refuse_missing_values(evaluator)
    return evaluator


def refuse_missing_values(evaluator: Any) -> None:
    """Let a metric of ragas without a value fail: the toolkit would score it 0."""
    metric = getattr(evaluator, "metric", None)
    scoring = getattr(metric, "ascore", None)
    if scoring is None or hasattr(scoring, "__wrapped__"):
        return

    @wraps(scoring)
    async def ascore(*args: Any, **kwargs: Any) -> Any:
        result = await scoring(*args, **kwargs)
        value = getattr(result, "value", None)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            reason = getattr(result, "reason", None) or "the judge's reply could not be read"
            raise InvalidReplyError(f"ragas has no score: {one_line(reason)}")
        return result

    object.__setattr__(metric, "ascore", ascore)


# ---- what came back ---------------------------------------------------------------------------


def score_of_item(item: Any, name: str) -> Any:
    """Return the score of one of the toolkit's items.

    Raises:
        LimpetError: It means a failure.
        PermanentError: There is no score.
    """
    score, reasoning = item.score, item.reasoning
    if _is_unreadable(reasoning):
        raise InvalidReplyError(f"{name}: the judge's reply could not be read")
    failure = _failure_in(getattr(item, "error", None), reasoning)
    if failure is not None:
        if _REFUSED.search(failure):
            raise RateLimitError(failure)
        raise TransientError(failure)
    if isinstance(score, Mapping):
        return {part: Score(value, explanation=reasoning) for part, value in score.items()}
    if isinstance(score, str):
        return Score(None, label=score, explanation=reasoning)
    if score is None:
        raise PermanentError(f"{name} returned no score: {one_line(reasoning)}")
    return Score(score, explanation=reasoning)


def _failure_in(error: Any, reasoning: Any) -> str | None:
    """Return the failure that a score of 0 means; None if it is a score."""
    if error:
        return one_line(error)
    if not isinstance(reasoning, Mapping):
        return None
    raised = reasoning.get("error")
    if isinstance(raised, str) and raised.startswith(_RAISED):
        return one_line(raised.removeprefix(_RAISED))
    is_trajectory = {"error_type", "trajectory", "question_text"} <= reasoning.keys()
    if is_trajectory and not reasoning.get("recovered_from_output_parser_error"):
        return f"the judge failed: {one_line(reasoning['error_type'])}"
    return None


def _is_unreadable(reasoning: Any) -> bool:
    text = reasoning.get("reasoning") if isinstance(reasoning, Mapping) else reasoning
    return isinstance(text, str) and text.startswith(_UNREADABLE)
