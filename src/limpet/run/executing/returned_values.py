"""What is taken of what a workflow or an evaluator returned, the moment it returns?

The answer is what was paid for. It is taken as it will be read back, so that nobody can change it
any more; whatever is wrong beside it costs that part and a remark, and never the answer.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import JournalError
from limpet.evaluators.score_values import as_scores
from limpet.journal.journal import Journal
from limpet.json_values import kept_form
from limpet.secrets.masking import Masking
from limpet.text import one_line, text_of
from limpet.types import Output, Score, Usage
from limpet.workflows.token_counts import usage_told

_ATOMS = frozenset({str, int, float, bool, type(None)})
_MOST_NESTED = 10
_DEEPEST = 8
_MOST_NAMED = 3

logger = logging.getLogger("limpet.run")


class Remarks:
    """Says what was left out of results, once for each kind, in the log and in the story.

    Args:
        journal: Whose story it is.
        masking: Takes secrets out of a text.
    """

    def __init__(self, journal: Journal, masking: Masking) -> None:
        self._journal = journal
        self._masking = masking
        self._said: set[str] = set()

    def say(self, what: str, why: str) -> None:
        """Say that something is left out, and why, unless that was said before."""
        if what in self._said:
            return
        self._said.add(what)
        why = self._masking.ours.text(why)
        logger.warning("%s: left out, and the result kept: %s. Said once", what, why)
        try:
            self._journal.tell("left_out", what=what, why=why)
        except JournalError:  # the disk: whoever waits for a record hears of it
            logger.debug("the story could not be told", exc_info=True)


def read_output(returned: Any, remarks: Remarks) -> Output:
    """Return an answer with its usage, trace and metadata, whatever shape they had."""
    usage: Any = None
    trace: Any = None
    metadata: Any = None
    for _ in range(_MOST_NESTED):  # an Output whose value is one: a wrapper around a workflow
        if not issubclass(type(returned), Output):
            break
        usage = _attribute(returned, "usage", remarks) if usage is None else usage
        trace = _attribute(returned, "trace", remarks) if _is_empty(trace) else trace
        metadata = _attribute(returned, "metadata", remarks) if metadata is None else metadata
        returned = returned.value
    return Output(
        _read_value(returned),
        _read_usage(usage, remarks, "the workflow's usage"),
        _read_trace(trace, remarks),
        _read_part(metadata, "workflow's metadata", remarks),
    )


def read_scores(returned: Any, name: str, remarks: Remarks) -> Output:
    """Return scores, and what the call used; of what has no JSON form, what can be shown.

    Raises:
        PermanentError: What was returned is no score.
    """
    scores: Any = as_scores(returned, name)
    usage = None
    if issubclass(type(scores), Output):
        usage = _read_usage(scores.usage, remarks, f"the usage of {name}")
        if not (_is_empty(scores.trace) and scores.metadata is None):
            remarks.say(f"the trace and metadata of {name}", "of its Output, only the usage counts")
        scores = scores.value
    return Output({part: _read_score(one, name, remarks) for part, one in scores.items()}, usage)


def _attribute(output: Output, part: str, remarks: Remarks) -> Any:
    try:
        return getattr(output, part)
    except BaseException as error:  # noqa: BLE001 - a property of a subclass may raise anything
        remarks.say(f"the workflow's {part}", f"reading it raised {type(error).__name__}")
        return None


def _read_value(value: Any) -> Any:
    if type(value) in _ATOMS:
        return value
    try:
        return kept_form(value)
    except BaseException:  # noqa: BLE001 - whoever writes it down says why it cannot be kept
        return value


def _read_usage(said: Any, remarks: Remarks, what: str) -> Usage | None:
    if said is None:
        return None
    try:
        usage, wrong = usage_told(said)
    except BaseException as error:  # noqa: BLE001 - a foreign object may raise anything
        usage, wrong = None, [f"reading it raised {type(error).__name__}"]
    if wrong:
        remarks.say(what, "; ".join(wrong[:_MOST_NAMED]))
    return usage


def _read_trace(trace: Any, remarks: Remarks) -> list[Any]:
    if _is_empty(trace):
        return []
    try:
        if isinstance(trace, (str, bytes, bytearray)) or not isinstance(trace, Sequence):
            remarks.say("the workflow's trace", f"of type {type(trace).__name__}, it is no list")
            return []
        trace = list(trace)
    except BaseException as error:  # noqa: BLE001 - as above
        remarks.say("the workflow's trace", f"reading it raised {type(error).__name__}")
        return []
    return list(_read_part(trace, "workflow's trace", remarks))


def _is_empty(trace: Any) -> bool:
    # Not by its truth: that of an array raises.
    return trace is None or (type(trace) in (list, tuple) and not trace)


def _read_part(told: Any, what: str, remarks: Remarks) -> Any:
    if type(told) in _ATOMS:
        return told
    kept, odd = _readable(told)
    if odd:
        remarks.say(f"what has no JSON form in the {what}", odd)
    return kept


def _read_score(score: Score, name: str, remarks: Remarks) -> Score:
    if type(score.explanation) in _ATOMS and type(score.metadata) in _ATOMS:
        return score
    return replace(
        score,
        explanation=_read_part(score.explanation, f"explanation of {name}", remarks),
        metadata=_read_part(score.metadata, f"metadata of {name}", remarks),
    )


def _readable(value: Any, within: tuple[int, ...] = ()) -> tuple[Any, str]:
    """Return a value as it will be read back; where a part has no JSON form, that part as text.

    Also why, if there was such a part.
    """
    try:
        return kept_form(value), ""
    except BaseException as error:  # noqa: BLE001 - a foreign object may raise anything
        why = one_line(text_of(error))
    kind = type(value)
    if len(within) < _DEEPEST and id(value) not in within:
        below = (*within, id(value))
        if kind is list or kind is tuple:
            return [_readable(one, below)[0] for one in value], why
        if kind is dict:
            return {one_line(key): _readable(one, below)[0] for key, one in value.items()}, why
    return one_line(value), why
