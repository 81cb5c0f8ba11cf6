"""On which nodes do the workers run?

Each worker has a slot: a placement group of one bundle, which reserves the worker's resources. It
waits until a node has room, where an autoscaler can see it. Groups of one let a run begin with the
first slot that Ray grants.

Each node with a slot has one foreman, an actor that reserves nothing itself. If accelerators are
requested, each slot has its own foreman: Ray assigns accelerators only to a process it starts.

When a foreman is lost, its slots are returned and requested again. The slot of a worker that dies
alone goes to its replacement.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from limpet.engines.messages import Lost
from limpet.engines.packed_values import packed_error
from limpet.engines.ray.connecting import refusal
from limpet.engines.ray.foreman import Foreman, HiredForeman, how_lost
from limpet.engines.ray.settings import END_WORKER, FAILED, GONE, PASS, START, STARTED, WAITING
from limpet.errors import SetupError
from limpet.text import text_of

# ---- Does the cluster have room for workers, now or later? --------------------------------------


class Room:
    """The room for workers on the nodes of a cluster.

    Args:
        ray: The package, connected.
        wanted: What each worker needs, by resource.
    """

    def __init__(self, ray: Any, wanted: dict[str, float]) -> None:
        self._ray = ray
        self._wanted = wanted

    def workers(self) -> int:
        """Return how many workers fit on all nodes together."""
        return sum(self._fits_on(resources) for resources in self._nodes())

    def may_come(self) -> bool:
        """Return whether a worker fits on a node, now or on one an autoscaler may add."""
        return any(self._fits_on(resources) for resources in self._nodes()) or _has_autoscaler()

    def refusal(self) -> SetupError:
        """Return the error for a cluster with no node large enough for a worker."""
        most: dict[str, float] = {}
        for resources in self._nodes():
            for name, much in resources.items():
                most[name] = max(most.get(name, 0), much)
        lacking = [
            f"{name} (has at most {most.get(name, 0):g})"
            for name, much in self._wanted.items()
            if most.get(name, 0) < much
        ]
        wanted = ", ".join(f"{much:g} {name}" for name, much in self._wanted.items())
        return SetupError(
            f"no Ray node has {wanted} for a worker; lacking: {', '.join(lacking) or 'some'}",
            hint="request less: engine: {ray: {resources: …}}, or add a node that has it",
        )

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _fits_on(self, resources: dict[str, float]) -> int:
        return min(int(resources.get(name, 0) / much) for name, much in self._wanted.items())


def _has_autoscaler() -> bool:
    """Return whether this cluster has an autoscaler, from the data behind `ray status`."""
    from ray.experimental.internal_kv import _internal_kv_get as known  # noqa: PLC0415 - as Ray's are

    if known("__autoscaler_v2_enabled", namespace="__autoscaler") == b"1":
        return True
    report = json.loads(known("__autoscaling_status") or "{}").get("autoscaler_report") or {}
    kinds = [*report.get("active_nodes", ()), *report.get("pending_launches", ())]
    # Without an autoscaler, each node is its own kind.
    return any(not kind.startswith("node_") for kind in kinds)


# ---- On which nodes do the workers run? ---------------------------------------------------------

_LOOK_EVERY_S = 0.1
_SHOW_AFTER_S = 1.0
_PATIENCE_S = 5.0  # with a cluster that has no node large enough for a worker
_MOST_FAILURES = 3  # of foremen in a row
_PAUSE_S = 0.5
_HOST = ("CPU", "memory", "object_store_memory")


class _Slot:
    """Room for one worker."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.foreman: HiredForeman | None = None
        self.worker: int | None = None
        self.is_placed = False


class Slots:
    """The slots of a run's workers, and the foremen that start them.

    Args:
        ray: The package, connected.
        settings: The driver's settings.
        say: Sends a message to the driver.
    """

    def __init__(self, ray: Any, settings: dict[str, Any], say: Callable[..., None]) -> None:
        self._ray = ray
        self._setting = settings["setting"]
        self._where = settings["where"]
        self._wanted: dict[str, float] = dict(settings["resources"])
        self._room = Room(ray, self._wanted)
        self._has_own = any(name not in _HOST for name in self._wanted)
        self._size: int = settings["workers"] or 0
        self._say = say
        self._slots: list[_Slot] = []
        self._queue: deque[int] = deque()
        self._of: dict[int, HiredForeman] = {}
        self._started: set[int] = set()
        self._on_nodes: dict[str, asyncio.Task[HiredForeman]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._failures = 0
        self._has_worked = False

    def size(self) -> int:
        """Return how many workers were requested, or else fit on all nodes together."""
        if not self._size:
            self._size = max(1, self._room.workers())
        return self._size

    # ---- from the driver ------------------------------------------------------------------------

    def start(self, worker: int) -> None:
        """Start a worker as soon as there is room."""
        for slot in self._slots:
            if slot.foreman is not None and slot.worker is None:
                self._start_in(slot, worker)
                return
        self._queue.append(worker)
        if len(self._slots) < self._size:
            self._slots.append(_Slot(self._group()))
        if self._looking is None or self._looking.done():
            self._looking = self._begin(self._look())

    def _group(self) -> Any:
        from ray.util.placement_group import placement_group  # noqa: PLC0415 - as Ray's are

        return placement_group([self._wanted])

    def _start_in(self, slot: _Slot, worker: int) -> None:
        foreman = slot.foreman
        assert foreman is not None
        slot.worker = worker
        foreman.workers.add(worker)
        self._of[worker] = foreman
        foreman.tell((START, worker))

    def pass_on(self, worker: int, messages: list[bytes]) -> None:
        """Forward messages to a worker, unread."""
        if (foreman := self._of.get(worker)) is not None:
            foreman.tell((PASS, worker, messages))

    def tell(self, worker: int, kind: str, *more: Any) -> None:
        """Send a message to a worker's foreman."""
        if (foreman := self._of.get(worker)) is not None:
            foreman.tell((kind, worker, *more))

    def end(self, worker: int) -> None:
        """End a worker in good order, or remove it from the queue."""
        if worker in self._queue:
            self._queue.remove(worker)
            self._say(GONE, worker, *Lost("was not started"))
        else:
            self.tell(worker, END_WORKER)

    def close(self) -> None:
        """Disconnect from Ray in good order."""
        self._ray.shutdown()

    # ---- foremen --------------------------------------------------------------------------------

    def _heard(self, foreman: HiredForeman, news: tuple[Any, ...]) -> None:
        kind, worker, *more = news
        if self._of.get(worker) is not foreman:
            return
        if kind == STARTED:
            self._started.add(worker)
            self._failures, self._has_worked = 0, True
            self._say(STARTED, worker, f"{foreman.name}:{more[0]}", foreman.folder)
            return
        if kind in (FAILED, GONE):
            self._forget(worker)
        self._say(*news)

    def _forget(self, worker: int) -> None:
        foreman = self._of.pop(worker, None)
        self._started.discard(worker)
        if foreman is not None:
            foreman.workers.discard(worker)
        for slot in self._slots:
            if slot.worker == worker:
                slot.worker = None
                self._give_out()

    def _lost(self, foreman: HiredForeman, error: BaseException) -> None:
        """Return the slots of a foreman that is gone. None of its cells is to blame."""
        self._on_nodes = {
            node: task
            for node, task in self._on_nodes.items()
            if not (
                task.done()
                and not task.cancelled()
                and task.exception() is None
                and task.result() is foreman
            )
        }
        for slot in [slot for slot in self._slots if slot.foreman is foreman]:
            self._give_back(slot)
        self._ray.kill(foreman.actor)
        lost = Lost(f"was lost: {how_lost(error)}", text_of(error), blames_nobody=True)
        for worker in list(foreman.workers):
            was_started = worker in self._started
            self._forget(worker)
            if was_started:
                self._say(GONE, worker, *lost)
            else:
                self.start(worker)

    def _give_back(self, slot: _Slot) -> None:
        from ray.util.placement_group import remove_placement_group  # noqa: PLC0415

        self._slots.remove(slot)
        remove_placement_group(slot.group)

    # ---- slots ----------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Look for granted slots until all are."""
        from ray.util.placement_group import placement_group_table  # noqa: PLC0415

        began, shown = time.monotonic(), 0
        while self._queue or any(not slot.is_placed for slot in self._slots):
            while len(self._slots) < min(self._size, len(self._queue) + self._busy):
                self._slots.append(_Slot(self._group()))
            table = placement_group_table()
            for slot in self._slots:
                state = table.get(slot.group.id.hex(), {})
                if not slot.is_placed and state.get("state") == "CREATED":
                    slot.is_placed = True
                    self._begin(self._man(slot, state["bundles_to_node_id"][0]))
            now = time.monotonic()
            if not self._has_worked and now - began > _PATIENCE_S and not self._room.may_come():
                self._fail(self._room.refusal())
                return
            waiting = sum(not slot.is_placed for slot in self._slots)
            if waiting != shown and now - began > _SHOW_AFTER_S:
                shown = waiting
                self._say(WAITING, waiting, self._size)
            await asyncio.sleep(_LOOK_EVERY_S if now - began < _PATIENCE_S else _PAUSE_S)

    @property
    def _busy(self) -> int:
        return sum(slot.worker is not None for slot in self._slots)

    async def _man(self, slot: _Slot, node: str) -> None:
        """Assign a foreman to a granted slot."""
        key = slot.group.id.hex() if self._has_own else node
        if key not in self._on_nodes:
            self._on_nodes[key] = self._begin(self._hire(slot, node))
        try:
            foreman = await asyncio.shield(self._on_nodes[key])
        except SetupError as error:
            self._on_nodes.pop(key, None)
            self._drop(slot)
            if not self._has_worked:
                self._fail(error)
            return
        except Exception as error:  # noqa: BLE001 - the node may just have died
            self._on_nodes.pop(key, None)
            self._drop(slot)
            self._failures += 1
            if self._failures > _MOST_FAILURES and not self._has_worked:
                self._fail(refusal(self._where, error))
            return
        if slot in self._slots and not foreman.is_lost:
            slot.foreman = foreman
            self._give_out()

    def _drop(self, slot: _Slot) -> None:
        if slot in self._slots:
            self._give_back(slot)

    def _give_out(self) -> None:
        for slot in self._slots:
            if self._queue and slot.foreman is not None and slot.worker is None:
                self._start_in(slot, self._queue.popleft())

    async def _hire(self, slot: _Slot, node: str) -> HiredForeman:
        """Start a foreman.

        Raises:
            SetupError: It cannot run workers on its node.
        """
        from ray.util import scheduling_strategies as strategies  # noqa: PLC0415

        options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": 100}
        if self._has_own:
            strategy: Any = strategies.PlacementGroupSchedulingStrategy(slot.group, 0)
            more = {name: much for name, much in self._wanted.items() if name not in _HOST}
            options["num_gpus"] = more.pop("GPU", 0)
            options["resources"] = more
        else:
            strategy = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        hired = self._ray.remote(Foreman).options(scheduling_strategy=strategy, **options)
        foreman = HiredForeman(hired.remote(), self._heard, self._lost)
        await foreman.begin(self._setting, node)
        return foreman

    def _fail(self, error: BaseException) -> None:
        """Report to the driver that no waiting worker can start."""
        while self._queue:
            self._say(FAILED, self._queue.popleft(), packed_error(error))
        for slot in [slot for slot in self._slots if slot.foreman is None]:
            self._give_back(slot)

    def _begin(self, work: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
