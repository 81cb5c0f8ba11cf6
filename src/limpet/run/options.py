"""The options of `evaluate` and `map`, defined and checked once, before anything is opened."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, cast, get_args

from limpet.arguments import function, positive_number, true_or_false, whole_number_from
from limpet.engines.spec import Engine, as_engine
from limpet.executors.options import CostOf, ExecutorOptions
from limpet.executors.retry import Backoff, Classify
from limpet.fingerprints.steps import DependsOn, as_declared
from limpet.journal.writer import Durability
from limpet.pacing.pacer import MAX_IN_FLIGHT, Pacer
from limpet.run.budget import as_budget
from limpet.run.request import OnItem, Stall, as_stall, check_goals
from limpet.run.results.costs import Prices, check_prices
from limpet.run.run_file import OnChange
from limpet.run.watcher import Watcher
from limpet.secrets.known import flaw_of_declared
from limpet.text import did_you_mean

TIMEOUT_S = 600
MAX_RETRIES = 10
_TIMEOUTS = 2
OTHER_NAMES = {
    "concurrency": "pace",
    "max_concurrency": "pace",
    "max_retries": "retry",
    "retries": "retry",
    "early_stop": "fail_fast",
}
"""Names of options elsewhere, earlier, or inside one of our option groups."""
_STEPS = 'must be a list of steps, for example ["workflow"]'


@dataclass(frozen=True, slots=True)
class Pace:
    """How many calls are in flight at once.

    Attributes:
        concurrency: A fixed number; "auto": a pacer finds how many the endpoint can take.
        max_concurrency: With "auto", the maximum number of calls in flight.
        pacer: The pacer to use: share it between all callers of one endpoint. With it, a number for
            `concurrency` is the maximum in flight.
        cost: With a pacer, the estimated cost of a call: a number of tokens, or a mapping by
            dimension.
        remember: Whether to start from what earlier runs learned of the endpoint, and to remember
            what this one learns.
        share: Whether to share the endpoint's limit with other runs of this user on this machine.
    """

    concurrency: int | Literal["auto"] = "auto"
    max_concurrency: int = MAX_IN_FLIGHT
    pacer: Pacer | None = None
    cost: CostOf | None = None
    remember: bool = True
    share: bool = True

    def __post_init__(self) -> None:
        if self.concurrency != "auto":
            _number_or(self.concurrency, "concurrency", '"auto"', least=1)
        most = whole_number_from(1, max_concurrency=self.max_concurrency)
        if flaw := too_few(self.concurrency, None if most == MAX_IN_FLIGHT else most):
            raise ValueError(f"max_concurrency={most}: {flaw}")
        true_or_false(remember=self.remember)
        true_or_false(share=self.share)
        if not isinstance(self.pacer, (Pacer, type(None))):
            raise TypeError(f"pacer={self.pacer!r}: must be a Pacer or None")
        if self.cost is not None:
            function(cost=self.cost)


def too_few(concurrency: int | str | None, most: int | None) -> str | None:
    """Return what is wrong with a `max_concurrency` below the number; None if nothing is."""
    if isinstance(concurrency, int) and most is not None and most < concurrency:
        return f"must be at least concurrency, {concurrency}, not {most}"
    return None


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a call that failed is tried again.

    Attributes:
        max_retries: How often a call is tried again: N retries are N + 1 attempts.
        backoff: The waits between attempts, unless the server names one.
        max_timeouts: How often a call is tried again after a timeout, besides the retries; None: 2
            times, or `max_retries` if less.
        classify: Classifies an error: returns a `FailureKind` (or its name), a `Signal`, or None to
            leave it to Limpet.
    """

    max_retries: int = MAX_RETRIES
    backoff: Backoff | None = None
    max_timeouts: int | None = None
    classify: Classify | None = None

    def __post_init__(self) -> None:
        whole_number_from(0, max_retries=self.max_retries)
        if not isinstance(self.backoff, (Backoff, type(None))):
            raise TypeError(f"backoff={self.backoff!r}: must be a Backoff or None")
        if self.max_timeouts is not None:
            whole_number_from(0, max_timeouts=self.max_timeouts)
        if self.classify is not None:
            function(classify=self.classify)


@dataclass(frozen=True, slots=True)
class Redo:
    """What runs again even if it has results.

    Attributes:
        steps: The names of the steps; None: the workflow.
        items: The ids of the items, in all their trials; None: all.
    """

    steps: Sequence[str] | None = None
    items: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and not _is_list(self.steps):
            raise TypeError(f"steps={self.steps!r}: {_STEPS}")
        if self.items is not None and not (_is_list(self.items) and self.items):
            raise TypeError(f"items={self.items!r}: must be a list of ids")


@dataclass(frozen=True, slots=True)
class Run:
    """Where results are kept, and when a result counts.

    Attributes:
        path: The directory; None: `runs/` and the workflow's name.
        durability: "sync": a result counts when it is on the disk; "flush": when it survives a
            killed process, but perhaps not a power failure.
    """

    path: str | Path | None = None
    durability: Durability = "sync"

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, Path, type(None))):
            raise TypeError(f"path={self.path!r}: must be a path or None")
        _one_of(get_args(Durability), durability=self.durability)


class MapOptions(TypedDict, total=False):
    """The options of both `evaluate` and `map`: see `evaluate`."""

    pace: int | Literal["auto"] | Pace
    retry: int | Retry
    timeout: float
    on_change: OnChange | None
    version: str | None
    depends_on: Mapping[str, Sequence[str]] | DependsOn | None
    secrets: Sequence[str]
    mask: bool


class RunOptions(MapOptions, total=False):
    """The options of `evaluate`."""

    redo: bool | Sequence[str] | Redo
    retry_failed: bool
    prices: Prices | None
    fail_fast: bool
    stop_when: Mapping[str, float] | None
    budget: Mapping[str, float | str] | None
    stall: Mapping[str, Any] | None
    watcher: Watcher | OnItem | None
    engine: str | Mapping[str, Any] | None
    show: bool


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `evaluate` or `map`, checked and converted: see `RunOptions`.

    Attributes:
        executors: `pace`, `retry` and `timeout`, as options of the executors.
        remember_pace: `remember` of `pace`.
        share_pace: `share` of `pace`.
        on_item: `watcher`, if it is a function of an `ItemResult`.
    """

    executors: ExecutorOptions
    remember_pace: bool
    share_pace: bool
    retry_failed: bool
    on_change: OnChange | None
    version: str | None
    depends_on: DependsOn | None
    secrets: list[str]
    mask: bool
    redo: Redo | None
    prices: Prices | None
    fail_fast: bool
    stop_when: Mapping[str, float] | None
    budget: Mapping[str, float]
    stall: Stall
    watcher: Watcher | None
    on_item: OnItem | None
    engine: Engine | None
    show: bool


P = ParamSpec("P")
T = TypeVar("T")


def with_options(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that suggests the option meant by an unknown one."""
    known = inspect.signature(function).parameters

    def check(given: Iterable[str]) -> None:
        for name in given:
            if name not in known:
                near = did_you_mean(name, [*known, *OTHER_NAMES])
                for other, ours in OTHER_NAMES.items():
                    near = near.replace(repr(other), repr(ours))
                raise TypeError(f"{name!r} is not an option of {function.__name__}{near}")

    def checked(*args: Any, **options: Any) -> Any:
        check(options)
        return function(*args, **options)

    async def awaited(*args: Any, **options: Any) -> Any:
        check(options)
        return await cast("Callable[..., Awaitable[Any]]", function)(*args, **options)

    wrapper = awaited if inspect.iscoroutinefunction(function) else checked
    return cast("Callable[P, T]", functools.wraps(function)(wrapper))


def like(model: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Return a decorator for a function that takes the arguments of another."""

    def decorator(function: Callable[..., T]) -> Callable[P, T]:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(model).replace(return_annotation=returned)
        vars(function)["__signature__"] = signature
        return with_options(function)

    return decorator


def as_options(given: Mapping[str, Any]) -> Options:
    """Return the options of `evaluate` or `map`, checked and with their defaults.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    pace, retry = as_pace(given.get("pace")), as_retry(given.get("retry"))
    timeout = positive_number(timeout=given.get("timeout", TIMEOUT_S))
    if given.get("on_change") is not None:
        _one_of(("redo", "keep"), "None", on_change=given["on_change"])
    version = given.get("version")
    if not isinstance(version, (str, type(None))):
        raise TypeError(f"version={version!r}: must be a string or None")
    depends_on = as_declared(given.get("depends_on"))
    secrets = _checked_secrets(given.get("secrets", ()))
    true_or_false(mask=given.get("mask", True))
    true_or_false(retry_failed=given.get("retry_failed", True))
    redo = as_redo(given.get("redo"))
    if given.get("prices") is not None:
        check_prices(given["prices"])
    true_or_false(fail_fast=given.get("fail_fast", True))
    check_goals(given.get("stop_when"))
    watcher, on_item = _as_watcher(given.get("watcher"))
    engine = as_engine(given.get("engine"))
    true_or_false(show=given.get("show", True))
    return Options(
        executors=_executor_options(pace, retry, timeout),
        remember_pace=pace.remember,
        share_pace=pace.share,
        retry_failed=given.get("retry_failed", True),
        on_change=given.get("on_change"),
        version=version,
        depends_on=depends_on,
        secrets=secrets,
        mask=given.get("mask", True),
        redo=redo,
        prices=given.get("prices"),
        fail_fast=given.get("fail_fast", True),
        stop_when=given.get("stop_when"),
        budget=as_budget(given.get("budget")),
        stall=as_stall(given.get("stall")),
        watcher=watcher,
        on_item=on_item,
        engine=engine,
        show=given.get("show", True),
    )


def _executor_options(pace: Pace, retry: Retry, timeout: float) -> ExecutorOptions:
    return {
        "concurrency": pace.concurrency,
        "max_concurrency": pace.max_concurrency,
        "pacer": pace.pacer,
        "cost": pace.cost,
        "max_retries": retry.max_retries,
        "max_timeouts": _max_timeouts(retry),
        "backoff": retry.backoff,
        "classify": retry.classify,
        "timeout": timeout,
        "exit_on_error": False,
        "enable_dynamic_concurrency": False,  # a number is a number
    }


def _max_timeouts(retry: Retry) -> int:
    if retry.max_timeouts is not None:
        return retry.max_timeouts
    # A call that hung three times for ten minutes will hang again: eleven times take two hours.
    return min(_TIMEOUTS, retry.max_retries)


def as_pace(pace: Any) -> Pace:
    """Return the option `pace` as a `Pace`."""
    if isinstance(pace, Pace):
        return pace
    if pace is None or pace == "auto":
        return Pace()
    return Pace(_number_or(pace, "pace", '"auto", a Pace', least=1))


def as_retry(retry: Any) -> Retry:
    """Return the option `retry` as a `Retry`."""
    if isinstance(retry, Retry):
        return retry
    return Retry() if retry is None else Retry(_number_or(retry, "retry", "a Retry", least=0))


def as_redo(redo: Any) -> Redo | None:
    """Return the option `redo` as a `Redo`; None: nothing runs again."""
    if isinstance(redo, Redo):
        return redo
    if redo is None or isinstance(redo, bool):
        return Redo() if redo else None
    if not _is_list(redo):
        raise TypeError(f"redo={redo!r}: {_STEPS}, True, False or a Redo")
    return Redo(redo) if redo else None


def as_run(run: Any, name: str = "run") -> Run:
    """Return the argument `run` as a `Run`."""
    if isinstance(run, Run):
        return run
    if not isinstance(run, (str, Path, type(None))):
        near = "; to save nothing: save=False" if run is False and name == "run" else ""
        raise TypeError(f"{name}={run!r}: must be a path, a Run or None{near}")
    return Run(run)


def _as_watcher(watcher: Any) -> tuple[Watcher | None, OnItem | None]:
    """Return the option `watcher` as a `Watcher`, or as a function of an `ItemResult`."""
    if watcher is None or isinstance(watcher, Watcher):
        return watcher, None
    if not callable(watcher):
        raise TypeError(
            f"watcher={watcher!r}: must be a Watcher, or a function that takes an ItemResult"
        )
    return None, watcher


def _checked_secrets(secrets: Any) -> list[str]:
    if secrets is False:
        raise TypeError("secrets=False: must be a list of strings; to mask nothing: mask=False")
    if not _is_list(secrets) or not all(isinstance(secret, str) for secret in secrets):
        raise TypeError("secrets: must be a list of strings")  # they are not shown
    for number, secret in enumerate(secrets):
        if flaw := flaw_of_declared(secret):
            raise ValueError(f"secrets[{number}]: {flaw}")
    return list(secrets)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _number_or(value: Any, name: str, others: str, *, least: int) -> int:
    allowed = f"must be {others}, or a whole number, {least} or more"
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: {allowed}")
    if value < least:
        raise ValueError(f"{name}={value!r}: {allowed}")
    return value


def _one_of(allowed: Sequence[str], *more: str, **argument: Any) -> None:
    ((name, value),) = argument.items()
    if value not in allowed:
        words = ", ".join([*(f'"{word}"' for word in allowed), *more])
        raise ValueError(f"{name}={value!r}: must be one of {words}")
