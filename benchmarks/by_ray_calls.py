"""What is Ray without an engine: one call of an actor for each cell?"""

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def tree_cpu() -> float:
    """Return the processor time of this process and of all that descend from it."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
            used[int(stat.parent.name)] = sum(map(int, fields[11:13]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def by_calls(name: str, workers: int) -> Callable[..., Any]:
    """Return a workflow that makes one Ray call for each cell, as one would by hand."""
    import engine_steps  # noqa: PLC0415 - as its actors do
    import ray  # noqa: PLC0415 - only for this

    function = getattr(engine_steps, name)

    class Actor:
        async def call(self, question: int) -> Any:
            return await function(question)

    place = {"PYTHONPATH": str(Path(__file__).parent)}  # else its actors do not find engine_steps
    ray.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False,
             logging_level=logging.ERROR, _node_ip_address="127.0.0.1",
             runtime_env={"env_vars": place})  # fmt: skip
    hired: Any = ray.remote(Actor).options(max_concurrency=1000)
    actors = [hired.remote() for _ in range(workers)]

    async def answer(question: int) -> Any:
        return await actors[question % workers].call.remote(question)

    return answer
