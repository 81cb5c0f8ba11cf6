"""Providers that refuse by chance, and proxies that refuse in words of their own.

Behind each stands a server of 32 slots and a queue, so there is a best number of calls at a
time, unless said.
"""

import asyncio
from typing import ClassVar

from providers import Answer, FixedMinute, InFlightCap, Item, QueueingServer, TokenBucket


class Chance(QueueingServer):
    """Refuses a share of all calls, at any pace."""

    share: ClassVar[float] = 0.05
    wait_s: ClassVar[float | None] = None
    timeout_s = 600.0
    lasting_s: ClassVar[float] = 300.0

    def __init__(self, seed: int = 0, count: int | None = None) -> None:
        self.one_way_s = min(0.025, self.latency_s / 10)
        super().__init__(seed, count or int(min(20_000, self.lasting_s * self.capacity())))

    async def respond(self, item: Item, started: float) -> tuple[int, dict[str, str]]:
        del started
        await asyncio.sleep(self.one_way_s)
        if self.rng.random() < self.share:
            await asyncio.sleep(self.one_way_s)
            return 429, {} if self.wait_s is None else {"retry-after": str(self.wait_s)}
        async with self.free:
            await asyncio.sleep(self.service(item))
        await asyncio.sleep(self.one_way_s)
        return 200, {}


def by_chance(share: float, latency_s: float, wait_s: float | None = None) -> type[Chance]:
    """Return a model that refuses such a share of calls that take so long."""
    waits = "" if wait_s is None else f", Retry-After {wait_s:g}"
    unit = f"{latency_s * 1000:g} ms" if latency_s < 1 else f"{latency_s:g} s"
    lasting = max(300.0, 60 * latency_s)
    return type(
        "Chance",
        (Chance,),
        {
            "name": f"P9 {share:.0%} by chance, calls of {unit}{waits}",
            "share": share,
            "latency_s": latency_s,
            "wait_s": wait_s,
            "lasting_s": lasting,
        },
    )


class ChanceAndRate(TokenBucket):
    """A bucket of 20 a second; of what it would take, 5% is refused by chance."""

    name = "P10a bucket 20/s and 5% by chance"
    share: ClassVar[float] = 0.05

    def admit(self, item: Item, now: float) -> Answer:
        if self.rng.random() < self.share:
            return 429, {}, 0.0
        return super().admit(item, now)


class ChanceAndCap(InFlightCap):
    """A cap of 32 in flight; 5% is refused by chance."""

    name = "P10b cap of 32 and 5% by chance"
    share: ClassVar[float] = 0.05

    def admit(self, item: Item, now: float) -> Answer:
        if self.rng.random() < self.share:
            return 429, {}, 0.0
        return super().admit(item, now)


class ProxyMinute(FixedMinute):
    """LiteLLM's limit of a model: 1,200 in each calendar minute, always "60 s", of the provider."""

    name = "P11a proxy, limit of a model"

    def admit(self, item: Item, now: float) -> Answer:
        status, _, seconds = super().admit(item, now)
        return status, {} if status == 200 else {"llm_provider-retry-after": "60"}, seconds


class ProxyKey(FixedMinute):
    """LiteLLM's limit of a key: 1,200 in each minute, named in headers of its own."""

    name = "P11b proxy, limit of a key"

    def admit(self, item: Item, now: float) -> Answer:
        status, headers, seconds = super().admit(item, now)
        headers["x-ratelimit-api_key-limit-requests"] = str(self.limit)
        headers["x-ratelimit-api_key-remaining-requests"] = str(self.limit - self.used)
        return status, headers, seconds


class ProxyAtOnce(InFlightCap):
    """LiteLLM's limit of calls at once: 8, calls of 0.5 s, and "60 s" with each refusal."""

    name = "P11c proxy, 8 at once"
    cap = 8
    latency_s = 0.5
    count = 5_000
    told: ClassVar[dict[str, str]] = {
        "retry-after": "60",
        "rate_limit_type": "max_parallel_requests",
    }

    def admit(self, item: Item, now: float) -> Answer:
        status, headers, seconds = super().admit(item, now)
        return status, headers if status == 200 else self.told, seconds
