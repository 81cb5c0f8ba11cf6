"""Providers to pace against, in virtual time: buckets, windows, caps, queues, outages.

Each decides when a request arrives (`admit`) what to answer and after how long. `call` adds the
network and behaves as a real client does: it raises an error with a status and headers, or returns.
Latency is lognormal with a median of 1 s unless said; a refusal costs one network round trip.
"""

import asyncio
import heapq
import math
import random
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, ClassVar

import limpet

ONE_WAY_S = 0.025
SIGMA = 0.5
MEAN_FACTOR = math.exp(SIGMA**2 / 2)
NEVER_S = 1e9
Answer = tuple[int, dict[str, str], float]


@dataclass(frozen=True, slots=True)
class Item:
    """What is asked: what the provider will bill for it, and what the client estimates."""

    index: int
    tokens: int
    estimate: float


class Response:
    """As much of a client's response as an error carries."""

    def __init__(self, status_code: int, headers: dict[str, str]) -> None:
        self.status_code = status_code
        self.headers = headers


class HTTPStatusError(Exception):
    """What a client raises for an error status."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__(f"status {status}")
        self.response = Response(status, headers)


def make_items(count: int, seed: int) -> list[Item]:
    rng = random.Random(seed * 7919 + 1)
    items = []
    for index in range(count):
        tokens = max(20, int(rng.lognormvariate(math.log(800), 0.8)))
        items.append(Item(index, tokens, tokens * rng.lognormvariate(0, 0.2)))
    return items


class Bucket:
    """A token bucket whose refill rate may change at given times."""

    def __init__(
        self, rate: float, burst: float, schedule: tuple[tuple[float, float], ...] = ()
    ) -> None:
        self.rate, self.burst, self.level, self._at = rate, burst, burst, 0.0
        self._schedule = deque(schedule)

    def refill(self, now: float) -> None:
        while self._schedule and self._schedule[0][0] <= now:
            when, rate = self._schedule.popleft()
            self._advance(when)
            self.burst *= rate / self.rate
            self.rate = rate
        self._advance(now)

    def _advance(self, now: float) -> None:
        if now > self._at:
            self.level = min(self.burst, self.level + (now - self._at) * self.rate)
            self._at = now

    def take(self, now: float, cost: float = 1.0) -> bool:
        self.refill(now)
        if self.level < cost - 1e-9:
            return False
        self.level -= cost
        return True

    def wait(self, cost: float = 1.0) -> float:
        return max(0.0, cost - self.level) / self.rate


class Provider:
    """The base of the models.

    Attributes:
        costs: The client is given estimates of the sizes.
    """

    name: ClassVar[str] = "?"
    count: ClassVar[int] = 20_000
    timeout_s: float = 60.0
    latency_s: float = 1.0
    costs: ClassVar[bool] = False

    def __init__(self, seed: int = 0, count: int | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.items = make_items(count or self.count, seed)
        self.seen: Counter[str] = Counter()
        self.done_at: list[float] = []
        self.sent_at: list[float] = []  # of those that were answered
        self.story: list[tuple[float, str, int]] = []
        self.latency_sum = 0.0
        self.in_flight = 0

    def admit(self, item: Item, now: float) -> Answer:
        raise NotImplementedError

    def capacity(self) -> float:
        """Return the steady capacity at the start, in items per second."""
        raise NotImplementedError

    def oracle(self) -> float:
        """Return the least time in which anybody could do it, in seconds."""
        raise NotImplementedError

    def service(self, item: Item) -> float:  # noqa: ARG002 - some models look at it
        return self.rng.lognormvariate(math.log(self.latency_s), SIGMA)

    def usage(self, item: Item) -> dict[str, float] | None:  # noqa: ARG002 - some models tell it
        """Return what the answer says that the call used; None: nothing."""
        return None

    async def call(self, item: Item) -> int:
        """Make one request, as a client would."""
        started = asyncio.get_running_loop().time()
        self.in_flight += 1
        self.story.append((started, "sent", self.in_flight))
        try:
            status, headers = await self.respond(item, started)
        except asyncio.CancelledError:
            self.seen["timeout"] += 1
            raise
        finally:
            self.in_flight -= 1
        now = asyncio.get_running_loop().time()
        self.seen[str(status)] += 1
        if status != 200:
            self.story.append((now, "refused" if status == 429 else "failed", self.in_flight))
            raise HTTPStatusError(status, headers)
        self.done_at.append(now)
        self.sent_at.append(started)
        self.latency_sum += now - started
        limpet.pacing.observe(headers=headers or None, usage=self.usage(item))
        return item.index

    async def respond(self, item: Item, started: float) -> tuple[int, dict[str, str]]:
        status, headers, seconds = self.admit(item, started + ONE_WAY_S)
        await asyncio.sleep(seconds + 2 * ONE_WAY_S)
        return status, headers


class TokenBucket(Provider):
    """20 requests a second, burst 20: 429 without Retry-After."""

    name = "P1a bucket 20/s"
    rate: float = 20.0
    burst: float = 20.0
    names_wait: ClassVar[bool] = False
    schedule: ClassVar[tuple[tuple[float, float], ...]] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.bucket = Bucket(self.rate, self.burst, self.schedule)

    def admit(self, item: Item, now: float) -> Answer:
        if self.bucket.take(now):
            return 200, {}, self.service(item)
        wait = str(max(1, math.ceil(self.bucket.wait())))
        return 429, {"retry-after": wait} if self.names_wait else {}, 0.0

    def capacity(self) -> float:
        return self.rate

    def oracle(self) -> float:
        return max(0.0, len(self.items) - self.burst) / self.rate

    def perfect(self) -> float:
        """Return when a client that knew the limit would have its last answer.

        The oracle does not count the time of the last calls, which is luck: this does, with the
        same luck.
        """
        fresh = type(self)(self.seed, len(self.items))
        sent = (max(0.0, (n + 1 - self.burst) / self.rate) for n in range(len(self.items)))
        return max(at + 2 * ONE_WAY_S + fresh.service(fresh.items[0]) for at in sent)


class NamedWait(TokenBucket):
    """The same, with a Retry-After in whole seconds."""

    name = "P1b with Retry-After"
    names_wait = True


class MinuteBurst(TokenBucket):
    """A burst of a whole minute: what limits per minute mostly are."""

    name = "P1c burst of a minute"
    burst = 1200.0
    names_wait = True


class StrictBucket(TokenBucket):
    """A burst of 2: punishes any clumping."""

    name = "P1d burst 2"
    burst = 2.0


class StrictShort(StrictBucket):
    """The same in a job of 4,000 calls."""

    name = "P1g burst 2, 4,000 calls"
    count = 4_000


class SlidingMinute(Provider):
    """1,200 in any 60 s; refused requests count too."""

    name = "P1e sliding minute"
    limit: ClassVar[int] = 1200

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.log: deque[float] = deque()

    def admit(self, item: Item, now: float) -> Answer:
        while self.log and self.log[0] <= now - 60:
            self.log.popleft()
        fits = len(self.log) < self.limit
        if len(self.log) < 2 * self.limit:  # counters saturate
            self.log.append(now)
        return (200, {}, self.service(item)) if fits else (429, {}, 0.0)

    def capacity(self) -> float:
        return self.limit / 60

    def oracle(self) -> float:
        return max(0, math.ceil(len(self.items) / self.limit) - 1) * 60 + 1


class FixedMinute(SlidingMinute):
    """1,200 in each calendar minute, Retry-After to its end."""

    name = "P1f fixed minute"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.minute, self.used = 0, 0

    def admit(self, item: Item, now: float) -> Answer:
        minute = int(now // 60)
        if minute != self.minute:
            self.minute, self.used = minute, 0
        if self.used < self.limit:
            self.used += 1
            return 200, {}, self.service(item)
        return 429, {"retry-after": str(math.ceil((minute + 1) * 60 - now))}, 0.0


class InFlightCap(Provider):
    """At most 32 requests in service, 429 above."""

    name = "P2 cap of 32"
    cap: int = 32

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.busy: list[float] = []

    def admit(self, item: Item, now: float) -> Answer:
        while self.busy and self.busy[0] <= now:
            heapq.heappop(self.busy)
        if len(self.busy) >= self.cap:
            return 429, {}, 0.0
        seconds = self.service(item)
        heapq.heappush(self.busy, now + seconds)
        return 200, {}, seconds

    def capacity(self) -> float:
        # A slot is free again only when the answer is back and the next request has arrived.
        return self.cap / (self.latency_s * MEAN_FACTOR + 2 * ONE_WAY_S)

    def oracle(self) -> float:
        return len(self.items) / self.capacity()


def cap_of(number: int) -> type[InFlightCap]:
    """Return a model with such a cap in flight, for a job of 4,000 calls."""
    return type(
        "Cap", (InFlightCap,), {"name": f"P2b cap of {number}", "cap": number, "count": 4_000}
    )


class TokensPerMinute(Provider):
    """20,000 tokens a second, bucket of 10 s; lognormal sizes; latency grows with them."""

    name = "P3a tokens, sizes unknown"
    rate: ClassVar[float] = 20_000.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.bucket = Bucket(self.rate, 10 * self.rate)
        self.total = sum(item.tokens for item in self.items)

    def service(self, item: Item) -> float:
        return super().service(item) * math.sqrt(item.tokens / 1100)

    def admit(self, item: Item, now: float) -> Answer:
        if self.bucket.take(now, min(item.tokens, self.bucket.burst)):
            return 200, {}, self.service(item)
        return 429, {}, 0.0

    def capacity(self) -> float:
        return self.rate / (self.total / len(self.items))

    def oracle(self) -> float:
        return max(0.0, self.total - self.bucket.burst) / self.rate


class TokensKnown(TokensPerMinute):
    """The same; the client estimates sizes within 20%."""

    name = "P3b tokens, sizes known"
    costs = True


class QueueingServer(Provider):
    """32 slots and an unbounded queue, never a 429; the client gives up after 10 s."""

    name = "P4 queueing server"
    slots: ClassVar[int] = 32
    timeout_s = 10.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.free = asyncio.Semaphore(self.slots)

    async def respond(self, item: Item, started: float) -> tuple[int, dict[str, str]]:
        del started
        await asyncio.sleep(ONE_WAY_S)
        async with self.free:
            await asyncio.sleep(self.service(item))
        await asyncio.sleep(ONE_WAY_S)
        return 200, {}

    def capacity(self) -> float:
        return self.slots / (self.latency_s * MEAN_FACTOR)

    def oracle(self) -> float:
        return len(self.items) / self.capacity()


class FewSlots(QueueingServer):
    """8 slots and a queue, calls of 2 s; the client gives up after 20 s."""

    name = "P4b 8 slots, gives up after 20 s"
    slots = 8
    latency_s = 2.0
    timeout_s = 20.0
    count = 4_000


class Knee(QueueingServer):
    """24 slots and a queue, calls of 1.5 s."""

    name = "P4c knee at 24"
    slots = 24
    latency_s = 1.5
    timeout_s = 600.0


class Batching(InFlightCap):
    """Continuous batching: 1.5 s at 16 in flight, 6 s at 1,000, and never a refusal."""

    name = "P4d batching, room for 1,000"
    cap = 1000
    latency_s = 1.5
    slowest_s: ClassVar[float] = 6.0
    spread: ClassVar[float] = 0.2
    timeout_s = 600.0

    def service_s(self, in_flight: int) -> float:
        growth = max(0, in_flight - 16) / (self.cap - 16)
        return self.latency_s + growth * (self.slowest_s - self.latency_s)

    def service(self, item: Item) -> float:
        del item
        return self.service_s(len(self.busy) + 1) * self.rng.lognormvariate(0, self.spread)

    def capacity(self) -> float:
        return self.cap / self.service_s(self.cap)


class MovingRate(TokenBucket):
    """20 a second, half of it from 250 s, back at 600 s."""

    name = "P5 20 → 10 → 20"
    schedule = ((250.0, 10.0), (600.0, 20.0))

    def oracle(self) -> float:
        left, at, rate = len(self.items) - self.burst, 0.0, self.rate
        for when, new in self.schedule:
            if left <= (when - at) * rate:
                break
            left -= (when - at) * rate
            at, rate = when, new
        return at + left / rate


class MovingCap(InFlightCap):
    """A cap of 32, half of it from 250 s, back at 600 s."""

    name = "P5b cap 32 → 16 → 32"

    def admit(self, item: Item, now: float) -> Answer:
        self.cap = 16 if 250 <= now < 600 else 32
        return super().admit(item, now)

    def oracle(self) -> float:
        rate = 32 / (self.latency_s * MEAN_FACTOR + 2 * ONE_WAY_S)
        left = len(self.items) - rate * 250
        if left <= rate / 2 * 350:
            return 250 + max(0.0, left) / (rate / 2)
        return 600 + (left - rate / 2 * 350) / rate


class Noise(TokenBucket):
    """P1a with 1.5% random 500s, and 0.5% that hang until the timeout of 20 s."""

    name = "P6 2% noise"
    timeout_s = 20.0
    broken: ClassVar[float] = 0.015
    hung: ClassVar[float] = 0.005

    def admit(self, item: Item, now: float) -> Answer:
        status, headers, seconds = super().admit(item, now)
        luck = self.rng.random()
        if status == 200 and luck < self.hung:
            return 200, headers, NEVER_S
        if status == 200 and luck < self.hung + self.broken:
            return 500, headers, seconds
        return status, headers, seconds

    def oracle(self) -> float:
        return (len(self.items) / (1 - self.broken - self.hung) - self.burst) / self.rate


class Outage(TokenBucket):
    """P1a; everything fails fast with 503 from 200 s to 260 s."""

    name = "P7a outage, 503"
    start: ClassVar[float] = 200.0
    end: ClassVar[float] = 260.0

    def admit(self, item: Item, now: float) -> Answer:
        if self.start <= now < self.end:
            self.seen["in the outage"] += 1
            return self.refuse()
        return super().admit(item, now)

    def refuse(self) -> Answer:
        return 503, {}, 0.0

    def oracle(self) -> float:
        return (len(self.items) - 2 * self.burst) / self.rate + self.end - self.start


class HangingOutage(Outage):
    """The same, but requests hang; timeout 20 s."""

    name = "P7b outage, hangs"
    timeout_s = 20.0

    def refuse(self) -> Answer:
        return 200, {}, NEVER_S


class NamedLimits(Provider):
    """Headers on every response; 1,200 requests and 1.2 M tokens a minute; tokens bind."""

    name = "P8 rate-limit headers"
    per_minute: ClassVar[dict[str, float]] = {"requests": 1200.0, "tokens": 1_200_000.0}
    costs = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.buckets = {name: Bucket(size / 60, size) for name, size in self.per_minute.items()}
        self.total = sum(item.tokens for item in self.items)

    def admit(self, item: Item, now: float) -> Answer:
        costs = {"requests": 1.0, "tokens": float(item.tokens)}
        for bucket in self.buckets.values():
            bucket.refill(now)
        fits = all(bucket.level >= costs[name] for name, bucket in self.buckets.items())
        headers = {}
        for name, bucket in self.buckets.items():
            bucket.level -= costs[name] if fits else 0
            full_in = (bucket.burst - bucket.level) / bucket.rate
            headers[f"x-ratelimit-limit-{name}"] = str(int(bucket.burst))
            headers[f"x-ratelimit-remaining-{name}"] = str(int(bucket.level))
            headers[f"x-ratelimit-reset-{name}"] = go_duration(full_in)
        if fits:
            return 200, headers, self.service(item)
        wait = max(bucket.wait(costs[name]) for name, bucket in self.buckets.items())
        return 429, {**headers, "retry-after": str(max(1, math.ceil(wait)))}, 0.0

    def capacity(self) -> float:
        by_tokens = self.per_minute["tokens"] / 60 / (self.total / len(self.items))
        return min(self.per_minute["requests"] / 60, by_tokens)

    def oracle(self) -> float:
        sizes = {"requests": float(len(self.items)), "tokens": float(self.total)}
        return max((sizes[name] - size) / (size / 60) for name, size in self.per_minute.items())


def go_duration(seconds: float) -> str:
    """Write a duration as OpenAI does."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    if seconds < 60:
        return f"{seconds:.3f}s"
    return f"{int(seconds // 60)}m{seconds % 60:.3f}s"


class Slow(TokenBucket):
    """Calls of 10 s."""

    name = "P1a, calls of 10 s"
    latency_s = 10.0
    timeout_s = 600.0


class VerySlow(TokenBucket):
    """Calls of 30 s."""

    name = "P1a, calls of 30 s"
    latency_s = 30.0
    timeout_s = 600.0


class FewPerMinute(TokenBucket):
    """12 requests a minute, burst 12, 300 items."""

    name = "P1a at 12 a minute"
    count = 300
    rate = 0.2
    burst = 12.0


class Unforeseen(InFlightCap):
    """A provider drawn at random: a rate, a burst, perhaps a cap, and a latency of any kind."""

    name = "drawn at random"

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed + 7)
        self.latency_s = 10 ** rng.uniform(-0.7, 1.3)
        rate = 10 ** rng.uniform(-0.3, min(2.0, math.log10(500 / self.latency_s)))
        self.bucket = Bucket(rate, max(2.0, rate * 10 ** rng.uniform(0, 1)))
        capped = rng.random() < 0.5
        self.cap = int(10 ** rng.uniform(1.1, 2.5)) if capped else 10**9
        self.timeout_s = 100 * self.latency_s + 60
        lasting = max(1000.0, self.capacity() * 60 * self.latency_s + self.bucket.burst)
        super().__init__(seed, int(min(20_000.0, lasting)))

    def admit(self, item: Item, now: float) -> Answer:
        while self.busy and self.busy[0] <= now:
            heapq.heappop(self.busy)
        if len(self.busy) >= self.cap or not self.bucket.take(now):
            return 429, {}, 0.0
        return super().admit(item, now)

    def capacity(self) -> float:
        return min(self.bucket.rate, super().capacity())

    def oracle(self) -> float:
        by_rate = max(0.0, len(self.items) - self.bucket.burst) / self.bucket.rate
        return max(by_rate, len(self.items) / super().capacity())
