"""Providers that limit tokens, say so in headers, and tell what a call used only in its answer.

Nobody tells the client what a call will cost: it has to learn that from the usage and the headers.
600 requests and 300,000 tokens a minute, and calls of about 1,100 tokens, unless said.
"""

import asyncio
import math
import random
from collections import deque
from dataclasses import replace
from typing import ClassVar

from providers import ONE_WAY_S, Answer, Bucket, Item, Provider, go_duration

PROMPT = 0.6
"""The share of a call's tokens that are its prompt's."""


class TokensLearned(Provider):
    """A bucket of a minute for requests and for tokens; lognormal sizes."""

    name = "P12a tokens in headers, cost learned"
    count = 3000
    per_minute: ClassVar[dict[str, float]] = {"requests": 600.0, "tokens": 300_000.0}
    told: ClassVar[bool] = True

    def __init__(self, seed: int = 0, count: int | None = None) -> None:
        super().__init__(seed, count)
        rng = random.Random(seed * 7919 + 2)
        self.items = [replace(item, tokens=self.size(item, rng)) for item in self.items]
        self.buckets = {name: Bucket(size / 60, size) for name, size in self.per_minute.items()}

    def size(self, item: Item, rng: random.Random) -> int:  # noqa: ARG002 - some models draw
        return item.tokens

    def charge(self, item: Item) -> float:
        """Return what the provider counts for a call."""
        return min(float(item.tokens), self.per_minute["tokens"])

    def usage(self, item: Item) -> dict[str, float] | None:
        if not self.told:
            return None
        prompt = int(PROMPT * item.tokens)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": item.tokens - prompt,
            "total_tokens": item.tokens,
        }

    def admit(self, item: Item, now: float) -> Answer:
        costs = {"requests": 1.0, "tokens": self.charge(item)}
        for bucket in self.buckets.values():
            bucket.refill(now)
        fits = all(bucket.level >= costs[name] for name, bucket in self.buckets.items())
        for name, bucket in self.buckets.items():
            bucket.level -= costs[name] if fits else 0
        headers = self.headers(now)
        if fits:
            return 200, headers, self.service(item)
        wait = max(bucket.wait(costs[name]) for name, bucket in self.buckets.items())
        return 429, {**headers, "retry-after": str(max(1, math.ceil(wait)))}, 0.0

    def headers(self, now: float) -> dict[str, str]:  # noqa: ARG002 - some models look at it
        headers = {}
        for name, bucket in self.buckets.items():
            headers[f"x-ratelimit-limit-{name}"] = str(int(bucket.burst))
            headers[f"x-ratelimit-remaining-{name}"] = str(int(bucket.level))
            full_in = (bucket.burst - bucket.level) / bucket.rate
            headers[f"x-ratelimit-reset-{name}"] = go_duration(full_in)
        return headers

    @property
    def total(self) -> float:
        return sum(map(self.charge, self.items))

    def capacity(self) -> float:
        by_tokens = self.per_minute["tokens"] / 60 / (self.total / len(self.items))
        return min(self.per_minute["requests"] / 60, by_tokens)

    def oracle(self) -> float:
        sizes = {"requests": float(len(self.items)), "tokens": self.total}
        return max((sizes[name] - size) / (size / 60) for name, size in self.per_minute.items())


class LongTail(TokensLearned):
    """A few calls are fifty times larger than most."""

    name = "P12b long tail"

    def size(self, item: Item, rng: random.Random) -> int:  # noqa: ARG002 - see above
        return min(60_000, max(20, int(rng.lognormvariate(math.log(450), 1.35))))


class TwoKinds(TokensLearned):
    """Four of five calls are small, the fifth is 25 times larger."""

    name = "P12c two sizes"

    def size(self, item: Item, rng: random.Random) -> int:  # noqa: ARG002 - see above
        return 5000 if rng.random() < 0.2 else 200


class Larger(TokensLearned):
    """From a third of the run on, calls are 5 times larger."""

    name = "P12d five times larger in mid-run"

    def size(self, item: Item, rng: random.Random) -> int:  # noqa: ARG002 - see above
        return item.tokens if item.index < len(self.items) // 3 else 5 * item.tokens


class Smaller(TokensLearned):
    """From a third of the run on, calls are 5 times smaller."""

    name = "P12e five times smaller in mid-run"

    def size(self, item: Item, rng: random.Random) -> int:  # noqa: ARG002 - see above
        return 5 * item.tokens if item.index < len(self.items) // 3 else item.tokens


class CountsMost(TokensLearned):
    """Counts the prompt and `max_tokens`, whatever the answer uses."""

    name = "P12f counts max_tokens"

    def charge(self, item: Item) -> float:
        return int(PROMPT * item.tokens) + 4096.0


class CountsPrompt(TokensLearned):
    """Counts the prompt only."""

    name = "P12g counts the prompt only"

    def charge(self, item: Item) -> float:
        return float(int(PROMPT * item.tokens))


class LongCalls(TokensLearned):
    """Calls of 15 s: what they cost is known only then."""

    name = "P12h calls of 15 s"
    latency_s = 15.0
    timeout_s = 600.0
    count = 6000


class LongCallsCountMost(CountsMost):
    """Calls of 15 s, and `max_tokens` counts."""

    name = "P12i calls of 15 s, counts max_tokens"
    latency_s = 15.0
    timeout_s = 600.0


class Lagging(TokensLearned):
    """Its headers describe the buckets of 5 s ago."""

    name = "P12j headers 5 s late"

    def __init__(self, seed: int = 0, count: int | None = None) -> None:
        super().__init__(seed, count)
        self.said: deque[tuple[float, dict[str, str]]] = deque()

    def headers(self, now: float) -> dict[str, str]:
        self.said.append((now, super().headers(now)))
        while len(self.said) > 1 and self.said[1][0] <= now - 5:
            self.said.popleft()
        return self.said[0][1]


class CountsAtTheEnd(TokensLearned):
    """Counts a call's tokens when it has been answered, and refuses while none are left."""

    name = "P12k counts when the call ends"

    async def respond(self, item: Item, started: float) -> tuple[int, dict[str, str]]:
        status, _, seconds = self.admit(item, started + ONE_WAY_S)
        await asyncio.sleep(seconds + ONE_WAY_S)
        answered_at = started + seconds + ONE_WAY_S
        tokens = self.buckets["tokens"]
        tokens.refill(answered_at)
        if status == 200:
            tokens.level -= item.tokens
        headers = self.headers(answered_at)
        await asyncio.sleep(ONE_WAY_S)
        return status, headers if status == 200 else {**headers, "retry-after": "1"}

    def admit(self, item: Item, now: float) -> Answer:
        for bucket in self.buckets.values():
            bucket.refill(now)
        if min(bucket.level for bucket in self.buckets.values()) < 1:
            return 429, {}, 0.0
        self.buckets["requests"].level -= 1
        return 200, {}, self.service(item)

    def headers(self, now: float) -> dict[str, str]:
        headers = super().headers(now)
        left = max(0, int(self.buckets["tokens"].level))
        return {**headers, "x-ratelimit-remaining-tokens": str(left)}


class TokenWindow(TokensLearned):
    """Windows of a minute instead of buckets; the reset is the window's end."""

    name = "P12l windows of a minute"

    def __init__(self, seed: int = 0, count: int | None = None) -> None:
        super().__init__(seed, count)
        self.minute = 0
        for bucket in self.buckets.values():
            bucket.rate = 1e-9

    def admit(self, item: Item, now: float) -> Answer:
        if int(now // 60) != self.minute:
            self.minute = int(now // 60)
            for bucket in self.buckets.values():
                bucket.level = bucket.burst
        status, headers, seconds = super().admit(item, now)
        if status != 200:
            headers["retry-after"] = str(math.ceil(60 * (self.minute + 1) - now))
        return status, headers, seconds

    def headers(self, now: float) -> dict[str, str]:
        headers = super().headers(now)
        left_s = 60 * (int(now // 60) + 1) - now
        for name in self.buckets:
            headers[f"x-ratelimit-reset-{name}"] = go_duration(left_s)
        return headers

    def oracle(self) -> float:
        sizes = {"requests": float(len(self.items)), "tokens": self.total}
        minutes = max(sizes[name] / size for name, size in self.per_minute.items())
        return 60 * math.floor(minutes) + 1


class UsageUntold(TokensLearned):
    """Answers do not say what they used: only the headers tell."""

    name = "P12m usage untold"
    told = False


class LargerUntold(Larger):
    """The same, and calls become 5 times larger."""

    name = "P12n usage untold, five times larger"
    told = False


class NoHeaders(TokensLearned):
    """Says nothing in headers; what a call used is known."""

    name = "P12o no headers"

    def headers(self, now: float) -> dict[str, str]:  # noqa: ARG002 - as the others
        return {}


class NoHeadersLarger(Larger):
    """The same, and calls become 5 times larger."""

    name = "P12p no headers, five times larger"

    def headers(self, now: float) -> dict[str, str]:  # noqa: ARG002 - as the others
        return {}
