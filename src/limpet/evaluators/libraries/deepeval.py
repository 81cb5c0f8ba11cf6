"""How does a metric of DeepEval score one output?

A metric keeps the result of its last measurement, so each call gets a copy. A threshold is not part
of the score: editing it redoes nothing.
"""

import copy
import inspect
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from limpet.errors import PermanentError
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields
from limpet.evaluators.libraries.overrides import Overrides
from limpet.evaluators.libraries.shapes import get, has, loaded, openai_address, plain, settings_of
from limpet.placeholders import value_as_text
from limpet.secrets.known import maskable
from limpet.shapes import Output, Score, Usage
from limpet.text import one_line, text_of

_TEXTS = ("input", "actual_output", "expected_output")
_LISTS = ("context", "retrieval_context")
_NOT_SETTINGS = ("name", "threshold", "async_mode", "verbose_mode", "flaky", "model")
_RETRIES = "DEEPEVAL_RETRY_MAX_ATTEMPTS"


class DeepEvalMetric(Adapter):
    """A metric of DeepEval."""

    library = "DeepEval"
    package = "deepeval"
    bad_replies = (
        "DeepEvalError", "ValueError", "KeyError", "AttributeError",
        "LengthFinishReasonError", "ContentFilterFinishReasonError",
    )  # fmt: skip

    def __init__(
        self, theirs: Any, name: str | None = None, inputs: Mapping[str, Any] | None = None
    ) -> None:
        _refuse(theirs)
        self._overrides = Overrides()
        self._http: Any = None
        super().__init__(theirs, name, inputs)

    @classmethod
    def fits(cls, thing: Any) -> bool:
        return has(thing, "a_measure", "threshold") and _test_case() is not None

    def own_name(self) -> str:
        name = get(self.theirs, "name")
        return name if isinstance(name, str) else str(get(self.theirs, "__name__"))

    def wanted(self) -> EvaluatorFields:
        params = get(self.theirs, "evaluation_params") or get(self.theirs, "_required_params")
        if isinstance(params, (list, tuple)):
            names = [str(get(param, "value") or param) for param in params]
        else:  # a user's metric that declares nothing
            names = list(_TEXTS)
        required = tuple(dict.fromkeys(["input", *names]))  # every test case has an input
        known = tuple(get(_test_case(), "model_fields") or ())
        return EvaluatorFields(required, tuple(name for name in known if name not in required))

    def parts(self) -> Mapping[str, Any]:
        settings = settings_of(self.theirs, without=_NOT_SETTINGS)
        model = get(self.theirs, "model")
        return {
            # The rest of its attributes are results of the last measurement.
            **{name: settings[name] for name in _parameters(type(self.theirs)) if name in settings},
            "rubric": plain(get(self.theirs, "rubric")),
            "model": {
                "name": get(self.theirs, "evaluation_model"),
                "temperature": get(model, "temperature"),
                "generation_kwargs": get(model, "generation_kwargs"),
            },
        }

    @property
    def code(self) -> Mapping[str, Any]:
        template = get(self.theirs, "evaluation_template")
        used = {"template: ": template} if isinstance(template, type) else {}
        return {"": type(self.theirs), **used}

    def model(self) -> tuple[Any, Any] | None:
        model = get(self.theirs, "model")
        address = get(model, "base_url")
        if address is None and type(model).__name__ in ("OpenAIModel", "GPTModel"):
            address = openai_address()
        return address, get(self.theirs, "evaluation_model")

    @property
    def secrets(self) -> Collection[str]:  # type: ignore[override]  # it is only read
        """The key of its model."""
        key = get(self.theirs, "model", "api_key")
        reveal = get(key, "get_secret_value")  # pydantic's
        return maskable([reveal() if callable(reveal) else str(key)]) if key else ()

    def clients(self) -> Iterable[Any]:
        return [self._http or get(self.theirs, "model", "async_http_client")]

    async def open(self) -> None:
        self._overrides.set(os.environ, _RETRIES, "1")  # attempts, with the first
        client = loaded("openai", "DefaultAsyncHttpxClient")
        model = get(self.theirs, "model")
        if client is not None and has(model, "async_http_client") and not model.async_http_client:
            self._http = client()  # DeepEval would make one for each call, and close none
        await super().open()

    async def close(self) -> None:
        self._overrides.restore()
        await super().close()
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def score(self, values: Mapping[str, Any]) -> Any:
        metric = self._copy()
        case = self._case(values)
        try:
            value = await metric.a_measure(case, _show_indicator=False)
        except Exception as error:
            if type(error).__name__ in ("MissingTestCaseParamsError", "ContextWindowExceededError"):
                raise PermanentError(f"{self.name}: {one_line(text_of(error))}") from error
            raise
        if failure := get(metric, "error"):
            raise PermanentError(f"{self.name}: {one_line(failure)}")
        return Output(Score(value, explanation=get(metric, "reason")), _usage(metric))

    def _copy(self) -> Any:
        metric = copy.copy(self.theirs)
        if self._http is not None:
            metric.model = copy.copy(metric.model)
            metric.model.async_http_client = self._http
        return metric

    def _case(self, values: Mapping[str, Any]) -> Any:
        given = dict(values)
        for name in (name for name in _TEXTS if given.get(name) is not None):
            given[name] = value_as_text(given[name])
        for name in (name for name in _LISTS if given.get(name) is not None):
            value = given[name]
            parts = value if isinstance(value, (list, tuple)) else [value]
            given[name] = [value_as_text(part) for part in parts]
        try:
            return _test_case()(**given)
        except ValueError as error:
            raise PermanentError(
                f"{self.name}: its test case does not fit: {one_line(text_of(error))}"
            ) from error


def _test_case() -> Any:
    return loaded("deepeval.test_case", "LLMTestCase")


def _refuse(metric: Any) -> None:
    """Raise a TypeError for a metric that cannot score single outputs, or not reproducibly."""
    kind = type(metric).__name__
    for other in ("BaseConversationalMetric", "BaseArenaMetric"):
        base = loaded("deepeval.metrics", other)
        if isinstance(base, type) and isinstance(metric, base):
            raise TypeError(f"{kind} scores conversations or contests, not single outputs")
    if has(metric, "evaluation_steps", "criteria") and not get(metric, "evaluation_steps"):
        raise TypeError(
            f"{kind} has no evaluation_steps: DeepEval would write different steps for each item, "
            "with an extra call; give evaluation_steps=[…]"
        )
    if get(metric, "requires_trace"):
        raise TypeError(f"{kind} evaluates DeepEval's own traces; give it evaluation_params=[…]")


def _parameters(kind: type) -> list[str]:
    """Return the parameters of a class's constructors."""
    names: dict[str, None] = {}
    for base in kind.__mro__:
        try:
            names.update(dict.fromkeys(inspect.signature(base.__init__).parameters))  # type: ignore[misc]
        except (ValueError, TypeError):
            continue
    return sorted(names)


def _usage(metric: Any) -> Usage | None:
    prompt, completion = get(metric, "input_tokens"), get(metric, "output_tokens")
    if not isinstance(prompt, int) or not isinstance(completion, int) or not prompt + completion:
        return None  # also zero: it counts only models whose price it knows
    return Usage(prompt, completion, cost=get(metric, "evaluation_cost") or None)
