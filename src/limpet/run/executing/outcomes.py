"""What is written of a finished input: its record, its facts, and why it failed.

Secrets are masked in the record and in messages, and counted.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from limpet.engines.tracebacks import user_traceback
from limpet.errors import TransientError
from limpet.executors.details import Attempt, Finished
from limpet.run.executing.cells import cell_status, masked_record
from limpet.run.record_fields import MASKED
from limpet.secrets.masking import Mask
from limpet.text import text_of
from limpet.types import Cell, CellStatus, Failure, Outcome

logger = logging.getLogger("limpet.run")


class Outcomes:
    """Makes the outcomes of a step, from what its executor finishes.

    Args:
        cell_of: Returns the cell of an input, given its index and the input.
        record_of: Makes the public record of an input's output.
        own_kind: The class of a failure of the step's own code; None: as of any failure.
        facts_of: Returns further facts about an outcome.
        files_of: Returns the facts about the files that an input's call read.
        mask: Removes secrets.
        returned: The fields of the record that the step returned: only these are masked.
        traced: Those of them that tell what happened: credentials are masked there, too.
        generation_of: Returns the generation of an input's record, given its cell and the input.
    """

    def __init__(
        self,
        cell_of: Callable[[int, Any], Cell],
        record_of: Callable[[Finished[Any, Any]], dict[str, Any]],
        *,
        own_kind: str | None,
        facts_of: Callable[[Finished[Any, Any]], dict[str, Any] | None],
        files_of: Callable[[Any], dict[str, Any]],
        mask: Mask,
        returned: Sequence[str],
        traced: Sequence[str] = (),
        generation_of: Callable[[Cell, Any], int],
    ) -> None:
        self._cell_of = cell_of
        self._record_of = record_of
        self._own_kind = own_kind
        self._facts_of = facts_of
        self._files_of = files_of
        self._mask = mask
        self._returned = returned
        self._traced = traced
        self._generation_of = generation_of
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
        """Return the outcome of an input that is done."""
        attempts = self._attempts.pop(finished.index, [])
        self._secrets_found = self._masked.pop(finished.index, 0)
        failure, cell = None, self._cell_of(finished.index, finished.input)
        record, facts = self._record_of(finished), self._facts(finished)
        if finished.error is not None:
            kind = attempts[-1]["class"] if attempts else "permanent"
            own = kind == "transient" and not _is_external(finished.error)
            if own or kind in ("permanent", "mistake"):
                kind = self._own_kind or kind
            message = self._safe(message_of(finished.error, finished.index, cell))
            traceback = self._safe(user_traceback(finished.error))
            type_name = type(finished.error).__name__
            failure = Failure(kind, message, type_name, tuple(attempts), traceback)
            facts |= {MASKED: self._secrets_found} if self._secrets_found else {}
        else:
            record, masked = masked_record(self._mask, record, self._returned, self._traced)
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
            generation=self._generation_of(cell, finished.input),
            facts=facts or None,
        )

    def not_recorded(self, finished: Finished[Any, Any], error: BaseException) -> Outcome:
        """Return the failure of an input whose outcome cannot be made or encoded."""
        message = f"the result cannot be recorded: {type(error).__name__}: {text_of(error)}"
        failure = Failure("encoding", self._safe(message), type(error).__name__)
        cell = self._cell_of(finished.index, finished.input)
        return Outcome(cell, CellStatus.FAILED, {}, failure=failure)

    def _facts(self, finished: Finished[Any, Any]) -> dict[str, Any]:
        try:
            facts = dict(self._facts_of(finished) or {})
        except (Exception, SystemExit):  # facts beside an answer must not cost the answer
            logger.exception("could not read the usage of a call; its result is kept")
            return {}
        for name in ("models", "asked"):  # a server may repeat a secret as the name of its model
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
    """Return whether the provider or the network caused an error, and not the user's code."""
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
