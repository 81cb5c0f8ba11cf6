"""Which pacer belongs to this endpoint?

Each provider, account and model has one limit, so all its callers must share one pacer. A registry
returns the pacer by that key, and carries what the pacers learned to a later run.
"""

import functools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from limpet.pacing.memory import PaceMemory, digest_of, of_the_user
from limpet.pacing.observation import observing
from limpet.pacing.pacer import MAX_IN_FLIGHT, Cost, Pacer, Ticket
from limpet.pacing.permits import Permits, current_permits
from limpet.pacing.sharing import CallLog, shared_log
from limpet.pacing.together import PacerGroup, added_up

logger = logging.getLogger("limpet.pacing")

_OFF = "LIMPET_SHARE_PACE"


class PacerRegistry:
    """Pacers by their endpoint's key.

    Args:
        max_in_flight: Maximum calls in flight, for each pacer.
        fixed: Whether so many are always in flight: see `Pacer`.
        memory: What the pacers of an earlier run learned.
        remembered: What earlier runs of this user learned; it gets what these learn.
        shared: Whether to share the limits with other processes of this user.
    """

    def __init__(
        self,
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        fixed: bool = False,
        memory: Mapping[str, Any] | None = None,
        remembered: PaceMemory | None = None,
        shared: bool = False,
    ) -> None:
        self._max_in_flight = max_in_flight
        self._fixed = fixed
        self._memory: dict[str, Any] = dict(memory or {})
        self._remembered = None if fixed else remembered
        self._shared = shared and os.environ.get(_OFF) != "0"
        self._pacers: dict[str, Pacer] = {}
        self._groups: dict[tuple[str, ...], PacerGroup] = {}

    def get(self, key: str | tuple[str, ...]) -> Pacer:
        """Return the one pacer for this key, or for the keys of a group: see `members_of`."""
        keys = members_of(key) if isinstance(key, str) else key
        name = _name_of(keys)
        if len(keys) == 1 or name in self._pacers:
            return self._one(name)
        if keys not in self._groups:
            self._groups[keys] = PacerGroup(name, [*map(self._one, keys)])
        return self._groups[keys]

    def _one(self, key: str) -> Pacer:
        pacer = self._pacers.get(key)
        if pacer is None:
            account = _account(key)
            pacer = self._pacers[key] = Pacer(
                key,
                max_in_flight=self._max_in_flight,
                fixed=self._fixed,
                log=functools.partial(self._log_of, *account) if account else None,
            )
            learned = self._memory.get(key)
            if learned is None and self._remembered is not None and account:
                learned = self._remembered.learned(*account)
            if isinstance(learned, Mapping):
                pacer.memory = learned
        return pacer

    def _log_of(self, endpoint: str, account: bytes) -> CallLog | None:
        """Return where other processes tell of their calls; None: it is not shared."""
        if self._shared:
            try:
                return shared_log(endpoint, account)
            except OSError as error:
                self._shared = False  # said once
                logger.warning("the pace is not shared with other runs: %s", error)
        return None

    def use(self, key: str, pacer: Pacer) -> None:
        """Make this the one pacer for the key."""
        self._pacers[key] = pacer

    def save(self) -> None:
        """Remember what was learned of endpoints that have an address, for later runs."""
        if self._remembered is not None:
            found = [(_account(key), pacer.memory) for key, pacer in self._pacers.items()]
            self._remembered.save((*account, one) for account, one in found if account and one)

    def __iter__(self) -> Iterator[Pacer]:
        """Return the groups, and the pacers of no group."""
        grouped = {name for names in self._groups for name in names}
        yield from self._groups.values()
        yield from (pacer for key, pacer in self._pacers.items() if key not in grouped)

    @property
    def memory(self) -> dict[str, Any]:
        """What the pacers learned, by key, as plain JSON, including those not used yet."""
        return {**self._memory, **{key: pacer.memory for key, pacer in self._pacers.items()}}


_accounts: dict[str, list[bytes]] = {}  # the digests of the keys of each endpoint
_names: dict[str, tuple[str, bytes]] = {}  # the endpoint and the account of each pacer's key


def endpoint_for(endpoint: str, key: str) -> str:
    """Return the pacer's key for calls to an endpoint with this API key.

    Each account has its own limit. The first API key gets the plain name, shared with callers whose
    API key is unknown. Each further one gets a number that reveals nothing about it.
    """
    keys = _accounts.setdefault(endpoint, [])
    if (digest := digest_of(key)) not in keys:
        keys.append(digest)
    number = keys.index(digest) + 1
    name = endpoint if number == 1 else f"{endpoint} (key {number})"
    _names[name] = endpoint, digest
    return name


_groups: dict[str, tuple[str, ...]] = {}  # the members of each group of endpoints


def endpoints_for(endpoint: str, keys: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the pacer's key for calls with any of these API keys, and with each of them.

    Each of them has a pacer, and calls take the one that lets them start soonest.
    """
    names = [endpoint_for(endpoint, key) for key in keys]
    members = tuple(dict.fromkeys(names))
    if len(members) == 1:
        return members[0], names
    _groups[_name_of(members)] = members
    return _name_of(members), names


def _name_of(members: Sequence[str]) -> str:
    return " or ".join(members)


def members_of(key: str) -> tuple[str, ...]:
    """Return the keys of the pacers behind a key: several for a model with several API keys."""
    return _groups.get(key, (key,))


def _account(key: str) -> tuple[str, bytes] | None:
    """Return the endpoint and the account of a pacer; None for one without an address."""
    return _names.get(key) or ((key, b"") if "://" in key else None)


def learned_of(key: str) -> Mapping[str, Any]:
    """Return what earlier runs of this user learned of an endpoint; empty: nothing."""
    memory = of_the_user()
    accounts = [account for one in members_of(key) if (account := _account(one)) is not None]
    return {} if memory is None else added_up([memory.learned(*account) for account in accounts])


_current: ContextVar[PacerRegistry | None] = ContextVar("limpet_pacers", default=None)


def current_pacers() -> PacerRegistry | None:
    """Return the run's pacers; None outside a run."""
    return _current.get()


@contextmanager
def pacing_with(registry: PacerRegistry) -> Iterator[None]:
    """Use these pacers for `endpoint` within the block."""
    token = _current.set(registry)
    try:
        yield
    finally:
        _current.reset(token)


class endpoint:  # noqa: N801 - used like a function; a generator would take several times as long
    """Pace one call: wait until it may start, then make it within the block.

    For a workflow or evaluator that makes several calls, to one endpoint or to several: each call
    is paced, not the cell. All callers of an endpoint in a run share its pacer. An exception raised
    in the block is reported to the pacer and propagates, so the run retries the cell. The cell's
    time excludes the wait. `observe` in the block applies to this call. Outside a run this does
    nothing.

    Args:
        key: The endpoint: a provider, an account and a model.
        cost: Estimated cost of the call: a number of tokens, or a mapping by dimension.
    """

    __slots__ = ("_cost", "_key", "_observing", "_permits", "_ticket")

    def __init__(self, key: str, *, cost: Cost = 1) -> None:
        self._key = key
        self._cost = cost
        self._ticket: Ticket | None = None

    async def __aenter__(self) -> None:
        registry = _current.get()
        if registry is None:
            return
        self._permits: Permits = current_permits()
        self._ticket = await self._permits.acquire(registry.get(self._key), self._cost)
        self._observing = observing(self._ticket.observation)
        self._observing.__enter__()

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._ticket is None:
            return
        ticket, self._ticket = self._ticket, None
        try:
            self._permits.end(ticket, error)
        finally:
            self._observing.__exit__()
