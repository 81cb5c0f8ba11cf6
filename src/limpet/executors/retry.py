"""Should a failed attempt be tried again, and when?"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from limpet.arguments import function, number_from, whole_number_from
from limpet.executors.progress import ProgressReporter
from limpet.pacing import signals
from limpet.pacing.limits import number
from limpet.pacing.signals import FailureKind, Signal

Classify = Callable[[BaseException], Signal | FailureKind | str | None]
"""Overrides what an error means: a kind or a signal, or None for the built-in classification."""


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff: the n-th wait is drawn from 0 to `base_s` × 2ⁿ, at most `cap_s`.

    Full jitter: calls that failed together are not retried together.
    """

    base_s: float = 0.1
    cap_s: float = 8.0
    rng: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def __post_init__(self) -> None:
        number_from(0, base_s=self.base_s)
        number_from(0, cap_s=self.cap_s)

    def wait_s(self, retries: int) -> float:
        """Return the wait before the next attempt after `retries` retries so far."""
        # The exponent is bounded because 2.0 ** 1024 overflows.
        return self.rng.uniform(0, min(self.cap_s, self.base_s * 2.0 ** min(retries, 60)))


class RetryRules:
    """Decides about failed attempts, for both executors."""

    def __init__(self, max_retries: int, classify: Classify | None, backoff: Backoff) -> None:
        self.max_retries = whole_number_from(0, max_retries=max_retries)
        self._classify = None if classify is None else function(classify=classify)
        if not isinstance(backoff, Backoff):
            raise TypeError(f"backoff={backoff!r}: must be a Backoff or None")
        self.backoff = backoff

    def decide(
        self, error: BaseException, retries: int, progress: ProgressReporter, mistakes: int = 0
    ) -> tuple[Signal, float | None]:
        """Return what an error means, and the seconds until a retry; None: no retry.

        Args:
            error: The exception the attempt raised.
            retries: How often the input was retried before.
            progress: Logs failures of the user's `classify`.
            mistakes: How many earlier attempts failed because of a mistake.
        """
        signal = self._signal(error, progress)
        retry = signal.kind in (FailureKind.RATE_LIMIT, FailureKind.TRANSIENT)
        retry = retry or (signal.kind is FailureKind.MISTAKE and not mistakes)
        if not retry or retries >= self.max_retries:
            return signal, None
        if signal.retry_after_s is not None:
            return signal, signal.retry_after_s
        return signal, self.backoff.wait_s(retries)

    def _signal(self, error: BaseException, progress: ProgressReporter) -> Signal:
        ours = signals.classify(error)
        if self._classify is None:
            return ours
        try:
            theirs = self._classify(error)
            if theirs is None:
                return ours
            if isinstance(theirs, Signal):
                wait = number(theirs.retry_after_s)
                kind = FailureKind(theirs.kind)
                return replace(theirs, kind=kind, retry_after_s=wait, limits=tuple(theirs.limits))
            return replace(ours, kind=FailureKind(theirs))
        except Exception as fault:  # noqa: BLE001 - logged; a faulty classify must not stop the run
            progress.log_fault(
                fault,
                "classify=%s failed on %s or did not return a Signal, one of %s, or None; "
                "using the built-in classification",
                self._classify,
                error,
                ", ".join(FailureKind),
            )
            return ours
