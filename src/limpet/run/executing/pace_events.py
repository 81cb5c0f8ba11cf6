"""How does the story tell at what pace a run went?"""

import asyncio
from collections.abc import Callable
from typing import Any

from limpet.executors.async_executor import AsyncExecutor
from limpet.journal.journal import Journal
from limpet.pacing.pacer import Pacer
from limpet.pacing.state import WORDS, PacerState

_EVERY_S = 2.0


def fixed_pace(executor: AsyncExecutor[Any, Any]) -> str:
    """Say what holds the pace of an executor that has no pacer."""
    most = f"{executor.concurrency} at a time"
    return f"at most {most}" if executor.enable_dynamic_concurrency else most


def tell_pace(
    journal: Journal, step: str, pace: Pacer | str, safe: Callable[[str], str]
) -> Callable[[], None]:
    """Write what holds the pace into the story, now and when it changes; returns how to end it.

    Not every change is told, but the last one always is.

    Args:
        journal: Where the story is.
        step: Whose pace it is.
        pace: What holds it: a pacer, or words for what does.
        safe: Takes secrets out of the endpoint's name.
    """
    if isinstance(pace, str):
        journal.tell("pace", step=step, words=pace)
        return lambda: None
    later: asyncio.TimerHandle | None = None

    def tell() -> None:
        nonlocal later
        later = None
        _tell(journal, step, safe(pace.key), pace.state)

    def hear(_: object) -> None:
        nonlocal later
        if later is None:
            later = asyncio.get_running_loop().call_later(_EVERY_S, tell)

    def end() -> None:
        unsubscribe()
        if later is not None:
            later.cancel()

    unsubscribe = pace.subscribe(hear)
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
