"""What is known about one item?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from limpet.journal.lines import Entry
from limpet.report.items import error_words, item_data, traceback_lines
from limpet.report.tables import Indented
from limpet.report.words import duration, in_full, moment, shown
from limpet.run.reading.items import WholeItem
from limpet.run.record_fields import ANSWER
from limpet.run.results.score_words import agreement_of, score_data, values_words, votes_words
from limpet.text import count, money, one_line

# ---- Inside an answer and a score: events of a trace, replies of judges, tokens. ----------------

_ANSWERS = ("label", "rating", "answer")
_SHOWN = ("kind", "name", "started", "ended", "input", "output", "usage")
_TOTAL, _COST, _TOKENS = "total_tokens", "cost", "_tokens"
_VERDICTS = {("first", True): "win", ("second", True): "loss",
             ("first", False): "loss", ("second", False): "win"}  # fmt: skip


def usage_words(usage: Mapping[str, Any]) -> list[str]:
    """Return a usage in words: `35 tokens (30 prompt, 5 completion)` and `$0.0004`."""
    counts = {name: used for name, used in usage.items() if isinstance(used, int) and used}
    total, cost = counts.pop(_TOTAL, None), usage.get(_COST)
    each = [f"{used:,} {one_line(name).removesuffix(_TOKENS)}" for name, used in counts.items()]
    words = [] if total is None else [f"{count(total, 'token')} ({', '.join(each)})"]
    return [*words, f"${money(cost)}"] if isinstance(cost, (int, float)) else words


# ---- the trace ----------------------------------------------------------------------------------


def event_text(event: Any) -> str:
    """Return an event of a trace: name, duration, input and output."""
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


def _messages(given: Any) -> Iterator[str]:
    """Yield the input of an event: each message on a line."""
    if given is None:
        return
    for message in given if isinstance(given, list) else [given]:
        if isinstance(message, Mapping) and {"role", "content"} == message.keys():
            yield f"   {shown(message['role'])}: {shown(message['content'])}"
        else:
            yield f"   {shown(message)}"


# ---- replies of judges --------------------------------------------------------------------------


def ballot_lines(ballots: Sequence[Mapping[str, Any]], score: Mapping[str, Any]) -> Iterator[str]:
    """Yield each reply behind a score, like `- grader: incorrect. It is another city.`."""
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
    order = "first" if is_first else "second"
    return f"{model}, shown {order}", _VERDICTS.get((answer, is_first), answer)


def _answer(answer: Mapping[str, Any]) -> str:
    return next((shown(answer[name]) for name in _ANSWERS if name in answer), "")


def _said(who: str, answer: str, ballot: Mapping[str, Any]) -> str:
    reason = ballot.get("reason")
    return f"- {who}: {answer}" + (f". {in_full(reason)}" if reason else "")


# ---- What is known about one item? --------------------------------------------------------------

_MOST_EVENTS = 50
_OF_VOTES = ("votes", "agreement", "by_model", "tie")


def item_lines(whole: WholeItem, *, with_trial: bool = False) -> Iterator[RenderableType]:
    """Yield everything about one item, in full."""
    item = whole.item
    named = one_line(item.id) + (f", trial {item.trial}" if with_trial else "")
    yield Text(named, style="bold") + Text(f": {_in_short(whole)}", style="not bold")
    for name, value in item.row.items():
        if name != "id":
            yield from _field(one_line(name), value)
    if not item.row and item.input is not None:
        yield from _field("input", item.input)
    if item.error is not None:
        yield from _field("error", item.error.get("message", ""))
        yield from traceback_lines(item.error)
    elif item.is_completed:
        yield from _field("output", item.output, style="bold")
    if item.trace:
        yield Text("trace", style="cyan")
        for number, event in enumerate(item.trace[:_MOST_EVENTS], 1):
            yield Indented(f"{number}. {event_text(event)}")
        if len(item.trace) > _MOST_EVENTS:
            yield Indented(f"… and {len(item.trace) - _MOST_EVENTS:,} more")
    if item.metadata is not None:
        yield from _field("metadata", item.metadata)
    yield from _scores(whole)
    yield from _attempts(whole)
    yield from _earlier(whole)


def _scores(whole: WholeItem) -> Iterator[RenderableType]:
    for name, entry in whole.scores.items():
        yield Text(f"{one_line(name)}: ", style="cyan") + Text(values_words(entry.record))
        for line in _why(entry.record):
            yield Indented(line)
        for line in ballot_lines(whole.ballots.get(name, ()), entry.record):
            yield Indented(line, hang=2)
    for name, error in whole.item.score_errors.items():
        words = Text(f"failed, {error_words(error)}", style="yellow")
        yield Text(f"{one_line(name)}: ", style="cyan") + words
        yield from traceback_lines(error)


def _attempts(whole: WholeItem) -> Iterator[RenderableType]:
    if whole.failed_attempts:
        yield Text("failed attempts", style="cyan")
    for attempt in whole.failed_attempts:
        when = f"{moment(str(attempt['at']))}  " if "at" in attempt else ""
        named = " ".join(str(attempt.get(name, "")) for name in ("step", "attempt"))
        error = f"{attempt.get('type', '')}: {attempt.get('message', '')}"
        yield Indented(when + one_line(f"{named}  {attempt.get('class', '')}: {error}"))


def _earlier(whole: WholeItem) -> Iterator[RenderableType]:
    if whole.earlier:
        yield Text("earlier answers, from other code or another row", style="cyan")
    for earlier in whole.earlier:
        when = moment(str(earlier.entry.facts.get("at", "")))
        scores = ", ".join(
            f"{one_line(name)} {values_words(entry.record)}"
            for name, entry in earlier.scores.items()
        )
        answer = f"{when}  {shown(_answer_lines(earlier.entry))}"
        yield Indented(answer + (f"  ({scores})" if scores else ""))


def _in_short(whole: WholeItem) -> str:
    item = whole.item
    parts = [item.status.words]
    parts += ["from an earlier version"] if item.version else []
    parts += _listed("to run again", item.redo)
    parts += _listed("in flight", whole.in_flight)
    parts += [count(item.attempts, "attempt")] if item.attempts else []
    parts += [duration(item.seconds)] if item.seconds else []
    parts += usage_words(item.usage)
    parts += [moment(item.at)] if item.at else []
    parts += _listed("secrets masked in", item.masked)
    parts += _listed("seen masked by", item.saw_masked)
    return " · ".join(parts)


def _listed(title: str, names: Iterable[str]) -> list[str]:
    text = ", ".join(map(one_line, names))
    return [f"{title}: {text}"] if text else []


def _field(name: str, value: Any, style: str = "") -> Iterator[RenderableType]:
    yield Text(name, style="cyan")
    yield Indented(in_full(value), style)


def _why(record: Mapping[str, Any]) -> Iterator[str]:
    parts = record["scores"].items() if "scores" in record else [("", record)]
    for part, score in parts:
        more, votes = score.get("metadata"), votes_words(score)
        if votes and isinstance(more, Mapping):
            more = {name: value for name, value in more.items() if name not in _OF_VOTES}
            votes = f"{votes} · {agreement_of(score):.0%} agree"
        for name, value in (("explanation", score.get("explanation")), ("votes", votes),
                            ("metadata", more)):  # fmt: skip
            if value:
                label = " ".join(filter(None, (one_line(part), name)))
                yield f"{label}: {in_full(value)}"


def _answer_lines(entry: Entry) -> Any:
    record = entry.record
    if not isinstance(record, Mapping):
        return record
    return record.get(ANSWER)


def whole_data(whole: WholeItem) -> dict[str, Any]:
    """Return everything about one item as JSON data."""
    return {
        **item_data(whole.item),
        "row": dict(whole.item.row),
        "trace": list(whole.item.trace),
        "metadata": whole.item.metadata,
        "ballots": {name: list(ballots) for name, ballots in whole.ballots.items()},
        "in_flight": list(whole.in_flight),
        "failed_attempts": [dict(attempt) for attempt in whole.failed_attempts],
        "earlier": [
            {
                "at": earlier.entry.facts.get("at"),
                "output": _answer_lines(earlier.entry),
                "scores": score_data({name: one.record for name, one in earlier.scores.items()}),
            }
            for earlier in whole.earlier
        ],
    }
