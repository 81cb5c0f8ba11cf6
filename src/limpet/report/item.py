"""What is known about one item?"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from limpet.journal.lines import Entry
from limpet.report.inside import ballot_lines, event_text, usage_words
from limpet.report.items import error_words, item_data, traceback_lines
from limpet.report.tables import Indented
from limpet.report.words import duration, in_full, moment, shown
from limpet.run.reading.items import WholeItem
from limpet.run.record_fields import fields_of
from limpet.run.results.score_words import agreement_of, values_words, votes_words
from limpet.text import count, one_line

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
        answer = f"{when}  {shown(_answer(earlier.entry))}"
        yield Indented(answer + (f"  ({scores})" if scores else ""))


def _in_short(whole: WholeItem) -> str:
    item = whole.item
    parts = [item.status.words]
    parts += ["by an earlier version"] if item.version else []
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
        for name, value in (("reasoning", score.get("reasoning")), ("votes", votes),
                            ("metadata", more)):  # fmt: skip
            if value:
                label = " ".join(filter(None, (one_line(part), name)))
                yield f"{label}: {in_full(value)}"


def _answer(entry: Entry) -> Any:
    record = entry.record
    if not isinstance(record, Mapping):
        return record
    return record.get(fields_of(entry)[0], record.get("output"))


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
                "output": _answer(earlier.entry),
                "scores": {name: entry.record for name, entry in earlier.scores.items()},
            }
            for earlier in whole.earlier
        ],
    }
