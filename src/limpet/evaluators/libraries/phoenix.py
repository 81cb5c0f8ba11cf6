"""How does an evaluator of Arize Phoenix score one output?

`phoenix.evals`: classifiers, ready metrics, functions under `@create_evaluator`, and classes of the
user. A mapping bound with `bind_evaluator` is kept: it reads `input`, `output`, `expected` and
fields of the dataset.
"""

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

from limpet.errors import PermanentError
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields, scores_by_name
from limpet.evaluators.libraries.shapes import get, has, plain, settings_of
from limpet.placeholders import value_as_text
from limpet.shapes import Score
from limpet.text import one_line, text_of

_ROW = "row"
_NOT_SETTINGS = ("_name", "_docstring", "_input_mapping")


class PhoenixEvaluator(Adapter):
    """An evaluator of Phoenix."""

    library = "Phoenix"
    package = "arize-phoenix-evals"

    def __init__(
        self, theirs: Any, name: str | None = None, inputs: Mapping[str, Any] | None = None
    ) -> None:
        if get(theirs, "llm") is not None:
            # Not JSON; a label that is not a choice; JSON without a label, or not an object.
            self.bad_replies = ("ValueError", "KeyError", "TypeError")
        self._paced = _without_limiters(theirs)
        self._mapping: Mapping[str, Any] = get(theirs, "_input_mapping") or {}
        self._computes = any(callable(source) for source in self._mapping.values())
        super().__init__(theirs, name, inputs)

    @classmethod
    def fits(cls, thing: Any) -> bool:
        return has(thing, "async_evaluate", "input_schema")

    def own_name(self) -> str:
        return str(self.theirs.name)

    def wanted(self) -> EvaluatorFields:
        schema = self._schema()
        required = [name for name, field in schema.items() if field.is_required()]
        optional = tuple(name for name in schema if name not in required)
        if not self._mapping:
            return EvaluatorFields(tuple(required), optional, any_other=not schema)
        names = [_first_name(field, source) for field, source in self._mapping.items()]
        sources = [name for name in names if name is not None]
        if self._computes:  # with a function of everything
            sources += [_ROW, "input", "output", "expected"]
        unmapped = [name for name in required if name not in self._mapping]
        defaults = {name: f"{{{{{name}}}}}" for name in sources}
        wanted = tuple(dict.fromkeys([*sources, *unmapped]))
        return EvaluatorFields(wanted, optional, any_other=True, defaults=defaults)

    def _schema(self) -> Mapping[str, Any]:
        """Return the fields of its input, with pydantic's description of each."""
        return get(self.theirs, "input_schema", "model_fields") or {}

    def parts(self) -> Mapping[str, Any]:
        llm = get(self.theirs, "llm")
        model = None if llm is None else {name: get(llm, name) for name in ("provider", "model")}
        prompt = get(self.theirs, "prompt_template", "template")
        mapping = {field: source for field, source in self._mapping.items() if not callable(source)}
        found = {"prompt": prompt, "model": model, "input_mapping": mapping or None}
        found = {part: value for part, value in found.items() if value is not None}
        return {**found, "settings": settings_of(self.theirs, without=_NOT_SETTINGS)}

    @property
    def code(self) -> Mapping[str, Any]:
        function = get(self.theirs, "_fn")  # under @create_evaluator
        computed = {
            f"{field}: ": source for field, source in self._mapping.items() if callable(source)
        }
        return {"": type(self.theirs) if function is None else function, **computed}

    def model(self) -> tuple[Any, Any] | None:
        llm = get(self.theirs, "llm")
        return get(llm, "_async_client", "base_url"), get(llm, "model")

    def clients(self) -> Iterable[Any]:
        return [get(self.theirs, "llm", "_async_client")]

    async def score(self, values: Mapping[str, Any]) -> Any:
        given = dict(values)
        if self._computes:
            given = {**given.pop(_ROW), **given}
        scores = await self._paced.async_evaluate(self._checked(given))
        if len(scores) == 1:
            return _score(scores[0])
        return scores_by_name((score.name, _score(score)) for score in scores)

    def _checked(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the input, with strings where it wants strings.

        Raises:
            PermanentError: It does not fit the schema. Phoenix would raise the same error as for a
                bad reply.
        """
        schema = self._schema()
        if self._mapping or not schema:
            return given
        texts = [name for name in given if get(schema.get(name), "annotation") is str]
        for name in texts:
            given[name] = None if given[name] is None else value_as_text(given[name])
        try:
            self.theirs.input_schema.model_validate(given)
        except ValueError as error:
            raise PermanentError(
                f"{self.name}: its input does not fit: {one_line(text_of(error))}"
            ) from error
        return given


def _without_limiters(theirs: Any) -> Any:
    """Return a copy whose model does not wait and retry by itself."""
    llm = get(theirs, "llm")
    if get(llm, "_rate_limiters") is None:
        return theirs
    paced = copy.copy(theirs)
    paced.llm = copy.copy(llm)
    paced.llm._rate_limiters = []  # noqa: SLF001 - there is no other way
    return paced


def _first_name(field: str, source: Any) -> str | None:
    """Return the name of the input that a mapping reads; None if a function computes it."""
    if callable(source):
        return None
    return re.split(r"[.\[]", str(source) or field, maxsplit=1)[0] or field


def _score(score: Any) -> Score:
    metadata = {**(score.metadata or {}), "direction": score.direction}
    return Score(score.score, score.label, score.explanation, plain(metadata))
