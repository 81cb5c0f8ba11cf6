"""How does an evaluator of openevals score?

It is a function with keyword-only `inputs`, `outputs` and `reference_outputs`, as LangSmith calls
them. It returns a dict with `key`, `score` and `comment`, or a list of them. Prompt, model and
choices are in its closure. It returns even a score outside the choices: here that is refused.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from inspect import Parameter, isfunction, signature
from typing import Any

from limpet.errors import InvalidReplyError, PermanentError, SetupError
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields, scores_by_name
from limpet.evaluators.libraries.overrides import (
    UNREADABLE,
    address_and_model,
    described,
    format_fields,
    is_chat_model,
    is_client,
    is_of,
    replaced,
    variables,
    without_retries,
)
from limpet.evaluators.libraries.shapes import get, loaded
from limpet.executors.threads import Threads, is_async
from limpet.shapes import Score
from limpet.text import one_line, text_of

_USUAL = ("inputs", "outputs", "reference_outputs")
_REASONS = ("comment", "reasoning", "explanation", "reason")


class OpenEvalsFunction(Adapter):
    """A function with keyword-only `outputs`: of openevals, or written for LangSmith."""

    library = "openevals"
    package = "openevals"

    @classmethod
    def fits(cls, thing: Any) -> bool:
        if not isfunction(thing):
            return False
        outputs = signature(thing).parameters.get("outputs")
        return outputs is not None and outputs.kind is Parameter.KEYWORD_ONLY

    def own_name(self) -> str:
        name = self.theirs.__name__
        key = self._held.get("feedback_key")
        if name != "_wrapped_evaluator":
            return str(name)
        return key if isinstance(key, str) and key != "score" else "llm_as_judge"

    @cached_property
    def _held(self) -> dict[str, Any]:
        """The variables in its closure before the first call, which changes some."""
        held = _held(self.theirs)
        if isinstance(model := held.get("model"), str):
            held["model"] = model.removeprefix("openai:") if held.get("judge") else model
        return held

    def wanted(self) -> EvaluatorFields:
        named = _names_in(self._held.get("prompt"))
        if named is not None:
            return EvaluatorFields(named, any_other=True)
        parameters = signature(self.theirs).parameters.values()
        kinds = [parameter for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
        required = [p.name for p in kinds if p.default is Parameter.empty or p.name in _USUAL]
        return EvaluatorFields(
            tuple(required),
            tuple(p.name for p in kinds if p.name not in required),
            any_other=any(p.kind is Parameter.VAR_KEYWORD for p in parameters),
        )

    def parts(self) -> Mapping[str, Any]:
        held = self._held.items()
        return {name: _stated(value) for name, value in held if not _is_code(value)}

    @property
    def code(self) -> Mapping[str, Any]:
        if not is_of(self.theirs, "openevals"):
            return {"": self.theirs}
        return {f"{name}: ": value for name, value in self._held.items() if _is_code(value)}

    def model(self) -> tuple[Any, Any] | None:
        return address_and_model(self._held.get("judge"), self._held.get("model"))

    async def open(self) -> None:
        await super().open()
        self._threads = Threads()
        self._function = replaced(self.theirs, self._without_retries, "openevals")

    async def close(self) -> None:
        self._threads.close()
        await super().close()

    def clients(self) -> list[Any]:
        judge = self._held.get("judge")
        return [get(judge, "root_async_client") if is_chat_model(judge) else judge]

    def _without_retries(self, name: str, value: Any) -> Any:
        if name == "judge" and value is None:
            return without_retries(self._chat_model())
        return without_retries(value)

    def _chat_model(self) -> Any:
        """Return the chat model that openevals would create at its first call."""
        create, model = loaded("openevals.llm", "init_chat_model"), self._held.get("model")
        if create is None or not isinstance(model, str):
            return None
        try:
            return create(model=model)
        except Exception as error:
            raise SetupError(f"{self.name}: {one_line(text_of(error))}") from error

    async def score(self, values: Mapping[str, Any]) -> Any:
        for name in _names_in(self._held.get("prompt")) or ():
            if values[name] is None:
                raise PermanentError(f"the prompt names {name}, but the item has none")
        if is_async(self._function):
            returned = await self._function(**values)
        else:
            returned = await self._threads.run(lambda _: self._function(**values), None)
        return self._read(returned)

    @property
    def bad_replies(self) -> Collection[str]:  # type: ignore[override]  # it is only read
        return UNREADABLE if self._asks else ()

    @property
    def _asks(self) -> bool:
        return "judge" in self._held

    # ---- what came back -------------------------------------------------------------------------

    def _read(self, returned: Any) -> Any:
        if isinstance(returned, list):
            return scores_by_name((str(part["key"]), self._score(part)) for part in returned)
        if not isinstance(returned, Mapping):
            return returned
        if "score" in returned:
            return self._score(returned)
        return self._scores_by_schema(returned)

    def _score(self, result: Mapping[str, Any]) -> Score:
        value, comment = result["score"], _reason_in(result)
        if self._asks:
            self._check(value)
        if isinstance(value, str):
            return Score(None, label=value, explanation=comment)
        return Score(value, explanation=comment, metadata=result.get("metadata"))

    def _check(self, value: Any) -> None:
        """Refuse a score that is not among the choices."""
        held = self._held
        if held.get("schema") is not None:
            return
        choices = held.get("choices")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if choices:
            fits, allowed = is_number and value in choices, f"one of {one_line(choices)}"
        elif held.get("continuous"):
            fits, allowed = is_number and 0 <= value <= 1, "a number from 0 to 1"
        else:
            fits, allowed = isinstance(value, bool), "true or false"
        if not fits:
            raise InvalidReplyError(
                f"{self.name}: the judge gave the score {one_line(value)}, which is not {allowed}"
            )

    def _scores_by_schema(self, result: Mapping[str, Any]) -> dict[str, Score]:
        """Return the numbers in a reply with the user's own schema."""
        reason = _reason_in(result)
        scores = {
            str(name): Score(value, explanation=reason)
            for name, value in result.items()
            if isinstance(value, (int, float))
        }
        if not scores:
            raise InvalidReplyError(f"{self.name}: there is no score in {one_line(dict(result))}")
        return scores


def _held(function: Any) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for name, value in variables(function):
        if is_of(value, "openevals"):
            held = {**_held(value), **held}
        else:
            held[name] = value
    return held


def _stated(value: Any) -> Any:
    return described(value) if is_client(value) or is_chat_model(value) else value


def _is_code(value: Any) -> bool:
    return callable(value) and not (is_client(value) or is_chat_model(value))


def _names_in(prompt: Any) -> tuple[str, ...] | None:
    """Return the fields that a prompt names; None if unknown."""
    named = get(prompt, "input_variables")  # LangChain's prompts
    if isinstance(named, list):
        return tuple(named)
    return format_fields(prompt) if isinstance(prompt, str) else None


def _reason_in(result: Mapping[str, Any]) -> str | None:
    return next((result[key] for key in _REASONS if isinstance(result.get(key), str)), None)
