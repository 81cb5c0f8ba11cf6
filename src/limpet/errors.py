"""What can go wrong, sorted by what the caller can do about it.

LimpetError
├── RateLimitError      the provider refused the call: slow down, try again
├── TransientError      it may work the next time: try again
├── PermanentError      it will not work the next time either: fix the input or the code
├── QuotaExhaustedError nothing will work until the account is topped up: stop, resume later
├── EndpointDownError   nothing has got through for a long time: stop, resume later
├── SetupError          every call would be refused as it is made: fix the setup, resume
├── EarlyStopError      the first cells all failed alike: mend what they say, resume
├── CallCancelledError  somebody asked for this one call to be cancelled
├── InterruptedRunError a signal asked the run to stop: run it again to go on
├── ConfigError         a configuration file cannot be used as it is: fix it
├── DatasetError        a file or row of the dataset cannot be used: fix it, or skip it
├── FunctionChangedError the results on disk are of other code: redo them, or keep them
└── JournalError        the journal cannot be read or written as it is
    ├── DiskFullError   there is no room: make some, and go on
    ├── RecordNotWrittenError  this one could not be written, others can: it runs again
    └── RunLockedError  another process writes there: wait for it

The first three are also for raising: a function under an executor says with them what its
failure means. All of them survive pickling.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any


class LimpetError(Exception):
    """The base of every error Limpet raises.

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


class RateLimitError(LimpetError):
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


class TransientError(LimpetError):
    """The call failed in a way that may pass: it is worth another try."""


class PermanentError(LimpetError):
    """The call failed in a way that trying again cannot mend."""


class QuotaExhaustedError(LimpetError):
    """The account has nothing left to spend. It stops the run; what is finished is kept."""


class EndpointDownError(LimpetError):
    """No call has got through for a long time. It stops the run; what is finished is kept."""


class SetupError(LimpetError):
    """Every call would be refused in the way it is made. It stops the run; no item is to blame."""


class EarlyStopError(LimpetError):
    """The first cells of a step all failed alike. It stops the run; what is finished is kept.

    Attributes:
        step: Which step.
        id: Of which item the first failure was.
        traceback: That failure's, with the frames of the user's own code; empty if it had none.
    """

    step: str = ""
    id: str = ""
    traceback: str = ""


class CallCancelledError(LimpetError):
    """One call was cancelled on request, by its index."""


class InterruptedRunError(LimpetError):
    """A signal stopped the run before every input was done.

    Attributes:
        signum: Which signal; None if it was none.
    """

    signum: int | None = None


class DatasetError(LimpetError):
    """A file or a row of the dataset cannot be used as it is. The message names where it stands."""


class ConfigError(LimpetError):
    """A configuration file cannot be used as it is. The message names each fault with its line."""


class FunctionChangedError(LimpetError):
    """What made the results on disk is not what would make the next: the caller must choose.

    Attributes:
        plan: What a redo would do, where that is known: a `Plan`.
        before: The digest of each part of what made the results.
        files: The names of files that changed since the results were made of them.
        differences: What is different now, each a `Difference`; where that is known.
    """

    plan: object = None
    before: Mapping[str, str] = MappingProxyType({})
    files: Sequence[str] = ()
    differences: Sequence[Any] = ()


class JournalError(LimpetError):
    """The journal cannot be read or written as it is. What was acknowledged is safe."""


class DiskFullError(JournalError):
    """There is no room left on the disk. With room, the same journal goes on."""


class RecordNotWrittenError(JournalError):
    """One record could not be written. No other is harmed; its cell is not done."""


class RunLockedError(JournalError):
    """Another process writes to this journal.

    Args:
        message: Which journal, and who.
        hint: What to do next.
        holder: What the lock says of its holder: pid, host, boot_id, started.
    """

    def __init__(
        self,
        message: str = "",
        *,
        hint: str | None = None,
        holder: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.holder = dict(holder or {})
