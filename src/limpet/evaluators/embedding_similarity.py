"""How close is the output to the expected string in meaning, by a model's vectors?"""

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Any, cast

from limpet.errors import PermanentError
from limpet.evaluators.builtin import as_string, brief, item_name, why_no_string
from limpet.evaluators.embedding_batches import EmbeddingBatches, EmbeddingModel, Vector
from limpet.evaluators.model_evaluator import models_of
from limpet.evaluators.protocol import Evaluator, Scored, checked_name
from limpet.fingerprints.keys import digest
from limpet.models.protocol import model_name
from limpet.types import Output, Scale, Score

_VERSION = 1


def embedding_similarity(model: Any, *, name: str = "embedding_similarity") -> Evaluator:
    """Score the cosine of the vectors of the output and the expected string, from -1 to 1.

    If the item expects a list of strings, the closest counts. An empty output, or one that is not a
    string or a number, scores 0 without a call. The texts of many items share a request.

    Args:
        model: A model with `embed`, as `limpet.models.openai_api` returns.
        name: Its name.

    Raises:
        TypeError: The model has no `embed`.
    """
    return _EmbeddingSimilarity(name, model)


class _EmbeddingSimilarity(Evaluator):
    """Compares vectors; see `embedding_similarity`."""

    endpoint = None  # a request serves many cells: it is paced, not they
    reads = ("output", "expected")
    needs = ("expected",)
    scale = Scale(range=(-1, 1))

    def __init__(self, name: str, model: Any) -> None:
        self.name = checked_name(name)
        if not callable(getattr(model, "embed", None)):
            raise TypeError(f"model={brief(model)}: has no method embed, so it gives no vectors")
        (self._model,) = models_of(model)
        self._batches = EmbeddingBatches(cast("EmbeddingModel", model))

    def __repr__(self) -> str:
        return f"<embedding_similarity {self.name}: {self._model.name}>"

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """The secrets of its model."""
        return list(self._model.secrets)

    @property
    def model_names(self) -> list[str]:
        """The name of its model, as it is asked for."""
        return [model_name(self._model)]

    @property
    def fingerprint(self) -> dict[str, str]:  # type: ignore[override]  # it is only read
        """What its scores depend on, part by part."""
        parts = {f"model.{name}": part for name, part in self._model.fingerprint.items()}
        return {"embedding_similarity": digest("embedding_similarity", _VERSION), **parts}

    @property
    def described(self) -> dict[str, Any]:
        """What the fingerprint covers, for people."""
        parts = {f"model.{name}": part for name, part in self._model.described.items()}
        return {"embedding_similarity": {"version": _VERSION}, **parts}

    async def open(self) -> None:
        await self._model.open()

    async def close(self) -> None:
        await self._batches.close()
        await self._model.close()

    async def call(self, scored: Scored) -> Output:
        expected, output = _expected_strings(scored), as_string(scored.output)
        if output is None or not output.strip():
            why = why_no_string(scored.output) if output is None else "the output is empty"
            return Output({"score": Score(0.0, explanation=why)})
        embedded = await self._batches.embed([output, *expected])
        first, *others = embedded.vectors
        value = max(_cosine(first, other, scored) for other in others)
        return Output({"score": Score(value)}, embedded.usage)


def _expected_strings(scored: Scored) -> list[str]:
    """Return the expected strings.

    Raises:
        PermanentError: There is none, or one is empty or not a string.
    """
    expected = scored.expected
    listed = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    strings = [as_string(value) for value in listed]
    if not strings or not all(string and string.strip() for string in strings):
        raise PermanentError(
            f"{item_name(scored)}: its expected value must be a string that is not empty, or a "
            f"list of them, not {brief(expected)}"
        )
    return [string for string in strings if string is not None]


def _cosine(left: Vector, right: Vector, scored: Scored) -> float:
    lengths = _length(left) * _length(right)
    if len(left) != len(right) or not math.isfinite(lengths) or lengths == 0:
        raise PermanentError(f"{item_name(scored)}: the model's vectors cannot be compared")
    product = float(sum(map(mul, left, right)))
    return min(1.0, max(-1.0, product / lengths))


def _length(vector: Sequence[float]) -> float:
    return math.hypot(*vector)
