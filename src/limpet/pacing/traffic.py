"""Which requests were sent recently, and which of them were refused?"""

import math
from collections import deque
from collections.abc import Mapping
from functools import lru_cache

from limpet.pacing.limits import number
from limpet.pacing.mirrors import Prediction

MINUTE_S = 60.0
MEASURED_S = 15.0
"""Seconds in which calls waited that tell what an endpoint takes."""


class Sent:
    """One request: when it was sent, its cost, and how many were in flight."""

    __slots__ = ("at", "cost", "in_flight", "number", "owner", "predictions", "refused", "rest_s")

    def __init__(self, at: float, cost: float, in_flight: int, owner: object) -> None:
        self.at = at
        self.cost = cost
        self.in_flight = in_flight
        self.owner = owner
        self.number = 0  # its position among all requests, in the order sent
        self.refused = False
        self.rest_s = 0.0  # how long it waits after it was refused, and keeps its place
        self.predictions: dict[str, Prediction] = {}


class Traffic:
    """The requests of the last two minutes.

    Args:
        minute_s: The length of a minute; less if nothing is measured and only the pace is shown.

    Attributes:
        minute_cost: Total cost of the last minute.
        count: How many requests were ever sent.
    """

    def __init__(self, minute_s: float = MINUTE_S) -> None:
        self._minute_s = minute_s
        self._kept: deque[Sent] = deque()
        self._minute: deque[Sent] = deque()
        self.minute_cost = 0.0
        self.count = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, sent: Sent) -> None:
        self.forget_old(sent.at)
        self.count += 1
        sent.number = self.count
        self._kept.append(sent)
        self._minute.append(sent)
        self.minute_cost += sent.cost

    def remove(self, sent: Sent) -> None:
        """Remove a request that was never made."""
        if sent in self._kept:
            self._kept.remove(sent)
        if sent in self._minute:
            self._minute.remove(sent)
            self.minute_cost -= sent.cost

    def forget_old(self, now: float) -> None:
        while self._minute and self._minute[0].at <= now - self._minute_s:
            self.minute_cost -= self._minute.popleft().cost
        while self._kept and self._kept[0].at < now - 2 * self._minute_s:
            self._kept.popleft()

    def begin_minute(self) -> None:
        """Record that the provider's minute began anew."""
        self._minute.clear()
        self.minute_cost = 0.0

    @property
    def since(self) -> float:
        """When the oldest recorded request was sent."""
        return self._kept[0].at if self._kept else math.inf

    @property
    def minute_since(self) -> float | None:
        """When the oldest request of the last minute was sent; None without one."""
        return self._minute[0].at if self._minute else None

    def accepted(self, since: float, until: float) -> list[Sent]:
        """Return the requests sent in between that were not refused, so far."""
        return [sent for sent in self._kept if since < sent.at < until and not sent.refused]

    def minute_before(self, until: float) -> list[float]:
        """Return the costs of accepted requests in the minute before the last of them.

        Not in the minute before now: a pause measures nothing.
        """
        accepted = self.accepted(-math.inf, until)
        start = accepted[-1].at - MINUTE_S if accepted else 0.0
        return [sent.cost for sent in accepted if sent.at >= start]

    def cost_of_the_last(self, seconds: float, until: float) -> float:
        cost = 0.0
        for sent in reversed(self._minute):
            if sent.at < until - seconds:
                break
            cost += sent.cost
        return cost

    def requests_per_s(self, now: float) -> float:
        """Return the requests per second over all that is recorded."""
        return len(self._kept) / max(1.0, now - self.since) if self._kept else math.inf

    def requests_per_s_of_the_minute(self, now: float) -> float:
        """Return the requests per second over the last minute, or since the first."""
        self.forget_old(now)
        return len(self._minute) / max(1.0, now - self._minute[0].at) if self._minute else 0.0


class Throughput:
    """What an endpoint took while calls waited for it, whatever limits it.

    Attributes:
        remembered: The rate of an earlier run, which counts as a minute of this one; 0: unknown.
        cost: What it took.
        seconds: How long calls waited for it.
    """

    def __init__(self) -> None:
        self.remembered = self.cost = self.seconds = 0.0
        self._sent_at = math.inf

    def add(self, sent: Sent, *, waited: bool) -> None:
        """Record a request, and whether it waited for its permit."""
        if waited and self._sent_at < sent.at:
            self.seconds += min(sent.at - self._sent_at, MINUTE_S)
        self.cost += sent.cost * waited
        self._sent_at = sent.at

    @property
    def rate(self) -> float:
        """Cost per second; 0: unknown."""
        weight = MINUTE_S if self.remembered else 0.0
        seconds = weight + self.seconds
        return (weight * self.remembered + self.cost) / seconds if seconds >= MEASURED_S else 0.0


# ---- Is this call larger than others? -----------------------------------------------------------
#
# A bucket that is kept nearly empty refuses a large call again and again while small ones pass.
# Its size may be unknown, but we see how often it was refused. So such a call waits until the
# bucket has refilled twice as much as for another, then four times as much, and so on.

OFTEN, LARGEST = 3, 64.0
"""Refusals after which a call is assumed to be larger; the largest factor assumed."""
MOST_OWNERS = 1000


class LargeCalls:
    """How often calls were refused while others passed, by owner, until they are answered."""

    def __init__(self) -> None:
        # How many, of which so many while others passed, and the answers by then.
        self._refusals: dict[object, tuple[int, int, int]] = {}
        self._answers = 0

    def refused(self, owner: object) -> int:
        """Record a refusal. Returns how often this call was refused before."""
        refusals, count, answers = self._refusals.get(owner, (0, 0, -1))
        others_passed = self._answers > answers
        self._refusals[owner] = refusals + 1, count + others_passed, self._answers
        if len(self._refusals) > MOST_OWNERS:  # some gave up
            del self._refusals[next(iter(self._refusals))]
        return refusals

    def answered(self, owner: object) -> None:
        self._answers += 1
        self._refusals.pop(owner, None)

    def size_of(self, owner: object) -> float:
        """Return how many times larger than others a call may be."""
        _, refusals, _ = self._refusals.get(owner, (0, 0, 0))
        return 1.0 if refusals < OFTEN else min(2.0 ** (refusals - OFTEN + 1), LARGEST)


# ---- How many tokens did calls use, under any client's names? -----------------------------------

LEARN = 0.05
"""Weight of a call in the mean."""
MOST_TOKENS = 1e9
"""Most tokens in a call that are believed."""

# Lower case, without separators: promptTokenCount and prompt_token_count are the same.
_NAMES = {
    "tokens": ("totaltokens", "totaltokencount", "tokens"),
    "input-tokens": ("prompttokens", "inputtokens", "prompttokencount", "promptevalcount"),
    "output-tokens": ("completiontokens", "outputtokens", "candidatestokencount", "evalcount"),
}


def tokens_in(usage: object) -> dict[str, float]:
    """Return the tokens a call used, under the names in rate-limit headers.

    Reads the usage of OpenAI, Anthropic, Gemini, Bedrock, Ollama and compatible ones.
    """
    if not isinstance(usage, Mapping):
        return {}
    plain = {_plain(str(name)): number(amount) for name, amount in usage.items()}
    found: dict[str, float] = {}
    for dimension, names in _NAMES.items():
        for name in names:
            if (amount := plain.get(name)) is not None:
                found[dimension] = min(amount, MOST_TOKENS)
                break
    parts = found.get("input-tokens", 0.0) + found.get("output-tokens", 0.0)
    if parts:
        found.setdefault("tokens", parts)
    return found


@lru_cache(maxsize=64)
def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


class MeanUsage:
    """The mean usage of a call, by dimension.

    Attributes:
        mean: The tokens of a call; a dimension without any usage is missing.
    """

    def __init__(self) -> None:
        self.mean: dict[str, float] = {}
        self._calls = 0

    def add(self, used: Mapping[str, float]) -> None:
        """Record what a call used."""
        self._calls += bool(used)
        for name, amount in used.items():
            mean = self.mean.get(name, amount)
            self.mean[name] = mean + max(LEARN, 1 / self._calls) * (amount - mean)
