"""How does the story tell at what pace a run went?"""

import time
from collections.abc import Callable

from limpet.journal.journal import Journal
from limpet.pacing.pacer import Pacer
from limpet.pacing.state import WORDS, PaceEvent

_EVERY_S = 2.0


def tell_pace(
    journal: Journal, step: str, pacer: Pacer, safe: Callable[[str], str]
) -> Callable[[], None]:
    """Write a pacer's changes into the story, but not every one of them; returns how to end it.

    Args:
        journal: Where the story is.
        step: Whose pacer it is.
        pacer: The pacer.
        safe: Takes secrets out of the endpoint's name.
    """
    told_at = 0.0

    def hear(event: PaceEvent) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at < _EVERY_S:
            return
        told_at = now
        state = event.state
        journal.tell(
            "pace",
            step=step,
            endpoint=safe(event.key),
            calls_per_s=round(state.calls_per_s, 3),
            limit=state.limit,
            in_flight=state.in_flight,
            refused=state.refused,
            binding=state.binding,
            words=WORDS[state.binding],
        )

    return pacer.subscribe(hear)
