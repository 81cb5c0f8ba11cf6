"""How close is the output to the expected string in meaning, by a model's vectors?"""

import asyncio
import contextvars
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import Any, NamedTuple, Protocol, cast

from limpet.errors import InvalidReplyError, PermanentError, wrong_type
from limpet.evaluators.builtin import as_string, brief, item_name, why_no_string
from limpet.evaluators.model_evaluator import models_of
from limpet.evaluators.protocol import Evaluator, Scored, checked_name
from limpet.fingerprints.keys import digest
from limpet.models.protocol import model_name
from limpet.pacing.permits import Permits, current_permits, use_permits
from limpet.shapes import Output, Scale, Score
from limpet.usage import Plain, Receipts, current_receipts, plain_usage, receipts_in, total_usage

# ---- How do the texts of many items share one request for their vectors? ------------------------
#
# Calls that arrive within a few milliseconds of each other are sent together. Each gets its own
# vectors and its share of the usage.

Vector = Sequence[float]
_MOST_CALLS = 64
_WAIT_S = 0.005


class EmbeddingModel(Protocol):
    """A model that returns vectors."""

    name: str

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return the vector of each text, from one paced request; the result may have `usage`."""
        ...


class Embedded(NamedTuple):
    """The vectors of the texts of one call.

    Attributes:
        vectors: A vector for each text.
        usage: Their usage; None if unknown.
    """

    vectors: list[Vector]
    usage: Plain | None


@dataclass(slots=True)
class _Waiting:
    """The texts of a cell that wait for vectors, with the cell's receipts."""

    texts: tuple[str, ...]
    done: asyncio.Future[Embedded]
    permits: Permits
    cell: Receipts
    lost: Receipts = field(default_factory=list)


class EmbeddingBatches:
    """Collects the texts of cells, and sends them together."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model
        self._calls: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Return the vectors of some texts."""
        loop = asyncio.get_running_loop()
        call = _Waiting(tuple(texts), loop.create_future(), current_permits(), current_receipts())
        self._calls.append(call)
        if len(self._calls) >= _MOST_CALLS:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(_WAIT_S, self._flush)
        return await call.done

    async def close(self) -> None:
        """Abandon what is not sent or not answered."""
        if self._timer is not None:
            self._timer.cancel()
        sending = list(self._sending)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        self._calls, self._timer = [], None

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        calls, self._calls, self._timer = self._calls, [], None
        waiting = [call for call in calls if not call.done.done()]
        if waiting:
            task = asyncio.create_task(self._send(waiting), context=contextvars.copy_context())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, calls: Sequence[_Waiting]) -> None:
        use_permits(permits := Permits())  # the request belongs to several cells
        for call in calls:
            call.permits.share(permits)
        with receipts_in([]) as receipts:  # so does its usage
            try:
                await self._answer(calls)
            except PermanentError as error:
                _charge(calls, receipts)
                if len(calls) == 1:
                    _fail(calls, error)
                    return
                for call in calls:  # one bad text must not fail the others
                    await self._send([call])
            except Exception as error:  # noqa: BLE001 - each call raises it
                _charge(calls, receipts)
                _fail(calls, error)
            except BaseException:
                for call in calls:
                    call.done.cancel()
                raise

    async def _answer(self, calls: Sequence[_Waiting]) -> None:
        texts = list(dict.fromkeys(text for call in calls for text in call.texts))
        vectors = await self._model.embed(texts)
        if len(vectors) != len(texts):
            raise InvalidReplyError(
                f"{self._model.name}: {len(vectors)} vectors for {len(texts)} texts"
            )
        by_text = dict(zip(texts, vectors, strict=True))
        usages = _shares(plain_usage(getattr(vectors, "usage", None), self._model.name), calls)
        for call, usage in zip(calls, usages, strict=True):
            if not call.done.done():
                used = total_usage([*call.lost, usage])
                call.done.set_result(Embedded([by_text[text] for text in call.texts], used))


def _charge(calls: Sequence[_Waiting], receipts: Receipts) -> None:
    """Share the usage of a failed request."""
    for call, share in zip(calls, _shares(total_usage(receipts), calls), strict=True):
        call.lost += [] if share is None else [share]


def _fail(calls: Sequence[_Waiting], error: Exception) -> None:
    for call in calls:
        call.cell += call.lost
        if not call.done.done():
            call.done.set_exception(error)


def _shares(usage: Plain | None, calls: Sequence[_Waiting]) -> list[Plain | None]:
    """Return the share of each cell in a request's usage, by the length of its texts."""
    if usage is None:
        return [None] * len(calls)
    tokens = usage["total_tokens"]
    sizes = [sum(len(text) + 1 for text in call.texts) for call in calls]
    shares: list[Plain | None] = []
    seen = given = 0
    for size in sizes:
        seen += size
        share = round(tokens * seen / sum(sizes)) - given
        given += share
        counts = {"prompt_tokens": share, "total_tokens": share}
        by_model = {name: usage[name] for name in ("requested",) if name in usage}
        by_model["models"] = dict.fromkeys(usage.get("models") or (), counts)
        shares.append({**counts, **by_model})
    return shares


# ---- How close is the output to the expected string in meaning, by a model's vectors? -----------

_VERSION = 1


def embedding_similarity(model: Any, *, name: str = "embedding_similarity") -> Evaluator:
    """Score the cosine of the vectors of the output and the expected string, from -1 to 1.

    If the item expects a list of strings, the closest is used. An empty output, or one that is not
    a string or a number, scores 0 without a call. The texts of many items share a request.

    Args:
        model: A model with `embed`, as `limpet.models.openai_api` returns.
        name: Its name.

    Raises:
        TypeError: The model has no `embed`.
    """
    return _EmbeddingSimilarity(name, model)


class _EmbeddingSimilarity(Evaluator):
    """Compares vectors; see `embedding_similarity`."""

    endpoint = None  # requests are paced, not cells: one serves many cells
    reads = ("output", "expected")
    needs = ("expected",)
    scale = Scale(range=(-1, 1))

    def __init__(self, name: str, model: Any) -> None:
        self.name = checked_name(name)
        if not callable(getattr(model, "embed", None)):
            raise wrong_type("model", "has no method embed, so it cannot return vectors", model)
        if (check := getattr(model, "check_asked", None)) is not None:
            check(["embeddings"], {})
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
        """The name of its model, as requested."""
        return [model_name(self._model)]

    @property
    def fingerprint(self) -> dict[str, str]:  # type: ignore[override]  # it is only read
        """What its scores depend on, by part."""
        parts = {f"model.{name}": part for name, part in self._model.fingerprint.items()}
        return {"embedding_similarity": digest("embedding_similarity", _VERSION), **parts}

    @property
    def described(self) -> dict[str, Any]:
        """The contents of the fingerprint, for people."""
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
