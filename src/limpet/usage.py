"""How many tokens of which model did an answer use, and how long did it take?

Every client reports token counts under its own names, in a mapping or in an object. None of it is
trusted: a value that is not a count is left out and reported, and a value that raises when read
costs only that count. The names of the times are those of the NeMo Agent Toolkit.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from decimal import Decimal
from numbers import Real
from typing import Any

from limpet.errors import InvalidReplyError
from limpet.foreign import is_interrupt
from limpet.shapes import USAGE_COUNTS, Usage

Counts = dict[str, int]
Plain = dict[str, Any]
"""A usage as plain data; see `plain_usage`."""
_LARGEST = 2**53
_BY_MODEL = ("models", "requested")
# Where clients report each count.
_PATHS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": (
        "prompt_tokens",
        "input_tokens",
        "prompt_token_count",
        "inputTokens",
        "promptTokenCount",
        "prompt_eval_count",
    ),
    "completion_tokens": (
        "completion_tokens",
        "output_tokens",
        "candidates_token_count",
        "outputTokens",
        "candidatesTokenCount",
        "eval_count",
    ),
    "cached_tokens": (
        "cached_tokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "input_token_details.cache_read",
        "cache_read_input_tokens",
        "cacheReadInputTokens",
        "cached_content_token_count",
        "cachedContentTokenCount",
    ),
    "cache_write_tokens": (
        "cache_write_tokens",
        "cache_creation_input_tokens",
        "cacheWriteInputTokens",
        "prompt_tokens_details.cache_write_tokens",
        "input_tokens_details.cache_write_tokens",
        "prompt_tokens_details.cache_creation_tokens",
        "input_token_details.cache_creation",
    ),
    "reasoning_tokens": (
        "reasoning_tokens",
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "output_token_details.reasoning",
        "thoughts_token_count",
        "thoughtsTokenCount",
    ),
    "total_tokens": ("total_tokens", "total_token_count", "totalTokens", "totalTokenCount"),
}
_OLLAMA = ("prompt_eval_count", "eval_count")
_BESIDE = frozenset({"cost", "models", "requested", "times"})
_OUTERMOST = {path: path.partition(".")[0] for paths in _PATHS.values() for path in paths}
# Counts that these clients, unlike the others, do not include in the first.
_ADDED: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("cache_read_input_tokens", "cache_creation_input_tokens"),
    "inputTokens": ("cacheReadInputTokens", "cacheWriteInputTokens"),
    "prompt_token_count": ("tool_use_prompt_token_count",),
    "promptTokenCount": ("toolUsePromptTokenCount",),
    "candidates_token_count": ("thoughts_token_count",),
    "candidatesTokenCount": ("thoughtsTokenCount",),
}


# ---- of a client, in any shape ------------------------------------------------------------------


def usage_of(reported: object) -> tuple[Usage | None, list[str]]:
    """Return the usage in a `Usage`, a mapping or a client's own object, and its flaws."""
    is_usage = isinstance(reported, Usage)
    if not is_usage and (reported is None or (isinstance(reported, Mapping) and not reported)):
        return None, []
    if type(reported) is Usage:  # as a dict it is read faster
        reported = {name: getattr(reported, name) for name in Usage.__slots__}
    known: Mapping[str, Any] | None = reported if type(reported) is dict else None
    counts, wrong = _counts_in(reported)
    more: dict[str, Any] = {}
    for name, read in (
        ("cost", _cost),
        ("models", _models),
        ("requested", _names),
        ("times", _times),
    ):
        value = known.get(name) if known is not None else _value_at(reported, name, wrong)
        if value is not None:
            try:
                more[name] = read(value)
            except Exception:  # noqa: BLE001 - a foreign mapping may raise anything
                wrong.append(f"{name}, of type {type(value).__name__}, is not valid")
    if not counts and "models" in more:
        counts = dict(sum(map(Counter, more["models"].values()), Counter()))
        counts.pop("total_tokens", None)  # not every client reports it
    if not counts and not more and not is_usage:
        kind = type(reported).__name__
        return None, wrong or [f"of type {kind}, it has no token count under a known name"]
    return Usage(**{"prompt_tokens": 0, "completion_tokens": 0, **counts, **more}), wrong


def _counts_in(reported: object) -> tuple[Counts, list[str]]:
    """Return the token counts under our names, and the values that are not counts."""
    known: Mapping[str, Any] | None = reported if type(reported) is dict else None
    if known is not None and (own := _own_counts(known)) is not None:
        return own, []
    counts: Counts = {}
    wrong: list[str] = []
    for name, paths in _PATHS.items():
        for path in paths:
            if known is not None and known.get(_OUTERMOST[path]) is None:
                continue
            count = _count(reported, path, wrong)
            if count is not None:
                added = (_count(reported, other, wrong) or 0 for other in _ADDED.get(path, ()))
                counts[name] = count + sum(added)
            if counts.get(name):  # some report 0 under one path and the count under another
                break
    return counts, wrong


def _own_counts(reported: Mapping[str, Any]) -> Counts | None:
    """Return the counts of a usage that has only our names; None: it has others."""
    counts: Counts = {}
    for name, value in reported.items():
        if type(name) is not str:  # it may be hostile
            return None
        if name in _PATHS:
            if type(value) is int and 0 <= value < _LARGEST:
                counts[name] = value
            elif value is not None:
                return None
        elif name not in _BESIDE:
            return None
    return counts


def _count(reported: object, path: str, wrong: list[str]) -> int | None:
    value = _value_at(reported, path, wrong)
    if value is None or _is_count(value):
        return None if value is None else int(value)
    wrong.append(f"{path}, of type {type(value).__name__}, is not a token count")
    return None


def _is_count(value: Any) -> bool:
    if type(value) is int:
        return 0 <= value < _LARGEST
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return 0 <= float(value) < _LARGEST  # False for NaN
    except (OverflowError, ValueError, TypeError):
        return False


def _value_at(holder: Any, path: str, wrong: list[str]) -> Any:
    try:
        for part in path.split("."):
            is_mapping = type(holder) is dict or isinstance(holder, Mapping)
            holder = holder.get(part) if is_mapping else getattr(holder, part, None)
            if holder is None:
                return None
    except BaseException as error:  # a foreign property may raise anything
        if is_interrupt(error):
            raise
        wrong.append(f"{path} cannot be read: {type(error).__name__}")
        return None
    return holder


def _cost(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        raise TypeError
    cost = float(value)
    if not 0 <= cost < math.inf:
        raise ValueError
    return cost


def _models(value: Any) -> dict[str, Counts]:
    models: dict[str, Counts] = {}
    for model, counts in value.items():
        known, wrong = _counts_in(counts)  # perhaps under a client's own names
        if wrong or not (known or counts == {}):
            raise ValueError
        models[str(model)] = known
    return models


def _names(value: Any) -> dict[str, str]:
    return {str(served): str(requested) for served, requested in value.items()}


def _times(value: Any) -> dict[str, float]:
    times = {str(name): float(seconds) for name, seconds in value.items()}
    if not all(map(math.isfinite, times.values())):
        raise ValueError
    return times


# ---- of a server --------------------------------------------------------------------------------


def usage_of_body(body: Any, requested: str | None = None) -> Usage | None:
    """Return the usage that a response reports; None if it reports none.

    It is under `usage`, at Gemini under `usageMetadata`, and at Ollama beside the answer.

    Args:
        body: The response.
        requested: The name of the requested model. The server may use another.
    """
    if not isinstance(body, Mapping):
        return None
    reported = body.get("usage") or body.get("usageMetadata")
    if reported is None:
        reported = {name: body[name] for name in _OLLAMA if name in body}
    if not isinstance(reported, Mapping):
        return None
    counts = _all_counts(reported)
    if not any(counts.values()):
        return None
    served = body.get("model") or body.get("modelVersion")
    served = served if isinstance(served, str) else requested
    models = None if served is None else {served: counts}
    renamed = (
        {served: requested} if served is not None and requested not in (None, served) else None
    )
    return Usage(**counts, models=models, times=None, requested=renamed)


def usage_of_trace(trace: Sequence[Any]) -> Usage | None:
    """Return the usage that the events of a trace report; None if they report none."""
    models: dict[str, Counts] = {}
    moments: list[float] = []
    begun: dict[Any, float] = {}
    latencies: list[float] = []
    for event in (entry for entry in trace if isinstance(entry, Mapping)):
        started, ended = moment(event.get("started")), moment(event.get("ended"))
        is_start, id_ = event.get("phase") == "start", str(event.get("id"))
        if (at := started if is_start else ended) is not None:
            moments.append(at)
        if event.get("kind") != "model":
            continue
        _add(models, event)
        if is_start and started is not None:
            begun[id_] = started
        elif ended is not None:
            started = begun.pop(id_, None) or started
            if started is not None and ended >= started:
                latencies.append(ended - started)
    if not moments and not models:
        return None
    times: dict[str, float] = {}
    if moments:
        first, last = min(moments), max(moments)
        times = {"runtime": last - first, "min_timestamp": first, "max_timestamp": last}
    if latencies:
        times["llm_latency"] = _p95(latencies)
    return Usage(
        **_sum(models.values()), models=models or None, times=times or None, requested=None
    )


def _add(models: dict[str, Counts], event: Mapping[str, Any]) -> None:
    reported, name = event.get("usage"), event.get("name")
    if isinstance(reported, Mapping):
        name = name if isinstance(name, str) else "unknown"
        models[name] = _sum([models.get(name, {}), _all_counts(reported)])


def _sum(parts: Iterable[Counts]) -> Counts:
    parts = list(parts)
    return {name: sum(counts.get(name, 0) for counts in parts) for name in _PATHS}


def _all_counts(reported: Mapping[str, Any]) -> Counts:
    found, _ = _counts_in(reported)
    counts = {name: found.get(name, 0) for name in _PATHS}
    counts["total_tokens"] = counts["total_tokens"] or (
        counts["prompt_tokens"] + counts["completion_tokens"]
    )
    return counts


def moment(value: Any) -> float | None:
    """Return a time in seconds; None if it is not a time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _LARGEST else None  # None for NaN and infinity


def _p95(seconds: list[float]) -> float:
    if len(seconds) == 1:
        return seconds[0]
    return statistics.quantiles(seconds, n=100, method="inclusive")[94]


# ---- as plain data, and together ----------------------------------------------------------------


def plain_usage(reported: Any, model: str | None = None) -> Plain | None:
    """Return a usage as plain data: token counts, the cost if known, and both by model.

    Args:
        reported: A `Usage`, or a client's own mapping or object. A value that is not a count is
            left out: it must not cost a reply that is paid for.
        model: The name of the model, if the usage does not tell.
    """
    usage, _ = usage_of(reported)
    if usage is None:
        return None
    counts = {name: count for name in USAGE_COUNTS if (count := getattr(usage, name)) is not None}
    counts.setdefault("total_tokens", usage.prompt_tokens + usage.completion_tokens)
    plain: Plain = dict(counts)
    if usage.cost is not None:
        plain["cost"] = usage.cost
    if models := usage.models or ({} if model is None else {model: counts}):
        plain["models"] = models
    if usage.requested:
        plain["requested"] = dict(usage.requested)
    return plain


def total_usage(usages: Iterable[Plain | None]) -> Plain | None:
    """Return the sum of several usages; None if all are unknown."""
    known = [usage for usage in usages if usage is not None]
    if len(known) <= 1:
        return known[0] if known else None
    total: Plain = {}
    models: dict[str, dict[str, Any]] = {}
    requested: dict[str, str] = {}
    for usage in known:
        _add_to(total, {name: count for name, count in usage.items() if name not in _BY_MODEL})
        for model, counts in (usage.get("models") or {}).items():
            _add_to(models.setdefault(model, {}), counts)
        requested |= usage.get("requested") or {}
    total |= {"models": models} if models else {}
    return total | ({"requested": requested} if requested else {})


def _add_to(total: dict[str, Any], counts: Mapping[str, Any]) -> None:
    for name, count in counts.items():
        total[name] = total.get(name, 0) + count


# ---- receipts: what was paid for, even if the call fails ----------------------------------------

Receipts = list[Plain]
"""The usage of each of some replies."""
_receipts: ContextVar[Receipts | None] = ContextVar("limpet_receipts", default=None)


def add_receipt(usage: Plain | None) -> None:
    """Record the usage of a reply as soon as it arrives: it is paid for, whatever happens next."""
    receipts = _receipts.get()
    if receipts is not None and usage is not None and _is_something(usage):
        receipts.append(usage)


def _is_something(usage: Plain) -> bool:
    return bool(usage.get("total_tokens") or usage.get("cost"))


def current_receipts() -> Receipts:
    """Return the receipts of the current context."""
    receipts = _receipts.get()
    return [] if receipts is None else receipts


class receipts_in:  # noqa: N801 - used like a function; a generator would take three times as long
    """Collect the usage of the replies within the block.

    If the block succeeds, it returns their usage. If it fails, it returns nothing, and they are
    added outside of it. An `InvalidReplyError` carries the usage of a reply without a receipt.

    Args:
        receipts: Where to collect them.
        always: Whether to add them outside even if the block succeeds.
    """

    __slots__ = ("_always", "_outside", "_token", "receipts")

    def __init__(self, receipts: Receipts, *, always: bool = False) -> None:
        self.receipts = receipts
        self._always = always

    def __enter__(self) -> Receipts:
        self._outside = _receipts.get()
        self._token = _receipts.set(self.receipts)
        return self.receipts

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # By its type: what a foreign exception says of its class may raise.
        if issubclass(type(error), InvalidReplyError) and not self.receipts:
            add_receipt(plain_usage(error.usage))  # type: ignore[union-attr]  # as just seen
        _receipts.reset(self._token)
        if (error is not None or self._always) and self._outside is not None:
            self._outside += self.receipts


# ---- who pays: may this request be made? --------------------------------------------------------

MostOf = Callable[[], Usage | None]
"""Returns the usage that a request can have at most; None: not known."""
Payer = Callable[[MostOf], AbstractAsyncContextManager[Any]]
"""Returns a context for a request, which waits until the request may be made."""
_payer: ContextVar[Payer | None] = ContextVar("limpet_payer", default=None)


class paid_by:  # noqa: N801 - used like a function
    """Let each request to a model in the block be paid by `payer`; None: nobody has to."""

    __slots__ = ("_payer", "_token")

    def __init__(self, payer: Payer | None) -> None:
        self._payer = payer

    def __enter__(self) -> None:
        self._token = _payer.set(self._payer)

    def __exit__(self, *_: object) -> None:
        _payer.reset(self._token)


def reserving(most_of: MostOf = lambda: None) -> AbstractAsyncContextManager[Any]:
    """Return a context for a request, which begins once what it may use is reserved."""
    payer = _payer.get()
    return nullcontext() if payer is None else payer(most_of)


def reserves_each_call(step: Any) -> bool:
    """Return whether each call of a workflow or evaluator reserves what it may use."""
    return bool(getattr(step, "reserves", False))


def model_names_of(step: Any) -> Collection[str] | None:
    """Return the names of the models that a workflow or evaluator asks; None: unknown."""
    names: Collection[str] | None = getattr(step, "model_names", None)
    return () if names is None and step.endpoint is None else names
