"""Writes the pace of each step to `events.jsonl`."""

import asyncio
from collections.abc import Callable
from typing import Any

from limpet.executors.async_executor import AsyncExecutor
from limpet.journal.journal import Journal
from limpet.pacing.pacer import Pacer
from limpet.pacing.state import WORDS, PacerState

_EVERY_S = 2.0


def fixed_pace(executor: AsyncExecutor[Any, Any]) -> str:
    """Describe the pace of an executor without a pacer."""
    most = f"{executor.concurrency} at a time"
    return f"at most {most}" if executor.enable_dynamic_concurrency else most


def tell_pace(
    journal: Journal, step: str, pace: Pacer | str, safe: Callable[[str], str]
) -> Callable[[], None]:
    """Write the pace as an event, now and when it changes; return a function that stops this.

    Changes in quick succession are written once, with the latest state.

    Args:
        journal: The run's journal.
        step: The step's name.
        pace: The pacer, or a description where there is none.
        safe: Removes secrets from the endpoint's name.
    """
    if isinstance(pace, str):
        journal.tell("pace", step=step, words=pace)
        return lambda: None
    later: asyncio.TimerHandle | None = None

    def tell() -> None:
        nonlocal later
        later = None
        _tell(journal, step, safe(pace.key), pace.state)

    def on_change(_: object) -> None:
        nonlocal later
        if later is None:
            later = asyncio.get_running_loop().call_later(_EVERY_S, tell)

    def end() -> None:
        unsubscribe()
        if later is not None:
            later.cancel()

    unsubscribe = pace.subscribe(on_change)
    tell()
    return end


def _tell(journal: Journal, step: str, endpoint: str, state: PacerState) -> None:
    journal.tell(
        "pace",
        step=step,
        endpoint=endpoint,
        calls_per_s=round(state.calls_per_s, 3),
        limit=state.limit,
        in_flight=state.in_flight,
        refused=state.refused,
        binding=state.binding,
        words=WORDS[state.binding],
    )
