"""Is there room for workers on a cluster, now or later?"""

import json
from typing import Any

from limpet.errors import SetupError


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
        """Return whether a worker fits on a node, now or after an autoscaler added one."""
        return any(self._fits_on(resources) for resources in self._nodes()) or _has_autoscaler()

    def refusal(self) -> SetupError:
        """Return the error for a cluster on none of whose nodes a worker fits."""
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
            f"no node of Ray has {wanted} for a worker: it lacks {', '.join(lacking) or 'some'}",
            hint="ask for less: engine: {ray: {resources: …}}, or add a node that has it",
        )

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _fits_on(self, resources: dict[str, float]) -> int:
        return min(int(resources.get(name, 0) / much) for name, much in self._wanted.items())


def _has_autoscaler() -> bool:
    """Return whether somebody adds nodes to this cluster, by what `ray status` knows of it."""
    from ray.experimental.internal_kv import _internal_kv_get as known  # noqa: PLC0415 - as Ray's are

    if known("__autoscaler_v2_enabled", namespace="__autoscaler") == b"1":
        return True
    report = json.loads(known("__autoscaling_status") or "{}").get("autoscaler_report") or {}
    kinds = [*report.get("active_nodes", ()), *report.get("pending_launches", ())]
    # Where nobody adds any, each node is a kind of its own.
    return any(not kind.startswith("node_") for kind in kinds)
