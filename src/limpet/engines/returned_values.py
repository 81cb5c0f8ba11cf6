"""How is the value that a workflow or an evaluator returned recorded?

The answer was paid for. It is copied at once, in the form in which it will be read back: later
changes to the object do not affect it. If usage, trace or metadata are unusable, that part is
dropped with a warning, and the answer is kept. An exception in an answer is raised: a failure is
never an answer.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from limpet.evaluators.functions import as_scores
from limpet.foreign import is_interrupt
from limpet.json_values import exception_in, kept_form
from limpet.shapes import Output, Score, Usage
from limpet.text import one_line, text_of
from limpet.usage import usage_of

_ATOMS = frozenset({str, int, float, bool, type(None)})
_MOST_NESTED = 10
_DEEPEST = 8
_MOST_NAMED = 3


class OmissionSink(Protocol):
    """Receives reports of parts left out of results."""

    def say(self, what: str, why: str) -> None:
        """Report that a part was left out, and why."""
        ...


def read_output(returned: Any, omissions: OmissionSink) -> Output:
    """Return the answer with its usage, trace and metadata, in any supported form.

    Raises:
        BaseException: The answer is, or contains, this exception.
    """
    if type(returned) is Output and type(returned.value) in _ATOMS and _is_bare(returned):
        return Output(returned.value, None, [])  # the common case, three times as fast
    usage: Any = None
    trace: Any = None
    metadata: Any = None
    for _ in range(_MOST_NESTED):  # an Output inside an Output: a wrapper around a workflow
        if not issubclass(type(returned), Output):
            break
        usage = _attribute(returned, "usage", omissions) if usage is None else usage
        trace = _attribute(returned, "trace", omissions) if _is_empty(trace) else trace
        metadata = _attribute(returned, "metadata", omissions) if metadata is None else metadata
        returned = returned.value
    return Output(
        _read_value(returned),
        _read_usage(usage, omissions, "the workflow's usage"),
        _read_trace(trace, omissions),
        _read_part(metadata, "workflow's metadata", omissions),
    )


def read_scores(returned: Any, name: str, omissions: OmissionSink) -> Output:
    """Return the scores and the call's usage; parts without a JSON form become text.

    Raises:
        PermanentError: The returned value is not a score.
    """
    scores: Any = as_scores(returned, name)
    usage = None
    if issubclass(type(scores), Output):
        usage = _read_usage(scores.usage, omissions, f"the usage of {name}")
        if not (_is_empty(scores.trace) and scores.metadata is None):
            omissions.say(
                f"the trace and metadata of {name}", "an evaluator's Output has only usage"
            )
        scores = scores.value
    read = {part: _read_score(score, name, omissions) for part, score in scores.items()}
    return Output(read, usage)


def _is_bare(output: Output) -> bool:
    trace = output.trace
    return output.usage is None and output.metadata is None and type(trace) is tuple and not trace


def _attribute(output: Output, part: str, omissions: OmissionSink) -> Any:
    try:
        return getattr(output, part)
    except BaseException as error:  # a property of a subclass may raise anything
        if is_interrupt(error):
            raise
        omissions.say(f"the workflow's {part}", f"reading it raised {type(error).__name__}")
        return None


def _read_value(value: Any) -> Any:
    if type(value) in _ATOMS:
        return value
    try:
        failure = exception_in(value)
        kept = value if failure is not None else kept_form(value)
    except BaseException as error:  # appending the record reports why it cannot be kept
        if is_interrupt(error):
            raise
        return value
    if failure is not None:
        raise failure
    return kept


def _read_usage(value: Any, omissions: OmissionSink, what: str) -> Usage | None:
    if value is None:
        return None
    try:
        usage, wrong = usage_of(value)
    except BaseException as error:  # a foreign object may raise anything
        if is_interrupt(error):
            raise
        usage, wrong = None, [f"reading it raised {type(error).__name__}"]
    if wrong:
        omissions.say(what, "; ".join(wrong[:_MOST_NAMED]))
    return usage


def _read_trace(trace: Any, omissions: OmissionSink) -> list[Any]:
    if _is_empty(trace):
        return []
    try:
        if isinstance(trace, (str, bytes, bytearray)) or not isinstance(trace, Sequence):
            omissions.say("the workflow's trace", f"must be a list, not {type(trace).__name__}")
            return []
        trace = list(trace)
    except BaseException as error:  # as above
        if is_interrupt(error):
            raise
        omissions.say("the workflow's trace", f"reading it raised {type(error).__name__}")
        return []
    return list(_read_part(trace, "workflow's trace", omissions))


def _is_empty(trace: Any) -> bool:
    # Not `not trace`: an array's truth value raises.
    return trace is None or (type(trace) in (list, tuple) and not trace)


def _read_part(value: Any, what: str, omissions: OmissionSink) -> Any:
    if type(value) in _ATOMS:
        return value
    kept, problem = _readable(value)
    if problem:
        omissions.say(f"parts without a JSON form in the {what}", problem)
    return kept


def _read_score(score: Score, name: str, omissions: OmissionSink) -> Score:
    if type(score.explanation) in _ATOMS and type(score.metadata) in _ATOMS:
        return score
    return replace(
        score,
        explanation=_read_part(score.explanation, f"explanation of {name}", omissions),
        metadata=_read_part(score.metadata, f"metadata of {name}", omissions),
    )


def _readable(value: Any, within: tuple[int, ...] = ()) -> tuple[Any, str]:
    """Return a value as it will be read back, with parts that have no JSON form as text.

    The second value says why, and is empty if every part has a JSON form.
    """
    try:
        return kept_form(value), ""
    except BaseException as error:  # a foreign object may raise anything
        if is_interrupt(error):
            raise
        why = one_line(text_of(error))
    kind = type(value)
    if len(within) < _DEEPEST and id(value) not in within:
        below = (*within, id(value))
        if kind is list or kind is tuple:
            return [_readable(element, below)[0] for element in value], why
        if kind is dict:
            return {one_line(key): _readable(part, below)[0] for key, part in value.items()}, why
    return one_line(value), why
