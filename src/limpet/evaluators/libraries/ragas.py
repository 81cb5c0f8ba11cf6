"""How does a metric of ragas score one output?

It handles the metrics of `ragas.metrics.collections`, those of a prompt or a decorated function,
and the older ones that take a sample. A metric of a prompt takes its model at each call:
`inputs={"llm": llm}`.
"""

import copy
import inspect
import math
from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Any

from limpet.errors import InvalidReplyError, PermanentError
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields
from limpet.evaluators.libraries.overrides import Overrides
from limpet.evaluators.libraries.shapes import get, has, loaded, plain, settings_of
from limpet.placeholders import value_as_text
from limpet.shapes import Score
from limpet.text import one_line, text_of

_TEXTS = ("user_input", "response", "reference")
_LISTS = ("retrieved_contexts", "reference_contexts")
_NOT_SETTINGS = ("name", "_validated_data")


class RagasMetric(Adapter):
    """A metric of ragas."""

    library = "ragas"
    package = "ragas"
    bad_replies = (
        "InstructorRetryException", "IncompleteOutputException", "ValidationError",
        "RagasOutputParserException", "OutputParserException", "LLMDidNotFinishException",
    )  # fmt: skip

    def __init__(
        self, theirs: Any, name: str | None = None, inputs: Mapping[str, Any] | None = None
    ) -> None:
        given = {} if inputs is None else dict(inputs)
        self._llm = given.pop("llm", None) or get(theirs, "llm")
        self._takes_llm = False
        self._overrides = Overrides()
        super().__init__(theirs, name, given)
        if self._takes_llm and self._llm is None:
            raise TypeError(
                f"{self.name}: {type(theirs).__name__} takes its model at each call: give "
                'inputs={"llm": llm}, with the model that llm_factory made'
            )

    @classmethod
    def fits(cls, thing: Any) -> bool:
        is_older = has(thing, "single_turn_ascore", "required_columns")
        return is_older or has(thing, "ascore", "allowed_values")

    def own_name(self) -> str:
        return str(self.theirs.name)

    def wanted(self) -> EvaluatorFields:
        if self._is_older():
            columns = self.theirs.required_columns.get("SINGLE_TURN", ())
            names = sorted(str(column) for column in columns)
            required = tuple(name for name in names if not name.endswith(":optional"))
            optional = tuple(
                name.removesuffix(":optional") for name in names if name not in required
            )
            return EvaluatorFields(required, optional)
        if has(self.theirs, "get_variables"):  # a prompt
            self._takes_llm = True
            return EvaluatorFields(tuple(dict.fromkeys(self.theirs.get_variables())))
        return self._by_signature(get(self.theirs, "_func") or self.theirs.ascore)

    def _by_signature(self, function: Any) -> EvaluatorFields:
        parameters = dict(inspect.signature(function).parameters)
        self._takes_llm = parameters.pop("llm", None) is not None
        rest = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        named = {
            name: parameter for name, parameter in parameters.items() if parameter.kind not in rest
        }
        required = tuple(
            name for name, parameter in named.items() if parameter.default is Parameter.empty
        )
        optional = tuple(name for name in named if name not in required)
        return EvaluatorFields(required, optional, any_other=len(named) < len(parameters))

    def _is_older(self) -> bool:
        return has(self.theirs, "single_turn_ascore")

    def parts(self) -> Mapping[str, Any]:
        prompts = {
            name: {part: get(value, part) for part in ("instruction", "examples", "language")}
            for name, value in sorted(vars(self.theirs).items())
            if has(value, "instruction") or isinstance(get(value, "instruction"), str)
        }
        arguments = dict(get(self._llm, "model_args") or {})
        arguments.pop("max_retries", None)
        return {
            "prompts": plain(prompts),
            "model": [_model_name(self._llm), plain(arguments)],
            "embeddings": get(self.theirs, "embeddings", "model"),
            "settings": settings_of(self.theirs, without=_NOT_SETTINGS),
        }

    @property
    def code(self) -> Mapping[str, Any]:
        function = get(self.theirs, "_func")  # under a decorator
        return {"": type(self.theirs) if function is None else function}

    def model(self) -> tuple[Any, Any] | None:
        return get(_client(self._llm), "base_url"), _model_name(self._llm)

    def clients(self) -> Iterable[Any]:
        return [_client(self._llm), get(self.theirs, "embeddings", "client")]

    async def open(self) -> None:
        for client in self.clients():
            self._overrides.set(client, "max_retries", 0)
        self._overrides.set(get(self._llm, "model_args"), "max_retries", 0)
        self._overrides.set(get(self._llm, "run_config"), "max_retries", 1)  # with the first
        await super().open()

    async def close(self) -> None:
        self._overrides.restore()
        await super().close()

    async def score(self, values: Mapping[str, Any]) -> Any:
        given = _texts_and_lists(values)
        metric = copy.copy(self.theirs)  # some keep their input
        try:
            if self._is_older():
                return self._score(await metric.single_turn_ascore(_sample(given)), None)
            more = {"llm": self._llm} if self._takes_llm else {}
            result = await metric.ascore(**given, **more)
        except ValueError as error:
            if type(error) is not ValueError:
                raise
            # Its input is empty or of another type: a retry cannot help.
            raise PermanentError(f"{self.name}: {one_line(text_of(error))}") from error
        return self._score(result.value, result.reason)

    def _score(self, value: Any, reason: str | None) -> Score:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            why = f": {one_line(reason)}" if reason else ""
            raise InvalidReplyError(f"{self.name}: ragas has no score for the model's reply{why}")
        if isinstance(value, str):
            return Score(None, label=value, explanation=reason)
        return Score(value, explanation=reason)


def _texts_and_lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input with strings and lists of strings where ragas wants them."""
    given = dict(values)
    for name in (name for name in _TEXTS if given.get(name) is not None):
        given[name] = value_as_text(given[name])
    for name in (name for name in _LISTS if given.get(name) is not None):
        value = given[name]
        parts = value if isinstance(value, (list, tuple)) else [value]
        given[name] = [value_as_text(part) for part in parts]
    return given


def _sample(given: Mapping[str, Any]) -> Any:
    return loaded("ragas.dataset_schema", "SingleTurnSample")(**given)


def _client(llm: Any) -> Any:
    """Return the API's client in a model: under Instructor, or in LangChain's model."""
    for path in (("client", "client"), ("langchain_llm", "root_async_client"), ("client",)):
        client = get(llm, *path)
        if client is not None:
            return client
    return None


def _model_name(llm: Any) -> Any:
    return get(llm, "model") or get(llm, "langchain_llm", "model_name")
