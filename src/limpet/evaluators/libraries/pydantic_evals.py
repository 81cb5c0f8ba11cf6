"""How does an evaluator of pydantic-evals score one output?

It gets a context with the fields it reads. Reading a field that Limpet cannot know, like the
duration of the task, is an error unless `inputs` fills it: a made-up value would give a wrong
score.
"""

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from limpet.errors import PermanentError
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields
from limpet.evaluators.libraries.shapes import get, has, loaded, openai_address, plain
from limpet.shapes import Score

_OPTIONAL = ("name", "metadata", "duration", "attributes", "metrics")
_JUDGE = "pydantic_evals.evaluators.llm_as_a_judge"


class PydanticEvaluator(Adapter):
    """An evaluator of pydantic-evals."""

    library = "pydantic-evals"
    package = "pydantic-evals"
    bad_replies = ("UnexpectedModelBehavior", "ContentFilterError")

    def __init__(
        self, theirs: Any, name: str | None = None, inputs: Mapping[str, Any] | None = None
    ) -> None:
        self._model = _model_of(theirs)
        self._impatient = _without_retries(theirs)
        self._entered: Any = None
        super().__init__(theirs, name, inputs)

    @classmethod
    def fits(cls, thing: Any) -> bool:
        return has(thing, "evaluate_async", "as_spec")

    def own_name(self) -> str:
        return str(self.theirs.get_default_evaluation_name())

    def wanted(self) -> EvaluatorFields:
        required = ["inputs", "output", "expected_output"]
        if has(self.theirs, "include_input"):  # a judge
            required = ["output"]
            required += ["inputs"] if get(self.theirs, "include_input") else []
            required += ["expected_output"] if get(self.theirs, "include_expected_output") else []
        optional = [name for name in ("inputs", "expected_output") if name not in required]
        return EvaluatorFields(tuple(required), (*optional, *_OPTIONAL))

    def parts(self) -> Mapping[str, Any]:
        found = {
            field.name: get(self.theirs, field.name)
            for field in dataclasses.fields(self.theirs)
            if field.name not in ("model", "evaluation_name")
        }
        version = self.theirs.get_evaluator_version()
        model = get(self._model, "model_id") or self._model
        settings = plain(get(self._model, "settings"))
        return {"arguments": found, "version": version, "model": [plain(model), settings]}

    def model(self) -> tuple[Any, Any] | None:
        if isinstance(self._model, str):
            provider, _, name = self._model.partition(":")
            is_openai = provider in ("openai", "openai-chat", "openai-responses")
            return (openai_address(), name) if is_openai else None
        return get(self._model, "base_url"), get(self._model, "model_name")

    def clients(self) -> Iterable[Any]:
        return [get(self._entered or self._model, "client")]

    async def open(self) -> None:
        """Enter the model, which otherwise creates and closes a client for each call."""
        model = self._model
        if isinstance(model, str):
            model = self._impatient.model = loaded("pydantic_ai.models", "infer_model")(model)
        if has(model, "__aenter__", "__aexit__"):
            self._entered = await model.__aenter__()
        await super().open()

    async def close(self) -> None:
        await super().close()
        if self._entered is not None:
            await self._entered.__aexit__(None, None, None)
            self._entered = None

    async def score(self, values: Mapping[str, Any]) -> Any:
        returned = await self._impatient.evaluate_async(_Context(self.name, values))
        if not isinstance(returned, Mapping):
            return _score(returned)
        scores = {name: _score(part) for name, part in returned.items()}
        return scores[self.own_name()] if list(scores) == [self.own_name()] else scores


class _Context:
    """The context of an evaluator. Reading anything else fails the score."""

    def __init__(self, evaluator: str, values: Mapping[str, Any]) -> None:
        self._evaluator = evaluator
        vars(self).update(values)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _OPTIONAL:
            raise PermanentError(f"{self._evaluator} reads ctx.{name}, which Limpet does not have")
        raise PermanentError(
            f"{self._evaluator} reads ctx.{name}, which nothing fills",
            hint=f'give inputs={{"{name}": "{{{{your field}}}}"}}',
        )


def _score(returned: Any) -> Any:
    if has(returned, "value", "reason"):
        value, reason = returned.value, returned.reason
        if isinstance(value, str):
            return Score(None, label=value, explanation=reason)
        return Score(value, explanation=reason)
    return Score(None, label=returned) if isinstance(returned, str) else returned


def _model_of(theirs: Any) -> Any:
    """Return the model of a judge: an object, or a name like "openai:gpt-4.1"."""
    if not has(theirs, "model", "model_settings"):
        return None
    return get(theirs, "model") or loaded(_JUDGE, "_default_model")


def _without_retries(theirs: Any) -> Any:
    """Return a copy whose model's client does not retry by itself."""
    if not has(theirs, "model", "model_settings"):
        return theirs
    impatient = copy.copy(theirs)
    impatient.model_settings = {**(get(theirs, "model_settings") or {}), "max_retries": 0}
    return impatient
