"""Which Ray does the user request, with which settings?"""

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from limpet.errors import SetupError
from limpet.text import did_you_mean, one_line

# ---- Which messages do the driver, the gateway and the foremen exchange? ------------------------
#
# A worker's own messages pass through unread: only the driver reads messages from user code.

# To the gateway, and from it to a foreman.
CONNECT, START, PASS, KILL, END_WORKER = "connect", "start", "pass", "kill", "end_worker"
# From the gateway; the last five from a foreman to the gateway as well.
CONNECTED, REFUSED, WAITING = "connected", "refused", "waiting"
STARTED, FAILED, FROM, SEEN, GONE = "started", "failed", "from", "seen", "gone"


class SlowStartError(SetupError):
    """Ray's start hit one of Ray's own time limits: the machine is busy, so try again."""


# ---- Which Ray does the user request? -----------------------------------------------------------

LOCAL, AUTO = "local", "auto"
KEYS = ("address", "workers", "resources", "runtime_env")
MOST_WORKERS = 10_000
_MUST = "must be settings like {address: auto, workers: 32}"
_ADDRESS = re.compile(r"(ray://)?(\[[0-9a-fA-F:]+\]|[^\s/:@\[\]]+):(\d{1,5})")
_HIGHEST_PORT = 65_535
_NAMES = {"num_cpus": "CPU", "num_gpus": "GPU"}
_SIZES = ("memory", "object_store_memory")


@dataclass(frozen=True, slots=True)
class RaySettings:
    """A Ray cluster, and the resources requested from it.

    Attributes:
        address: `host:port`, `ray://host:port`, `auto`, or `local` for one that this run starts;
            None: RAY_ADDRESS, or else a local one.
        workers: How many workers; None: as many as there is room for.
        resources: What each worker needs, by Ray's names.
        runtime_env: What Ray prepares on each node, as JSON.
    """

    address: str | None = None
    workers: int | None = None
    resources: tuple[tuple[str, float], ...] = (("CPU", 1.0),)
    runtime_env: str = "{}"

    @property
    def where(self) -> str:
        """The address, after RAY_ADDRESS is applied."""
        if self.address in (None, AUTO):
            return os.environ.get("RAY_ADDRESS") or self.address or LOCAL
        assert self.address is not None
        return self.address


def as_ray(settings: Any, as_bytes: Any) -> RaySettings:
    """Return the settings in a value.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A key is unknown, or a value is invalid.
    """
    if not isinstance(settings, Mapping):
        raise TypeError(f"engine: ray: {one_line(repr(settings))}: {_MUST}")
    for key in settings:
        if key not in KEYS:
            near = did_you_mean(key, KEYS) if isinstance(key, str) else ""
            raise ValueError(
                f"engine: ray: unknown key {one_line(repr(key))}; it has {', '.join(KEYS)}{near}"
            )
    return RaySettings(
        _address(settings.get("address")),
        _workers(settings.get("workers")),
        _resources(settings.get("resources"), as_bytes),
        _runtime_env(settings.get("runtime_env")),
    )


def _address(address: Any) -> str | None:
    if address is None or address in (LOCAL, AUTO):
        return None if address is None else str(address)
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or not 1 <= int(found[3]) <= _HIGHEST_PORT:
        raise ValueError(
            f"engine: ray: address: {one_line(repr(address))}: must be host:port, "
            "ray://host:port, auto, or local"
        )
    return found[0]


def _workers(workers: Any) -> int | None:
    if workers is None:
        return None
    allowed = f"must be a whole number from 1 to {MOST_WORKERS:,}"
    if not isinstance(workers, int) or isinstance(workers, bool):
        raise TypeError(f"engine: ray: workers: {one_line(repr(workers))}: {allowed}")
    if not 1 <= workers <= MOST_WORKERS:
        raise ValueError(f"engine: ray: workers: {workers}: {allowed}")
    return workers


def _resources(resources: Any, as_bytes: Any) -> tuple[tuple[str, float], ...]:
    wanted: dict[str, float] = {"CPU": 1.0}
    if resources is None:
        resources = {}
    if not isinstance(resources, Mapping):
        raise TypeError(
            f"engine: ray: resources: {one_line(repr(resources))}: must be amounts by name, like "
            "{num_gpus: 0.25}"
        )
    for name, amount in resources.items():
        where = f"engine: ray: resources: {one_line(name)}"
        if str(name).startswith("num_") and name not in _NAMES:  # other names may be a node's own
            near = did_you_mean(str(name), _NAMES)
            raise ValueError(f"{where}: must be num_cpus, num_gpus or a node's resource{near}")
        if name in _SIZES and isinstance(amount, str):
            amount = as_bytes(amount)  # noqa: PLW2901 - the same
        if not isinstance(amount, (int, float)) or isinstance(amount, bool):
            raise TypeError(f"{where}: {one_line(repr(amount))}: must be a number")
        if not 0 <= amount < float("inf"):
            raise ValueError(f"{where}: {amount}: must be a number, 0 or more")
        if amount > 1 and amount != int(amount) and name in _NAMES:
            raise ValueError(f"{where}: {amount}: must be a whole number if greater than 1")
        wanted[_NAMES.get(name, str(name))] = float(amount)
    wanted = {name: amount for name, amount in wanted.items() if amount}
    if not wanted:
        raise ValueError("engine: ray: resources: a worker must need something, like {num_cpus: 1}")
    return tuple(sorted(wanted.items()))


def _runtime_env(given: Any) -> str:
    if given is None:
        given = {}
    must = "must be a mapping like {working_dir: ., pip: requirements.txt}"
    if not isinstance(given, Mapping):
        raise TypeError(f"engine: ray: runtime_env: {one_line(repr(given))}: {must}")
    try:
        return json.dumps(dict(given), sort_keys=True)
    except (TypeError, ValueError):
        raise ValueError(f"engine: ray: runtime_env: {must}, of plain values") from None


def check_installed() -> None:
    """Check that Ray can be imported, without importing it.

    Raises:
        SetupError: It is not installed.
    """
    spec = importlib.util.find_spec("ray")
    if spec is None or spec.origin is None:  # a folder named ray is not Ray
        raise SetupError(
            "engine: ray needs Ray, which is not installed",
            hint="install it: pip install 'limpet[ray]'",
        )
