"""What is recorded about a finished input: its record, its facts, or its failure.

Secrets are masked in records and messages, and counted.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from limpet.engines.tracebacks import user_traceback
from limpet.errors import ItemSkippedError, JournalError, TransientError
from limpet.executors.details import Attempt, Finished
from limpet.journal.journal import Journal
from limpet.json_values import NotPlainError, kept_form, plain_size
from limpet.run.record_fields import MASKED
from limpet.secrets.masking import Mask, Masking
from limpet.shapes import Cell, CellStatus, Failure, Outcome, Output, Usage
from limpet.text import text_of
from limpet.usage import Plain, plain_usage, receipts_in, total_usage, usage_of

# ---- What is recorded about a cell: its status, and no secrets. ---------------------------------


def cell_status(finished: Finished[Any, Any]) -> CellStatus:
    """Return how a cell ended, in the words of a run: executors use Phoenix's."""
    return CellStatus[finished.details.status.name]


def masked_record(
    mask: Mask, record: dict[str, Any], returned: Sequence[str], traced: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a record without secrets, and their number as a fact, if it had any.

    Args:
        mask: Masks the secrets.
        record: The record.
        returned: The fields that the step returned. The others come from the dataset, unmasked.
        traced: Those of them that tell what happened: credentials are masked there, too.
    """
    fields = {name: record[name] for name in returned if name in record}
    if not fields or not (mask or any(map(record.get, traced))):
        return record, {}
    try:
        plain = fields if plain_size(fields) is not None else kept_form(fields)
        masked = {
            name: mask.trace(value) if name in traced else mask.data(value)
            for name, value in plain.items()
        }
        secrets = sum(count for _, count in masked.values())
    except (NotPlainError, RecursionError):
        return record, {}  # it cannot be written; the column masks its message
    if not secrets:
        return record, {}
    return {**record, **{name: value for name, (value, _) in masked.items()}}, {MASKED: secrets}


logger = logging.getLogger("limpet.run")
SKIPPED = "skipped"
"""The class of cells that somebody said to leave out."""


# ---- What was left out of results? --------------------------------------------------------------


class Omissions:
    """Reports what was left out of results, once per kind, in the log and in `events.jsonl`."""

    def __init__(self, journal: Journal, masking: Masking) -> None:
        self._journal = journal
        self._masking = masking
        self._said: set[str] = set()

    def say(self, what: str, why: str) -> None:
        """Report that something was left out, and why, unless it was reported before."""
        if what in self._said:
            return
        self._said.add(what)
        why = self._masking.ours.text(why)
        logger.warning("left out %s, kept the result: %s (reported once)", what, why)
        try:
            self._journal.log_event("left_out", what=what, why=why)
        except JournalError:  # appending the record will report the failure
            logger.debug("could not write to events.jsonl", exc_info=True)


# ---- What has a cell cost so far? ---------------------------------------------------------------
#
# A reply is paid for even if its attempt, or another vote, fails afterwards. So each reply is
# recorded for its cell as it arrives, across all attempts. Only a successful attempt reports its
# own usage.


class PaidAttempt(receipts_in):
    """Records the replies of an attempt, and its output once it has one."""

    __slots__ = ("output",)

    def __init__(self) -> None:
        super().__init__([])
        self.output: Output | None = None


@dataclass(slots=True)
class Bill:
    """What was paid for one cell.

    Attributes:
        attempts: Its attempts, with their replies that are no ballots.
        ballots: Its ballots, by their keys. The next attempt finds them on disk.
        late: The usage of replies for which a ballot was there already.
    """

    attempts: list[PaidAttempt] = field(default_factory=list)
    ballots: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    late: list[Plain | None] = field(default_factory=list)


class Paid:
    """What was paid for the unfinished cells of a step, by key."""

    def __init__(self) -> None:
        self._bills: dict[str, Bill] = {}

    def attempt(self, key: str) -> PaidAttempt:
        """Return a context for an attempt of a cell that records its replies."""
        self.bill(key).attempts.append(attempt := PaidAttempt())
        return attempt

    def bill(self, key: str) -> Bill:
        """Return the bill of a cell."""
        return self._bills.setdefault(key, Bill())

    def settle(self, key: str, output: Output | None) -> Usage | None:
        """Return the total usage of a finished cell; None: not known.

        Args:
            key: The cell's key.
            output: The output of its last attempt; None if it failed.
        """
        bill = self._bills.pop(key, Bill())
        told = None if output is None else output.usage
        receipts = bill.late
        if output is None:
            receipts += [ballot.get("usage") for ballot in bill.ballots.values()]
        for attempt in bill.attempts:
            if told is None or attempt.output is not output:
                receipts += attempt.receipts
        if isinstance(told, Usage) and not receipts:
            return told
        usage, _ = usage_of(total_usage([*receipts, plain_usage(told)]))
        return replace(usage, times=told.times) if usage and isinstance(told, Usage) else usage


# ---- What is a step, and what is recorded about its inputs? -------------------------------------


class Step:
    """A step of a session: its name, and what is recorded about its inputs.

    Attributes:
        name: Its name, and its column's.
        own_kind: The class of failures of the step's own code; None: as for any failure.
        returned: The fields of the record that the step returned: only these are masked.
        traced: Those of them that tell what happened: credentials are masked there, too.
        costs: Whether a call may cost money: then its start is an event.
        shares_calls: Whether inputs that are the same object share a call.
    """

    name: str
    own_kind: str | None = None
    returned: Sequence[str] = ()
    traced: Sequence[str] = ()
    costs = True
    shares_calls = False

    def cell_of(self, index: int, value: Any) -> Cell:
        """Return the cell of an input."""
        raise NotImplementedError

    def record_of(self, finished: Finished[Any, Any]) -> dict[str, Any]:
        """Return the public record of an input's output."""
        raise NotImplementedError

    def facts_of(self, finished: Finished[Any, Any]) -> dict[str, Any]:
        """Return further facts about an outcome."""
        del finished
        return {}

    def generation_of(self, cell: Cell, value: Any) -> int:
        """Return the generation of an input's next record."""
        raise NotImplementedError

    def call_of(self, value: Any) -> tuple[Any, Any]:
        """Return what identifies an input's call, and the row that may name files."""
        raise NotImplementedError


# ---- What is recorded about a finished input: its record, its facts, or its failure. ------------


class Outcomes:
    """Makes the outcomes of a step from its finished inputs.

    Args:
        step: The step.
        mask: Removes secrets.
        files_of: Returns the facts about the files that an input's call read.
    """

    def __init__(self, step: Step, mask: Mask, files_of: Callable[[Any], dict[str, Any]]) -> None:
        self._step = step
        self._mask = mask
        self._files_of = files_of
        self._attempts: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self._masked: Counter[int] = Counter()  # in the errors of each input's attempts
        self._secrets_found = 0

    def add_failed(self, attempt: Attempt, cell: Cell) -> dict[str, Any]:
        """Keep a failed attempt for its input's outcome; return it as plain data."""
        self._secrets_found = 0
        facts = _attempt_facts(attempt, cell, self._safe)
        self._masked[attempt.index] += self._secrets_found
        self._attempts[attempt.index].append(facts)
        return facts

    def outcome(self, finished: Finished[Any, Any]) -> Outcome:
        """Return the outcome of a finished input."""
        attempts = self._attempts.pop(finished.index, [])
        self._secrets_found = self._masked.pop(finished.index, 0)
        step = self._step
        failure, cell = None, step.cell_of(finished.index, finished.input)
        record, facts = step.record_of(finished), self._facts(finished)
        if finished.error is not None:
            kind = attempts[-1]["class"] if attempts else "permanent"
            if isinstance(finished.error, ItemSkippedError):
                kind = SKIPPED
            own = kind == "transient" and not _is_external(finished.error)
            if own or kind in ("permanent", "mistake"):
                kind = step.own_kind or kind
            message = self._safe(message_of(finished.error, finished.index, cell))
            traceback = self._safe(user_traceback(finished.error))
            type_name = type(finished.error).__name__
            failure = Failure(kind, message, type_name, tuple(attempts), traceback)
            facts |= {MASKED: self._secrets_found} if self._secrets_found else {}
        else:
            record, masked = masked_record(self._mask, record, step.returned, step.traced)
            facts |= masked
            facts |= self._files_of(finished.input)
        details = finished.details
        return Outcome(
            cell,
            cell_status(finished),
            record,
            attempts=len(attempts) + (finished.error is None),
            seconds=round(details.execution_seconds, 6),
            failure=failure,
            generation=step.generation_of(cell, finished.input),
            facts=facts or None,
        )

    def not_recorded(self, finished: Finished[Any, Any], error: BaseException) -> Outcome:
        """Return the failure of an input whose outcome cannot be made or encoded."""
        message = f"the result cannot be recorded: {type(error).__name__}: {text_of(error)}"
        failure = Failure("encoding", self._safe(message), type(error).__name__)
        cell = self._step.cell_of(finished.index, finished.input)
        return Outcome(cell, CellStatus.FAILED, {}, failure=failure)

    def _facts(self, finished: Finished[Any, Any]) -> dict[str, Any]:
        try:
            facts = dict(self._step.facts_of(finished))
        except (Exception, SystemExit):  # an unreadable usage must not cost the answer
            logger.exception("could not read the usage of a call; its result is kept")
            return {}
        for name in (
            "models",
            "requested",
        ):  # a server may repeat a secret as the name of its model
            if name in facts:
                facts[name], _ = self._mask.data(facts[name])
        return facts

    def _safe(self, text: str) -> str:
        """Return a message or a traceback without secrets, and count the secrets."""
        safe, found = self._mask.message(text)
        self._secrets_found += found
        return safe


def message_of(error: BaseException, index: int, cell: Cell) -> str:
    """Return an error's message; a timeout names the item, not the input's number."""
    text, numbered = text_of(error), f"input {index}: "
    is_numbered = isinstance(error, TimeoutError) and text.startswith(numbered)
    if not is_numbered or cell.step == "map":
        return text
    return f"item {cell.id!r}: {text.removeprefix(numbered)}"


def _is_external(error: BaseException) -> bool:
    """Return whether the provider or the network caused an error, not the user's code."""
    return isinstance(error, (TransientError, OSError))


def _attempt_facts(attempt: Attempt, cell: Cell, safe: Callable[[str], str]) -> dict[str, Any]:
    """Return an attempt's failure as plain data without secrets."""
    kind, error = attempt.kind, attempt.error
    message = "" if error is None else message_of(error, attempt.index, cell)
    if kind is None:
        kind_name = "timeout" if isinstance(attempt.error, TimeoutError) else "cancelled"
    else:
        kind_name = kind.value
    facts: dict[str, Any] = {
        "attempt": attempt.number,
        "class": kind_name,
        "type": type(attempt.error).__name__,
        "message": safe(message)[:1000],
        "seconds": round(attempt.seconds or 0.0, 6),
    }
    if attempt.retry_in is not None:
        facts["retry_in"] = round(attempt.retry_in, 3)
    return facts
