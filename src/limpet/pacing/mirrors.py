"""How much is left of the provider's buckets, and what does a call take from them?

The problem. Headers name a bucket of tokens and what is left of it, but they arrive with the
answer: seconds after the bucket was charged, with other calls sent since. And what a call costs is
known only when it has been answered, unless the caller estimates it.

What does not work. Averaging the cost that each response implies for its own call: responses arrive
out of order, so the figures scatter far below zero and far above, and their mean, clipped at zero,
grew to a hundred times the truth. Reserving the mean alone: with the bucket nearly empty, each call
larger than the rest is refused, again and again.

What we do. Each mirror is a copy of a bucket that predicts what the provider will report. A
response is compared with the prediction for its own request, and covers all requests sent before: a
response overtaken by that of a later request is old news. The difference is the cost of the calls
since the last comparison beyond what we expected. So we learn how much a call's usage is charged,
whether the provider counts tokens used, `max_tokens` or only the prompt. A call's usage is the mean
that answers reported; if they report none, every call counts as one.

We keep in reserve the worst recent error of the copy: it covers the sizes of calls, those in
flight, late headers and other clients, without modelling any of them. It costs a part of the bucket
once, not a part of its rate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from limpet.pacing.limits import MOST_LIMITS, SCOPE, Limit

LONGEST_MIRRORED_WAIT_S = 60.0
"""After this wait a call is made regardless of the headers: even a refusal is informative."""
RESERVE = (0.01, 0.25)
"""Least and greatest share of a bucket that is kept in reserve."""
MEMORY, PRIOR = 200, 10
"""Calls over which charges are averaged; calls assumed at first to be charged what they used."""
FORGET = 0.003
"""Share by which the reserve shrinks with each answer; about the share of calls refused."""
SURPRISE = 3.0
"""Multiple of the reserve a large call may take; with more left, the bucket was not the cause."""
LARGEST = 50.0
"""Multiple of the expected cost a large call may take: the long tail of P12b."""
GROW = 1.5
"""Growth of the reserve after a refusal."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a mirror expected when a request was sent.

    Attributes:
        level: What would be left.
        cost: What the request would take.
        corrected: The sum of all corrections until then.
        blind: Whether the cost was not known at all.
    """

    level: float
    cost: float
    corrected: float
    blind: bool


class Charge:
    """How much the provider charges for a call's usage.

    Attributes:
        known: Whether it is known at all.
    """

    def __init__(self) -> None:
        self.known = False
        self._told = False
        self._charged = self._used = 0.0

    def of(self, used: float | None) -> float:
        """Return the charge for a call with this usage; None or 0: not reported."""
        self._follow(used)
        if not self.known:
            return 1.0
        return max(0.0, self._charged / self._used) * (used or 1.0)

    def add(self, charged: float, calls: int, used: float | None) -> None:
        """Record the charge for `calls` calls with this usage each."""
        self._follow(used)
        kept = (1 - 1 / MEMORY) ** calls
        self._charged = kept * self._charged + charged
        self._used = kept * self._used + calls * (used or 1.0)
        self.known = True

    def _follow(self, used: float | None) -> None:
        """Start over when answers begin to report usage."""
        if used and not self._told:
            self.known = self._told = True
            self._charged = self._used = PRIOR * used


class Mirror:
    """A local copy of one of the provider's buckets.

    Args:
        limit: The bucket as the first response describes it.
        number: The number of that response's request.
        now: The time.

    Attributes:
        limit: Its size.
        charge: What a call takes from it.
    """

    def __init__(self, limit: Limit, number: int, now: float) -> None:
        self.limit = limit.limit
        self.charge = Charge()
        self._level = limit.remaining
        self._rate = limit.limit / 60  # until a reset says otherwise
        self._corrected = 0.0
        self._at = now
        self._newest = number  # the newest request whose response was compared
        self._off = 0.0  # how far the copy was above the truth, at worst and lately

    def wait_s(self, cost: float, now: float) -> float:
        """Return the seconds until there is enough for a request of this cost."""
        self._refill(now)
        # Never wait for more than a full bucket: then the provider may refuse the call.
        needed = min(cost + self._reserve, self.limit)
        self._level = max(self._level, needed - LONGEST_MIRRORED_WAIT_S * self._rate)
        return max(0.0, needed - self._level) / self._rate

    def take(self, cost: float, now: float, *, blind: bool = False) -> Prediction:
        """Record a request. Returns what is needed when its response arrives."""
        self._refill(now)
        self._level -= cost
        return Prediction(self._level, cost, self._corrected, blind)

    def give_back(self, predicted: Prediction) -> None:
        """Record that the request was not made."""
        self._shift(predicted.cost)

    def correct(
        self, limit: Limit, number: int, predicted: Prediction | None, used: float | None = None
    ) -> None:
        """Correct the copy by the response to a request; `used`: what a call uses."""
        self._resize(limit)
        if predicted is None:
            return
        if not predicted.blind:
            self._off = max((1 - FORGET) * self._off, predicted.level - limit.remaining)
        calls = number - self._newest
        if calls > 0:
            error = self._compare(limit, number, predicted)
            charged = calls * predicted.cost - error
            if charged > -RESERVE[0] * self.limit:  # otherwise it was filled: a window's end
                self.charge.add(charged, calls, used)

    def refuse(self, limit: Limit, number: int, predicted: Prediction | None) -> bool:
        """Correct the copy by a refusal. Returns whether the bucket explains it."""
        self._resize(limit)
        if predicted is None:
            return limit.remaining < RESERVE[0] * limit.limit
        large = predicted.cost + SURPRISE * self._reserve
        if not predicted.blind:
            large = min(large, LARGEST * predicted.cost)
        if limit.remaining > large:
            return False
        if number > self._newest:
            # Less was left than the call needed, whatever a late header says.
            left = min(limit.remaining, predicted.cost)
            self._compare(replace(limit, remaining=left), number, predicted)
        off = max(GROW * self._off, predicted.level + predicted.cost)
        self._off = min(off, RESERVE[1] * self.limit)
        return True

    @property
    def _reserve(self) -> float:
        least, most = RESERVE
        return min(max(self._off, least * self.limit), most * self.limit)

    def _compare(self, limit: Limit, number: int, predicted: Prediction) -> float:
        """Move to the level the response names. Returns how much higher it is."""
        error = limit.remaining - (predicted.level + self._corrected - predicted.corrected)
        self._shift(error)
        self._newest = number
        return error

    def _shift(self, amount: float) -> None:
        self._level += amount
        self._corrected += amount

    def _resize(self, limit: Limit) -> None:
        self.limit = limit.limit
        used = limit.limit - limit.remaining
        if limit.reset_s > 0 and used > RESERVE[0] * limit.limit:
            self._rate = used / limit.reset_s  # reset: until it is full

    def _refill(self, now: float) -> None:
        self._level = min(self.limit, self._level + (now - self._at) * self._rate)
        self._at = now


class Mirrors(dict[str, Mirror]):
    """A mirror of each bucket that the headers describe, by name.

    Args:
        used: A call's usage by dimension, as far as answers report it; may change.
    """

    def __init__(self, used: Mapping[str, float]) -> None:
        super().__init__()
        self._used = used

    def wait_s(self, costs: Mapping[str, float], now: float, calls: int = 1) -> float:
        """Return the seconds until every bucket has enough for so many such requests."""
        wait = 0.0
        for name, mirror in self.items():
            wait = max(wait, mirror.wait_s(calls * self._cost(name, costs), now))
        return wait

    def bind(self, now: float) -> bool:
        """Return whether a usual request would have to wait."""
        return self.wait_s({"requests": 1.0}, now) > 0

    def take(self, costs: Mapping[str, float], now: float) -> dict[str, Prediction]:
        """Record a request. Returns what is needed when its response arrives."""
        predictions = {}
        for name, mirror in self.items():
            cost = self._cost(name, costs)
            blind = _of(name, costs) is None and not mirror.charge.known
            predictions[name] = mirror.take(cost, now, blind=blind)
        return predictions

    def give_back(self, predictions: Mapping[str, Prediction]) -> None:
        """Record that a request was not made."""
        for name, predicted in predictions.items():
            self[name].give_back(predicted)

    def correct(
        self,
        limits: Iterable[Limit],
        number: int,
        predictions: Mapping[str, Prediction],
        now: float,
    ) -> None:
        """Correct the mirrors by the response to a request; add those of new buckets.

        Args:
            limits: The limits in the response.
            number: The request's number.
            predictions: What `take` returned for it.
            now: The time.
        """
        for limit in limits:
            self._add(limit, number, now)
            if limit.name in self:
                used, predicted = _of(limit.name, self._used), predictions.get(limit.name)
                self[limit.name].correct(limit, number, predicted, used)

    def refuse(
        self,
        limits: Iterable[Limit],
        number: int,
        predictions: Mapping[str, Prediction],
        now: float,
    ) -> bool:
        """Correct the mirrors by a refusal. Returns whether one of the buckets explains it."""
        explained = False
        for limit in limits:
            self._add(limit, number, now)
            if limit.name in self:
                predicted = predictions.get(limit.name)
                explained |= self[limit.name].refuse(limit, number, predicted)
        return explained

    def _add(self, limit: Limit, number: int, now: float) -> None:
        if limit.name not in self and len(self) < MOST_LIMITS:
            self[limit.name] = Mirror(limit, number, now)

    def _cost(self, name: str, costs: Mapping[str, float]) -> float:
        """Return what a request takes from a bucket: as estimated by the caller, or as learned."""
        told = _of(name, costs)
        return self[name].charge.of(_of(name, self._used)) if told is None else told


def _of(name: str, amounts: Mapping[str, float]) -> float | None:
    """Return the amount for a bucket; a scoped bucket uses its dimension's amount."""
    return amounts.get(name, amounts.get(name.rpartition(SCOPE)[2]))
