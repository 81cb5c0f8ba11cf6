"""What can go wrong, sorted by what the caller can do about it.

HoldfastError
├── RateLimitError      the provider refused the call: slow down, try again
├── TransientError      it may work the next time: try again
├── PermanentError      it will not work the next time either: fix the input or the code
├── QuotaExhaustedError nothing will work until the account is topped up: stop, resume later
├── EndpointDownError   nothing has got through for a long time: stop, resume later
├── CallCancelledError  somebody asked for this one call to be cancelled
└── InterruptedRunError a signal asked the run to stop: run it again to go on

The first three are also for raising: a function under an executor says with them what its
failure means. All of them survive pickling.
"""


class HoldfastError(Exception):
    """The base of every error Holdfast raises.

    Args:
        message: What happened, where, with the value.
        hint: What to do next. Shown as a note under a traceback.
    """

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        # Only the message goes into args: pickling rebuilds with cls(*args) and restores the
        # attributes and notes from __dict__.
        super().__init__(message)
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")


class RateLimitError(HoldfastError):
    """The provider refused the call because too many were made.

    Args:
        message: What the provider said.
        retry_after: The seconds it asked us to wait, if it named any.
        hint: What to do next.
    """

    def __init__(
        self,
        message: str = "the provider refused the call: too many requests",
        *,
        retry_after: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class TransientError(HoldfastError):
    """The call failed in a way that may pass: it is worth another try."""


class PermanentError(HoldfastError):
    """The call failed in a way that trying again cannot mend."""


class QuotaExhaustedError(HoldfastError):
    """The account has nothing left to spend. It stops the run; what is finished is kept."""


class EndpointDownError(HoldfastError):
    """No call has got through for a long time. It stops the run; what is finished is kept."""


class CallCancelledError(HoldfastError):
    """One call was cancelled on request, by its index."""


class InterruptedRunError(HoldfastError):
    """A signal stopped the run before every input was done."""
