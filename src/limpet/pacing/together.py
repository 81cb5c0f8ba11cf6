"""How do several pacers carry calls together, each as many as it allows?

A model with several keys has a pacer for each. A call that cannot start at once waits at all of
them, and the first that lets it start carries it: the call takes the key with which it starts
soonest, and together they carry what all of them allow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from limpet.pacing.limits import number
from limpet.pacing.pacer import Cost, PaceEvent, Pacer, PacerState, Ticket

_ADDED = ("steady_rate", "rate", "in_flight", "per_minute")
_TOPS = ("rate", "in_flight_cap", "per_minute")
_COUNTS = ("limit", "in_flight", "calls_per_s", "sent", "refused", "failed")


class PacerGroup(Pacer):
    """Pacers that carry calls together: executors and calls see one pacer.

    Args:
        key: Its name.
        members: The pacers. Others may use them, too.
    """

    def __init__(self, key: str, members: Sequence[Pacer]) -> None:
        super().__init__(key, max_in_flight=members[0].max_in_flight, fixed=members[0].fixed)
        self.members = self._all = tuple(members)

    def acquire_nowait(self, cost: Cost = 1, *, owner: object = None) -> Ticket | None:
        for member in self.members:
            if (ticket := member.acquire_nowait(cost, owner=owner)) is not None:
                ticket.asked = self
                self.members = (*self._without(member), member)  # few calls use all of them, too
                return ticket
        return None

    def set_aside(self, member: Pacer) -> None:
        if others := self._without(member):
            self.members = others
            member.send_away(self)

    def _without(self, member: Pacer) -> tuple[Pacer, ...]:
        return tuple(one for one in self.members if one is not member)

    def change(self, most: int, *, fixed: bool) -> None:
        self.max_in_flight, self.fixed = most, fixed
        for member in self._all:
            member.change(most, fixed=fixed)

    def subscribe(self, listener: Callable[[PaceEvent], None]) -> Callable[[], None]:
        ends = ExitStack()
        for member in self._all:
            ends.callback(member.subscribe(listener))
        return ends.close

    # ---- state ----------------------------------------------------------------------------------

    @property
    def state(self) -> PacerState:
        """What they carry together; why the one with the most calls in flight waits."""
        states = [one.state for one in self._all]
        first = max(
            (one.state for one in self.members),
            key=lambda one: (one.blocked is None, one.in_flight),
        )
        used = {name for one in states for name in one.usage}
        total: dict[str, Any] = {
            **{name: sum(getattr(one, name) for one in states) for name in _COUNTS},
            **{name: _sum(getattr(one, name) for one in states) for name in _TOPS},
            "usage": {name: sum(one.usage.get(name, 0) for one in states) for name in used},
        }
        return replace(first, **total)  # a call waits at all of them

    @property
    def blocked(self) -> bool:
        return all(member.blocked for member in self.members)

    @property
    def blocked_s(self) -> float:
        return min(member.blocked_s for member in self.members)

    @property
    def held_s(self) -> float:
        return min(member.held_s for member in self.members)

    @property  # type: ignore[misc]  # its members are restored, not it
    def memory(self) -> dict[str, Any]:
        return added_up([member.memory for member in self.members])


def added_up(memories: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several pacers learned as if it were one pacer's."""
    total = dict(next(filter(None, memories), {}))
    for name in _ADDED:
        tops = [top for each in memories if (top := number(each.get(name))) is not None]
        total |= {name: sum(tops)} if tops else {}
    return total


def _sum(tops: Iterable[float | None]) -> float | None:
    known = list(tops)
    return sum(filter(None, known)) if None not in known else None
