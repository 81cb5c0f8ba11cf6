"""Which engine does the user request?"""

import os
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from limpet.engines.ray.settings import LOCAL, RaySettings, as_ray
from limpet.fingerprints.steps import OwnCode
from limpet.text import did_you_mean, one_line

ENGINES = ("processes", "ray")
_MUST = "must be processes, or how many, like {processes: 4}; or ray, or {ray: {address: auto}}"
_KEYS = ("workers", "memory")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_LEAST_MEMORY = 100 * 10**6
MOST_PROCESSES = 1_000


@dataclass(frozen=True, slots=True)
class Engine:
    """Where cells' functions run: in processes on this machine, or on Ray.

    Attributes:
        processes: How many processes; None: one per processor available to this process.
        memory: How many bytes each may use; None: any number.
        ray: Which Ray; None: processes on this machine.
    """

    processes: int | None = None
    memory: int | None = None
    ray: RaySettings | None = None

    @property
    def workers(self) -> int:
        """How many workers there are, as far as is known before connecting to a cluster."""
        requested = self.processes if self.ray is None else self.ray.workers
        return requested or available_processors()

    @property
    def words(self) -> str:
        """The engine in words: "2 workers"."""
        if self.ray is not None and self.ray.workers is None and self.ray.where != LOCAL:
            return f"all workers of Ray at {self.ray.where}"
        return self.words_for(self.workers)

    def words_for(self, number: int) -> str:
        """Return the engine in words, with this many workers."""
        noun = "worker" if self.ray is None else "Ray worker"
        return f"{number:,} {noun}{'' if number == 1 else 's'}"


def as_engine(value: Any) -> Engine | None:
    """Return the engine that a value requests; None: this process.

    Raises:
        TypeError: It has the wrong type.
        ValueError: It names an unknown engine, or a number is out of range.
    """
    if value is None or isinstance(value, Engine):
        return value
    if isinstance(value, str):
        if value not in ENGINES:
            near = did_you_mean(value, ENGINES)
            raise ValueError(f"engine={one_line(repr(value))}: {_MUST}{near}")
        value = {value: {}}
    if not isinstance(value, Mapping):
        raise TypeError(f"engine={one_line(repr(value))}: {_MUST}")
    for key in value:
        if key not in ENGINES:
            near = did_you_mean(key, ENGINES) if isinstance(key, str) else ""
            raise ValueError(f"engine={one_line(repr(value))}: {_MUST}{near}")
    if len(value) != 1:
        raise ValueError(f"engine={one_line(repr(value))}: must name one engine")
    (name, settings), *_ = value.items()
    if name == "ray":
        return Engine(ray=as_ray(settings, as_bytes))
    return _processes(settings)


def _processes(settings: Any) -> Engine:
    """Return the engine of local processes; a number means the number of workers."""
    given = settings if isinstance(settings, Mapping) else {"workers": settings}
    for key in given:
        if key not in _KEYS:
            raise ValueError(
                f"engine: processes: unknown key {one_line(repr(key))}; it has {', '.join(_KEYS)}"
            )
    workers, memory = given.get("workers"), given.get("memory")
    if "workers" in given or settings is None:
        allowed = f"must be a whole number from 1 to {MOST_PROCESSES:,}"
        if not isinstance(workers, int) or isinstance(workers, bool):
            raise TypeError(f"engine: processes: {one_line(repr(workers))}: {allowed}")
        if not 1 <= workers <= MOST_PROCESSES:
            raise ValueError(f"engine: processes: {workers}: {allowed}")
    return Engine(workers, None if memory is None else as_bytes(memory))


def as_bytes(size: Any) -> int:
    """Return a size as a number of bytes: `2GB`, `500 MB`, `1GiB`, or the number itself.

    Raises:
        ValueError: It is not a size, or is less than a worker itself needs.
    """
    must = "must be a size, like 2GB"
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        raise ValueError(f"engine: memory: {one_line(repr(size))}: {must}")  # noqa: TRY004 - a wrong size
    count = size
    if isinstance(size, str):
        found = _SIZE.fullmatch(size)
        if found is None:
            raise ValueError(f"engine: memory: {one_line(repr(size))}: {must}")
        unit = (found[2] or "").lower()
        base = 1024 if unit.endswith("i") else 1000
        count = int(float(found[1]) * base ** _UNITS[unit.removesuffix("i")])
    assert isinstance(count, int)
    if count < _LEAST_MEMORY:
        raise ValueError(f"engine: memory: {one_line(repr(size))}: must be at least 100MB")
    return count


def words_of(
    engines: Mapping[str, Engine], plain: Container[str] = (), pace: int | str = "auto"
) -> str:
    """Return in words which steps run where: "workflow and correct on 2 workers".

    Args:
        engines: The engine of each step, by its name.
        plain: Steps that are plain functions: a worker runs one call of them at a time.
        pace: How many calls are to be in flight; said if there are fewer workers.
    """
    steps: dict[Engine, list[str]] = {}
    for step, engine in engines.items():
        steps.setdefault(engine, []).append(step)
    texts = []
    for engine, names in steps.items():
        few = [name for name in names if name in plain]
        known = engine.ray is None or engine.ray.workers is not None
        text = f"{_listed(names)} on {engine.words}"
        if few and known and isinstance(pace, int) and engine.workers < pace:
            text += f" ({engine.workers:,} calls of {_listed(few)} at a time, not {pace:,})"
        texts.append(text)
    return ", ".join(texts)


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def available_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def runs_user_code(step: Any) -> bool:
    """Return whether a step is the user's own Python, and runs on an engine set for all steps.

    Built-in evaluators take microseconds, and judges and remote workflows only wait: they stay in
    the driver.
    """
    return isinstance(step, OwnCode) or not type(step).__module__.startswith("limpet.")
