"""What happened inside an answer and a score? Events of a trace, replies of judges, tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from limpet.report.words import duration, in_full, shown
from limpet.text import count, money, one_line

_ANSWERS = ("label", "rating", "answer")
_SHOWN = ("kind", "name", "started", "ended", "input", "output", "usage")
_TOTAL, _COST, _TOKENS = "total_tokens", "cost", "_tokens"
_VERDICTS = {("first", True): "win", ("second", True): "loss",
             ("first", False): "loss", ("second", False): "win"}  # fmt: skip


def usage_words(usage: Mapping[str, Any]) -> list[str]:
    """Return what calls used: `35 tokens (30 prompt, 5 completion)` and `$0.0004`."""
    counts = {name: used for name, used in usage.items() if isinstance(used, int) and used}
    total, cost = counts.pop(_TOTAL, None), usage.get(_COST)
    each = [f"{used:,} {one_line(name).removesuffix(_TOKENS)}" for name, used in counts.items()]
    words = [] if total is None else [f"{count(total, 'token')} ({', '.join(each)})"]
    return [*words, f"${money(cost)}"] if isinstance(cost, (int, float)) else words


# ---- the trace ----------------------------------------------------------------------------------


def event_text(event: Any) -> str:
    """Return an event of a trace: what was called, for how long, with what, and what came out."""
    if not isinstance(event, Mapping) or not isinstance(event.get("name"), str):
        return shown(event)
    words = [one_line(f"{event.get('kind', '')} {event['name']}".strip()), *_took(event)]
    lines = [" · ".join(words), *_messages(event.get("input"))]
    if event.get("output") is not None:
        lines.append(f"   → {shown(event['output'])}")
    rest = {name: value for name, value in event.items() if name not in _SHOWN and value}
    return "\n".join([*lines, *([f"   {shown(rest)}"] if rest else [])])


def _took(event: Mapping[str, Any]) -> Iterator[str]:
    started, ended, usage = event.get("started"), event.get("ended"), event.get("usage")
    if isinstance(started, (int, float)) and isinstance(ended, (int, float)):
        yield duration(max(0.0, ended - started))
    if isinstance(usage, Mapping):
        yield from usage_words(usage)


def _messages(asked: Any) -> Iterator[str]:
    """Yield what was asked: each message on a line."""
    if asked is None:
        return
    for message in asked if isinstance(asked, list) else [asked]:
        if isinstance(message, Mapping) and {"role", "content"} == message.keys():
            yield f"   {shown(message['role'])}: {shown(message['content'])}"
        else:
            yield f"   {shown(message)}"


# ---- replies of judges --------------------------------------------------------------------------


def ballot_lines(ballots: Sequence[Mapping[str, Any]], score: Mapping[str, Any]) -> Iterator[str]:
    """Yield each reply that a score is made of, like `- grader: incorrect. It is another city.`."""
    about = score.get("metadata")
    is_pair = isinstance(about, Mapping) and "flipped" in about
    for number, ballot in enumerate(ballots):
        model, answers = one_line(ballot.get("model") or "model"), ballot.get("answers")
        if is_pair:  # each is asked in both orders
            yield _said(*_in_order(model, ballot, is_first=number % 2 == 0), ballot)
        elif isinstance(answers, Mapping):  # of a rubric
            for part, answer in answers.items():
                yield _said(f"{model}, {one_line(part)}", _answer(answer), answer)
        else:
            yield _said(model, _answer(ballot), ballot)


def _in_order(model: str, ballot: Mapping[str, Any], *, is_first: bool) -> tuple[str, str]:
    answer = _answer(ballot)
    place = "first" if is_first else "second"
    return f"{model}, shown {place}", _VERDICTS.get((answer, is_first), answer)


def _answer(answer: Mapping[str, Any]) -> str:
    return next((shown(answer[name]) for name in _ANSWERS if name in answer), "")


def _said(who: str, answer: str, ballot: Mapping[str, Any]) -> str:
    reason = ballot.get("reason")
    return f"- {who}: {answer}" + (f". {in_full(reason)}" if reason else "")
