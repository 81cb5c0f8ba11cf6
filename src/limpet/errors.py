"""What can go wrong, sorted by what the caller can do about it.

LimpetError             the base of all: its hint says what to do
├── RateLimitError      the provider refused the call: slow down, try again
├── TransientError      it may work the next time: try again
├── PermanentError      a retry fails, too: fix the input or the code
│   ├── InvalidReplyError  a model's reply is cut off, refused or malformed: mend the prompt
│   └── WorkerDiedError    the process that ran only this call died: mend what kills it
├── QuotaExhaustedError the account's quota is used up: top it up, resume
├── BudgetReachedError  the run's own budget is used up: raise it, resume
├── EndpointDownError   no call has succeeded for a long time: resume when the provider is back
├── SetupError          every call would fail the same way: fix the setup, resume
├── FailFastError       the first calls all failed the same way: fix the cause, resume
├── CallCancelledError  this one call was cancelled on request: run it again to continue
│   └── ItemSkippedError  somebody said to leave this item out: run it again to continue
├── InterruptedRunError a signal stopped the run: run it again to continue
├── RunPausedError      somebody paused the run: resume it, then run it again
├── ConfigError         a configuration file is invalid: fix it
├── DatasetError        a file or row of the dataset cannot be used: fix it, or skip it
├── ScoresError         scores cannot be summed up: fix them, or say more about them
├── FunctionChangedError the results on disk come from other code: redo them, or keep them
└── JournalError        the journal cannot be read or written: look at it with `limpet verify`
    ├── DiskFullError   the disk is full: free some space, and continue
    ├── OtherFormatError  another version of Limpet wrote the run: use that version
    ├── RecordNotWrittenError  one record could not be written, others can: run it again
    └── RunLockedError  another process is writing to the run: wait for it

Functions under an executor can raise the first three to say what their failure means. All of them
survive pickling.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from limpet.shapes import Difference

E = TypeVar("E", bound=Exception)
_NOT_SHOWN = object()
_LONGEST = 300


class LimpetError(Exception):
    """The base of every error Limpet raises.

    Args:
        message: What happened, where, with the value.
        hint: What to do next. Shown as a note under a traceback.

    Attributes:
        details: More about it, in several lines, like a program's stderr. Recorded and shown
            instead of a traceback.
        result: The result of the run that it stopped; None if it stopped none.
    """

    details: str = ""
    result: Any = None

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        # Only the message goes into args: pickling rebuilds with cls(*args) and restores the
        # attributes and notes from __dict__.
        super().__init__(message)
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> Any:
        # Without the result, which reads files of this process.
        kept = {name: value for name, value in vars(self).items() if name != "result"}
        return type(self), self.args, kept


class RateLimitError(LimpetError):
    """The provider refused the call because too many were made.

    Args:
        message: What the provider said.
        retry_after: The seconds it asks to wait, if any.
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
    """The call failed, but a retry may succeed."""


class PermanentError(LimpetError):
    """The call failed, and a retry cannot help.

    Attributes:
        status: The status with which a server refused it; None: it did not.
    """

    status: int | None = None


class InvalidReplyError(PermanentError):
    """A model's reply cannot be used: a failure, never a score.

    Attributes:
        reply: The text of the reply, for a second question; empty if there is none.
        usage: The usage of all calls that led to it; None if unknown.
    """

    reply: str = ""
    usage: Any = None


class WorkerDiedError(PermanentError):
    """The process that ran a call died several times, the last time running only this call."""


class QuotaExhaustedError(LimpetError):
    """The account's quota is used up. This stops the run; finished results are kept."""


class BudgetReachedError(LimpetError):
    """The run's budget is used up. This stops the run; finished results are kept.

    Attributes:
        kind: What is used up: "cost", "tokens", "calls" or "time".
        limit: How much of it the run may spend, or has spent if that is more: dollars, or seconds.
    """

    kind: str = ""
    limit: float = 0.0


class EndpointDownError(LimpetError):
    """No call has succeeded for a long time. This stops the run; finished results are kept."""


class SetupError(LimpetError):
    """Every call would fail the same way. This stops the run; no item is at fault."""


class FailFastError(LimpetError):
    """The first calls of a step all failed the same way. This stops the run; results are kept.

    Attributes:
        step: The step.
        id: The item of the first failure.
        traceback: Its traceback, with the frames of the user's code; empty if it has none.
    """

    step: str = ""
    id: str = ""
    traceback: str = ""


class CallCancelledError(LimpetError):
    """One call was cancelled on request, by its index."""


class ItemSkippedError(CallCancelledError):
    """Somebody said to leave this item unrun. The next session runs it."""


class InterruptedRunError(LimpetError):
    """A signal stopped the run before every input was done.

    Attributes:
        signum: The signal; None if unknown.
    """

    signum: int | None = None


class RunPausedError(LimpetError):
    """Somebody paused the run, and it ended before it was resumed. Nothing was done."""


class DatasetError(LimpetError):
    """A file or row of the dataset cannot be used. The message says where it is."""


class ConfigError(LimpetError):
    """A configuration file is invalid. The message lists each error with its line."""


class ScoresError(LimpetError, ValueError):
    """Scores cannot be summarised in a meaningful number. The message says why."""


class FunctionChangedError(LimpetError):
    """The code changed after the results on disk were made: the caller must choose.

    Attributes:
        plan: What a redo would do: a `Plan`; None: not known.
        took: The time and cost of the existing results, in words; empty: unknown.
        before: The digest of each part that made the results.
        files: The names of files that have changed since.
        differences: What changed, if known.
    """

    plan: Any = None
    took: str = ""
    before: Mapping[str, str] = MappingProxyType({})
    files: Sequence[str] = ()
    differences: "Sequence[Difference]" = ()


class JournalError(LimpetError):
    """The journal cannot be read or written. Acknowledged records are safe."""


class DiskFullError(JournalError):
    """The disk is full. Once there is space, the same journal continues."""


class OtherFormatError(JournalError):
    """Another version of Limpet wrote the run, in a format that this one does not read."""


class RecordNotWrittenError(JournalError):
    """One record could not be written. Others are not affected; its cell is not done."""


class RunLockedError(JournalError):
    """Another process is writing to this journal.

    Args:
        message: Which journal, and which process.
        hint: What to do next.
        holder: The lock's holder: pid, host, boot_id, started.
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


def wrong_type(argument: str, flaw: str, value: object = _NOT_SHOWN) -> TypeError:
    """Return an error about an argument, which carries the argument's name and the flaw.

    Args:
        argument: The argument's name.
        flaw: What is wrong.
        value: The argument's value; left out if only a part of it is wrong.
    """
    return _about(TypeError, argument, flaw, value)


def wrong_value(argument: str, flaw: str, value: object = _NOT_SHOWN) -> ValueError:
    """Return the same as a `ValueError`."""
    return _about(ValueError, argument, flaw, value)


def wrong_argument(
    argument: str, flaw: str, value: object = _NOT_SHOWN, *, hint: str | None = None
) -> LimpetError:
    """Return the same as a `LimpetError`, which can have a hint."""
    return _about(LimpetError, argument, flaw, value, hint=hint)


def _about(kind: type[E], argument: str, flaw: str, value: object, **more: Any) -> E:
    is_part = value is _NOT_SHOWN
    shown = repr(value)
    shown = shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
    error = kind(f"{argument}: {flaw}" if is_part else f"{argument}={shown}: {flaw}", **more)
    vars(error).update(argument=argument, flaw=flaw, is_part=is_part)
    return error
