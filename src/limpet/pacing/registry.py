"""Which pacer belongs to this endpoint?

There is one limit for each provider, account and model, so there must be one pacer for it, whoever
calls. A registry hands it out by that key and can carry what all of them learned to a later run.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from limpet.pacing.pacer import MAX_IN_FLIGHT, Pacer


class PacerRegistry:
    """Pacers by their endpoint's key.

    Args:
        max_in_flight: Calls in flight at most, for each of them.
        memory: What the pacers of an earlier run had learned.
    """

    def __init__(
        self, *, max_in_flight: int = MAX_IN_FLIGHT, memory: Mapping[str, Any] | None = None
    ) -> None:
        self._max_in_flight = max_in_flight
        self._memory: dict[str, Any] = dict(memory or {})
        self._pacers: dict[str, Pacer] = {}

    def get(self, key: str) -> Pacer:
        """Return the one pacer for this key."""
        pacer = self._pacers.get(key)
        if pacer is None:
            pacer = self._pacers[key] = Pacer(key, max_in_flight=self._max_in_flight)
            learned = self._memory.get(key)
            if isinstance(learned, Mapping):
                pacer.memory = learned
        return pacer

    def __iter__(self) -> Iterator[Pacer]:
        return iter(self._pacers.values())

    @property
    def memory(self) -> dict[str, Any]:
        """What all of them learned, by key, as plain JSON; also of those not asked for yet."""
        return {**self._memory, **{key: pacer.memory for key, pacer in self._pacers.items()}}
