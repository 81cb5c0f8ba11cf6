"""How does a scorer of Inspect score?

It is a function of a `TaskState` and a `Target`, with its name and parameters in its registry's
attributes. An unreadable reply of a grader becomes NaN: here it is a failure. Inspect's retries and
connection limits are off for the call: Limpet paces and retries.
"""

import asyncio
import copy
import math
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from inspect import unwrap
from typing import Any

from limpet.errors import InvalidReplyError, PermanentError, SetupError
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields
from limpet.evaluators.libraries.overrides import (
    format_fields,
    is_of,
    replaced,
    shown_address,
    variables,
    without_retries,
)
from limpet.evaluators.libraries.shapes import get, has, loaded
from limpet.placeholders import value_as_text
from limpet.shapes import Output, Score, Usage
from limpet.text import one_line, text_of
from limpet.usage import add_receipt, current_receipts, plain_usage

_INFO, _PARAMS = "__registry_info__", "__registry_params__"
_MODELS, _CONFIG = "inspect_ai.model._model", "inspect_ai.model._generate_config"
_FIELDS = {"input": "{{input}}", "output": "{{output}}", "target": "{{expected}}"}
_FILLED = ("question", "answer", "criterion", "instructions")  # by Inspect itself
_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's own
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_CONNECTIONS = 100_000  # the pacer limits them


class InspectScorer(Adapter):
    """The result of a function decorated with Inspect's `@scorer`."""

    library = "Inspect"
    package = "inspect-ai"

    @classmethod
    def fits(cls, thing: Any) -> bool:
        return has(thing, _INFO) and get(thing, _INFO, "type") == "scorer"

    def own_name(self) -> str:
        return str(get(self.theirs, _INFO, "name")).rpartition("/")[2]

    def wanted(self) -> EvaluatorFields:
        if not has(self.theirs, _PARAMS):
            name = self.own_name()
            raise TypeError(f"{name} makes scorers: call it, {name}(…)")
        if not is_of(self.theirs, "inspect_ai"):  # it may look at any field of the dataset
            defaults = {**_FIELDS, "metadata": "{{row}}"}
            return EvaluatorFields(tuple(defaults), ("choices",), any_other=True, defaults=defaults)
        template = self._held.get("grading_template")
        named = format_fields(template) if isinstance(template, str) else ()
        fields = (*_FIELDS, *(name for name in named or () if name not in _FILLED))
        return EvaluatorFields(fields, ("metadata", "choices"), any_other=True, defaults=_FIELDS)

    @cached_property
    def _held(self) -> dict[str, Any]:
        return dict(_held(self.theirs))

    def parts(self) -> Mapping[str, Any]:
        return {
            "scorer": get(self.theirs, _INFO, "name"),
            "params": get(self.theirs, _PARAMS),
            "models": [_described(value) for name, value in _held(self.theirs) if _is_model(name)],
        }

    @property
    def code(self) -> Mapping[str, Any]:
        users = {
            f"{name}: ": value
            for name, value in _held(self.theirs)
            if callable(value) and not is_of(value, "inspect_ai") and not has(value, "api")
        }
        if is_of(self.theirs, "inspect_ai"):
            return users
        look_up = loaded("inspect_ai._util.registry", "registry_lookup")
        factory = look_up and look_up("scorer", get(self.theirs, _INFO, "name"))
        return {"": unwrap(factory) if callable(factory) else type(self.theirs)}

    @property
    def _models(self) -> list[Any]:
        return [value for _, value in _held(self.theirs) if has(value, "api", "generate")]

    def model(self) -> tuple[Any, Any] | None:
        models = self._models
        return (_address(models[0]), get(models[0], "api", "model_name")) if models else None

    def clients(self) -> list[Any]:
        return [get(model, "api", "client") for model in self._models]

    # ---- calling ------------------------------------------------------------------------------

    async def open(self) -> None:
        await super().open()
        self._roles: dict[str, Any] = {}
        self._scorer = replaced(self.theirs, self._without_retries, "inspect_ai")

    def _without_retries(self, name: str, value: Any) -> Any:
        if has(value, "api", "generate"):
            return _impatient(value)
        if not is_of(self.theirs, "inspect_ai"):
            return value
        if name == "model" and (value is None or isinstance(value, str)):
            return _impatient(self._model(value))
        if name == "role" and has(value, "name", "required"):
            model = self._model(role=value.name, required=value.required)
            self._roles[value.name] = _impatient(model)
        return value

    def _model(self, *args: Any, **named: Any) -> Any:
        try:
            return loaded(_MODELS, "get_model")(*args, **named)
        except Exception as error:
            raise SetupError(
                f"{self.name}: Inspect has no model: {one_line(text_of(error))}",
                hint='give one: model_graded_qa(model="openai/gpt-4.1-mini")',
            ) from error

    async def score(self, values: Mapping[str, Any]) -> Any:
        # A task has its own context: nothing of Inspect's remains in ours.
        return await asyncio.create_task(self._score(values))

    async def _score(self, values: Mapping[str, Any]) -> Any:
        _prepare(self._roles)
        try:
            returned = await self._scorer(*_state_and_target(values))
            return Output(self._read(returned, values["output"]), usage=_usage())
        except Exception as error:
            if not current_receipts():  # of a client that we do not know
                add_receipt(plain_usage(_usage()))
            if type(error).__name__ == "RetryError" and error.__cause__ is not None:
                raise error.__cause__ from None  # tenacity's, which says nothing
            raise

    def _read(self, returned: Any, output: Any) -> Any:
        if returned is None:
            raise PermanentError(f"{self.name} returned no score")
        value, reason, why = (get(returned, part) for part in ("value", "reason", "explanation"))
        if reason == "grader_failed":
            raise InvalidReplyError(f"{self.name}: {one_line(why or 'the grader failed')}")
        if isinstance(value, float) and math.isnan(value):
            raise PermanentError(f"{self.name} has no score: {one_line(reason or why or 'NaN')}")
        if isinstance(value, Mapping):
            return {str(part): _as_score(each, returned, output) for part, each in value.items()}
        return _as_score(value, returned, output)


def _prepare(roles: Mapping[str, Any]) -> None:
    """Set Inspect's context for one call: no retries, no limits, nothing kept."""
    config = loaded(_CONFIG, "GenerateConfig")(max_retries=0, max_connections=_CONNECTIONS)
    loaded(_CONFIG, "set_active_generate_config")(config)
    loaded(_MODELS, "init_sample_model_usage")()
    if roles:
        loaded(_MODELS, "init_model_roles")(dict(roles))
    log = "inspect_ai.log._transcript"
    loaded(log, "init_transcript")(loaded(log, "Transcript")())


def _state_and_target(values: Mapping[str, Any]) -> tuple[Any, Any]:
    named = dict(values)
    question, answer = (value_as_text(named.pop(name)) for name in ("input", "output"))
    target, choices = _target(named.pop("target")), named.pop("choices", None)
    metadata = {**(named.pop("metadata", None) or {}), **named}
    models, model = "inspect_ai.model", loaded(_MODELS, "ModelName")("limpet/workflow")
    user = loaded(models, "ChatMessageUser")(content=question)
    output = loaded(models, "ModelOutput").from_content("limpet/workflow", answer)
    state = loaded("inspect_ai.solver", "TaskState")(
        model=model, sample_id=1, epoch=1, input=question,
        messages=[user, output.message], target=target, choices=choices, output=output,
        metadata=metadata,
    )  # fmt: skip
    return state, target


def _target(expected: Any) -> Any:
    if expected is None:
        expected = ""
    texts = [value_as_text(part) for part in expected] if isinstance(expected, list) else None
    return loaded("inspect_ai.scorer", "Target")(texts or value_as_text(expected))


def _as_score(value: Any, returned: Any, output: Any) -> Score:
    extra = {part: get(returned, part) for part in ("answer", "reason")}
    known = (None, output)  # the output is on disk already
    metadata = {part: found for part, found in extra.items() if found not in known} or None
    explanation = get(returned, "explanation")
    if isinstance(value, str):
        return Score(_VALUES.get(value), label=value, explanation=explanation, metadata=metadata)
    return Score(value, explanation=explanation, metadata=metadata)


def _usage() -> Usage | None:
    """Return the usage of the models in this context."""
    by_model = loaded(_MODELS, "sample_model_usage")()
    if not by_model:
        return None
    counts = {str(model): _counts(usage) for model, usage in by_model.items()}
    costs = [cost for usage in by_model.values() if (cost := usage.total_cost) is not None]
    prompt, completion, total = (sum(c[part] for c in counts.values()) for part in _COUNTS)
    return Usage(prompt, completion, total, cost=sum(costs) if costs else None, models=counts)


def _counts(usage: Any) -> dict[str, int]:
    cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
    return {
        "prompt_tokens": usage.input_tokens + cached,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


# ---- models ------------------------------------------------------------------------------------


def _held(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables in a scorer's closure, and in those of Inspect's functions there."""
    for name, held in variables(value):
        for item in held if isinstance(held, list) else [held]:
            if is_of(item, "inspect_ai"):
                yield from _held(item)
            else:
                yield name, item


def _is_model(name: str) -> bool:
    return name in ("model", "role")


def _described(value: Any) -> Any:
    if not has(value, "api", "generate"):
        return [value, os.environ.get("INSPECT_EVAL_MODEL")]
    config = get(value, "config")
    return {
        "name": str(value),
        "address": _address(value),
        "config": config.model_dump(exclude_none=True, mode="json") if config else None,
    }


def _address(model: Any) -> str | None:
    address = get(model, "api", "client", "base_url") or get(model, "api", "base_url")
    return shown_address(address)


def _impatient(model: Any) -> Any:
    """Return a copy of a model whose client makes no retries."""
    model = copy.copy(model)
    model.api = copy.copy(model.api)
    if has(model.api, "client"):
        model.api.client = without_retries(model.api.client)
    return model
