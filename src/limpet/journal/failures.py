"""What is recorded about a failed cell, and how is it read?"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from limpet.foreign import base_value, is_interrupt
from limpet.journal.files import open_to_read
from limpet.journal.lines import Entry, decode_line, encode_outcome, is_whole
from limpet.json_values import NotPlainError
from limpet.types import CellStatus, Failure, Outcome

_LONGEST_REPR = 10_000
_LONGEST_MESSAGE = 2_000
Masks = Callable[[str], tuple[str, int]]
"""Returns a string with its secrets masked, and how many there were."""


def not_encoded(outcome: Outcome, error: NotPlainError, mask: Masks) -> Outcome:
    """Return the failure that replaces an outcome that cannot be encoded. It shows the result."""
    message, count = mask(f"the result cannot be kept as JSON: {error}")
    shown, more = mask(_repr(outcome.record))  # before it is cut: half a secret is one too
    failure = Failure("encoding", message, "NotPlainError")
    facts = {**(outcome.facts or {}), **({"masked": count + more} if count + more else {})}
    return outcome._replace(
        status=CellStatus.FAILED,
        record={"repr": shown[:_LONGEST_REPR]},
        failure=failure,
        facts=facts or None,
    )


def _repr(value: Any) -> str:
    try:
        return base_value(str, repr(value))
    except BaseException as error:
        if is_interrupt(error):
            raise
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"


def encode_failure(outcome: Outcome, mask: Masks) -> bytes:
    """Return the line for a failed cell. Works for any content."""
    failure = outcome.failure or Failure("unknown", "no reason was given", "")
    more = {"step": outcome.cell.step, "class": failure.kind, "type": failure.type}
    error = {
        "type": failure.type,
        "message": failure.message[:_LONGEST_MESSAGE],
        "class": failure.kind,
    }
    if failure.traceback:
        error["traceback"] = failure.traceback
    known: dict[str, Any] = {"id": outcome.cell.id, "step": outcome.cell.step, "error": error}
    known["attempts"] = list(failure.attempts)
    fields = outcome.record if isinstance(outcome.record, dict) else {"value": outcome.record}
    try:
        return encode_outcome(outcome._replace(record={**fields, **known}), more)
    except NotPlainError:
        shown = {"repr": mask(_repr(fields))[0][:_LONGEST_REPR], **known}
        shown["attempts"] = [mask(_repr(failure.attempts))[0][:_LONGEST_REPR]]
        return encode_outcome(outcome._replace(record=shown), more)


def read_failures(path: Path) -> dict[tuple[str, str], Entry]:
    """Return the latest failure of each step and key."""
    failures: dict[tuple[str, str], Entry] = {}
    with contextlib.suppress(FileNotFoundError), open_to_read(path) as file:
        for line in file:
            if is_whole(line):
                entry = decode_line(line)
                failures[entry.facts["step"], entry.facts["key"]] = entry
    return failures
