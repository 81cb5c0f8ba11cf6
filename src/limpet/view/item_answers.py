"""What does a page show about the items of a run, and about one of them?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from multidict import MultiMapping

from limpet.errors import LimpetError
from limpet.report.item import whole_data
from limpet.run.reading.items import WholeItem
from limpet.run.reading.run_table import COST, POSITION, Positions, Search, TableQuery
from limpet.run.reading.score_table import Flags, ScoreTable
from limpet.run.results.filters import Filter
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName, parts_of, votes_words
from limpet.text import quoted
from limpet.trace import events_in
from limpet.view.field_answers import MOST_FIELDS, fields_of
from limpet.view.hiding_table import HidingTable
from limpet.view.images import Image, folder_of, image_in, images_in, shown_images
from limpet.view.label_answers import labelled_in, labelled_positions, labelling_answer, score_of
from limpet.view.shown_values import IMAGES, PART, WHOLE, Shortener, line_of
from limpet.view.viewed_runs import ViewedRun, unspelled

# ---- A trace as a tree of events, each with its start and duration. -----------------------------

_MOST_EVENTS, _MOST_LEVELS = 2_000, 60
_OURS = ("kind", "name", "type", "phase", "started", "ended", "input", "output", "usage", "id",
         "parent")  # fmt: skip


def trace_tree(trace: Sequence[Any], shown: Shortener) -> list[dict[str, Any]]:
    """Return the events of a trace, each with its children, the oldest first."""
    found = (event for entry in trace[:_MOST_EVENTS] for event in _events(entry))
    events = _with_results(list(islice(found, _MOST_EVENTS)))
    ended = {_id(event) for event in events if event.get("phase") != "start"} - {None}
    wanted = [e for e in events if e.get("phase") != "start" or _id(e) not in ended]
    times = (_seconds(event.get("started")) for event in wanted)
    began = min((time for time in times if time is not None), default=0.0)
    roots: list[dict[str, Any]] = []
    nodes: dict[Any, dict[str, Any]] = {}
    drawn = [(event, _node(event, began, shown)) for event in wanted]
    for event, node in drawn:
        if isinstance(event.get("id"), str):
            nodes.setdefault(event["id"], node)
    for event, node in drawn:
        parent = nodes.get(event.get("parent")) if isinstance(event.get("parent"), str) else None
        is_own = parent is None or _is_above(node, parent)
        (roots if parent is None or is_own else parent["children"]).append(node)
    _limit_levels(roots)
    return roots


def _events(entry: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the events of an entry; a message that calls tools may also say something."""
    events = events_in(entry)
    if isinstance(entry, Mapping) and entry.get("content") and entry.get("tool_calls"):
        said = {name: entry[name] for name in ("role", "name", "content") if name in entry}
        if not any("content" in event for event in events):
            yield {**said, "kind": "model"}
    yield from events


def _with_results(events: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return events in which a tool's message is the output of its call."""
    calls: dict[str, int] = {}
    found: list[Mapping[str, Any]] = []
    for event in events:
        id_, answers = event.get("id"), event.get("tool_call_id")
        at = calls.pop(answers, None) if isinstance(answers, str) else None
        if at is not None and event.get("role") == "tool":
            found[at] = {**found[at], "output": event.get("content")}
            continue
        if event.get("kind") == "tool" and isinstance(id_, str) and "output" not in event:
            calls[id_] = len(found)
        found.append(event)
    return found


def _limit_levels(roots: list[dict[str, Any]]) -> None:
    """Move events nested deeper than a page can show to the last level."""
    level = roots
    for _ in range(_MOST_LEVELS):
        level = [child for node in level for child in node["children"]]
    for node in level:
        below, left = [], node["children"][::-1]
        while left:
            one = left.pop()
            below.append(one)
            left += one["children"][::-1]
            one["children"] = []
        node["children"] = below


def _is_above(node: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a node would become its own ancestor: ids may be anything."""
    left: list[Any] = [node]
    while left:
        one = left.pop()
        if one is other:
            return True
        left += one["children"]
    return False


def _node(event: Mapping[str, Any], began: float, shown: Shortener) -> dict[str, Any]:
    started, ended = _seconds(event.get("started")), _seconds(event.get("ended"))
    took = None if started is None or ended is None else max(0.0, ended - started)
    shown_already = _OURS if "output" in event else (*_OURS, "role", "content")
    more = {name: value for name, value in event.items() if name not in shown_already and value}
    return {
        "kind": str(event.get("kind") or "other")[:20],
        "name": str(event.get("name") or event.get("role") or "")[:200],
        "start_s": None if started is None else started - began,
        "seconds": took,
        "input": shown(event.get("input")),
        "output": shown(event.get("output", event.get("content"))),
        "usage": shown(event.get("usage")),
        "more": shown(more) if more else None,
        "children": [],
    }


def _id(event: Mapping[str, Any]) -> str | int | None:
    id_ = event.get("id")
    return id_ if isinstance(id_, (str, int)) else None


def _seconds(value: Any) -> float | None:
    """Return a time; None if it is not one: a workflow may have written anything."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


# ---- What does a page show about the items of a run, and about one of them? ---------------------

Query = MultiMapping[str]
_FIELD = "field:"
"""Before the name of a field that is a column of the table."""
MOST_ROWS = 200
_ANY = "1"
"""The value of `failed` that means all steps: no evaluator can have this name."""
SEARCH_S = 0.4
"""How long one request may search; the page repeats it until all is searched."""


# ---- all items ----------------------------------------------------------------------------------


def items_answer(opened: ViewedRun, query: Query) -> dict[str, Any]:
    """Return some rows of the table of items.

    Raises:
        LimpetError: The query is wrong.
    """
    run_table = opened.run_table
    run_table.refresh()
    positions, left = _chosen(opened, query)
    begin, many = number_in(query, "from", 0), min(MOST_ROWS, number_in(query, "count", 100))
    some = positions[begin : begin + many]
    rows = {(item.id, item.trial): item for item in run_table.read(some)}
    score = score_of(run_table, query.get("score"))
    columns = (name.partition(_FIELD) for name in query.getall("columns", []))
    fields = [name for none, found, name in columns if found and not none][:MOST_FIELDS]
    return {
        **about_items(opened),
        "matching": len(positions),
        "left_to_search": left,
        "from": begin,
        "rows": [_row(run_table, int(position), rows, score, fields) for position in some],
    }


def about_items(opened: ViewedRun) -> dict[str, Any]:
    """Return how many items there are, and their columns and fields."""
    table = opened.run_table.table
    return {
        "total": len(opened.run_table),
        "trials": table.trials,
        "columns": _columns(table),
        "fields": fields_of(opened),
        "can_disagree": any(noted for noted in _votes(opened)),
        "has_draw": bool(opened.run_table.labelling.queue),
        "has_labels": any(True for _ in opened.run_table.labelling.labelled),
    }


def near_answer(opened: ViewedRun, query: Query) -> dict[str, Any]:
    """Return the items before and after one, among those that match a query."""
    run_table = opened.run_table
    run_table.refresh()
    positions, _ = _chosen(opened, query)
    position = run_table.position(_item_id(run_table, query), number_in(query, "trial", 0))
    at = [] if position is None else np.flatnonzero(positions == position).tolist()
    found: dict[str, Any] = {"at": None, "matching": len(positions), "before": None, "after": None}
    found |= labelled_in(opened, positions, at[0] if at else None, query.get("score"))
    if at:
        where = at[0]
        found["at"] = where
        for name, other in (("before", where - 1), ("after", where + 1)):
            if 0 <= other < len(positions):
                id_, trial = run_table.where(int(positions[other]))
                found[name] = {"id": id_, "trial": trial}
    return found


def _chosen(opened: ViewedRun, query: Query) -> tuple[Positions, int]:
    """Return the positions that match a query, in its order, and how many are still to search."""
    run_table = opened.run_table
    wanted = _table_query(query, [str(name) for name in run_table.table.labels])
    held, left = wanted.holds(run_table.table), 0
    of_labels = ("draw" in query, query.get("labelled"), query.get("score"))
    search = _search(opened, query)
    if search is not None:
        left = search.go_on(SEARCH_S)
        held &= search.found
    known = opened.chosen
    if (
        search is None
        and known is not None
        and known[:2] == ((wanted, of_labels), run_table.version)
    ):
        return known[2], 0
    positions = _of_labels(run_table, query, held)
    positions = wanted.ordered(
        run_table.table, np.flatnonzero(held) if positions is None else positions
    )
    if search is None:
        opened.chosen = ((wanted, of_labels), run_table.version, positions)
    return positions, left


def _of_labels(run_table: HidingTable, query: Query, held: Flags) -> Positions | None:
    """Drop items not labelled as wanted; return drawn answers in the order of the draw."""
    if "labelled" in query:
        flags = np.zeros(len(held), np.bool_)
        flags[labelled_positions(run_table, score_of(run_table, query.get("score")))] = True
        held &= flags if query.get("labelled") == "1" else ~flags
    if "draw" not in query:
        return None
    drawn = np.array(run_table.positions_of(run_table.labelling.queue), np.intp)
    return drawn[held[drawn]]


def _search(opened: ViewedRun, query: Query) -> Search | None:
    where: dict[str, list[str]] = {}
    for text in query.getall("where", []):
        name, colon, value = text.partition(":")
        if not colon:
            raise LimpetError(f"where={quoted(text)}: must be FIELD:VALUE")
        where.setdefault(name, []).append(value)
    wanted = Filter(where=where, grep=query.get("text") or None, disagree="disagree" in query)
    if not wanted.selects:
        return None
    # Hidden scores are not found, so each label starts a new search.
    name = repr((wanted, id(opened.run_table.table.ids), opened.run_table.labelling.mark))
    search = opened.searches.get(name)
    if search is None or len(search.found) != len(opened.run_table):
        search = Search(opened.run_table, wanted)
    opened.keep_search(name, search)
    return search


def _table_query(query: Query, labels: Sequence[str] = ()) -> TableQuery:
    return TableQuery(
        "failed" in query and (query["failed"] in ("", _ANY) or query["failed"]),
        dict(_limit(text, "below") for text in query.getall("below", [])),
        dict(_limit(text, "above") for text in query.getall("above", [])),
        dict(_pair(text, "label", labels) for text in query.getall("label", [])),
        query.get("sort") or POSITION,
        dict(_limit(text, "least") for text in query.getall("least", [])),
        dict(_limit(text, "most") for text in query.getall("most", [])),
    )


def _pair(text: str, option: str, labels: Sequence[str] = ()) -> tuple[str, str]:
    for known in labels:  # a name may have a colon
        if text.startswith(f"{known}:"):
            return known, text[len(known) + 1 :]
    name, colon, value = text.partition(":") if option == "label" else text.rpartition(":")
    if not colon:
        raise LimpetError(f"{option}={quoted(text)}: must be NAME:VALUE")
    return name, value


def _limit(text: str, option: str) -> tuple[str, float]:
    name, value = _pair(text, option)
    try:
        limit = float(value) if value.isascii() and "_" not in value else math.nan
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise LimpetError(f"{option}={quoted(text)}: must end in a number")
    return name, limit


def _item_id(run_table: HidingTable, query: Query) -> str:
    text = query.get("id", "")
    named = unspelled(text)
    return text if named == text or run_table.position(text, 0) is not None else named


def number_in(query: Query, name: str, default: int) -> int:
    """Return a whole number of a query.

    Raises:
        LimpetError: It is none.
    """
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004 - digits
        raise LimpetError(f"{name}={quoted(text)}: must be a whole number")
    return int(text)


def _columns(table: ScoreTable) -> list[dict[str, Any]]:
    names = dict.fromkeys((*table.scores, *table.labels))
    columns = [
        {"name": str(name), "kind": "score" if name in table.scores else "label"} for name in names
    ]
    known = {name.evaluator for name in names}  # one may not have scored anything yet
    columns += [{"name": name, "kind": "score"} for name in table.evaluators if name not in known]
    columns.append({"name": "seconds", "kind": "number"})
    if not np.isnan(table.costs).all():
        columns.append({"name": COST, "kind": "number"})
    return columns


def _votes(opened: ViewedRun) -> list[Any]:
    """Return the votes in the summary."""
    evaluators = opened.run_table.summary().get("evaluators", {}).values()
    return [one for one in evaluators if "agreement" in one or "flip_rate" in one]


def _row(
    run_table: HidingTable,
    position: int,
    rows: Mapping[tuple[str, int], ItemRecord],
    score: ScoreName | None,
    fields: Sequence[str],
) -> dict[str, Any]:
    id_, trial = run_table.where(position)
    item = rows.get((id_, trial)) or ItemRecord(id_, trial, None, None)
    row = row_answer(run_table, position, item, score)
    if fields:
        row["fields"] = {name: line_of(item.row.get(name)) for name in fields}
    return row


def row_answer(
    run_table: HidingTable, position: int, item: ItemRecord, score: ScoreName | None
) -> dict[str, Any]:
    """Return a row of the table."""
    said = run_table.labelling.label((item.id, item.trial), score)
    error = item.error
    return {
        "id": item.id,
        "trial": item.trial,
        "position": position,
        "status": item.status.value,
        "input": line_of(item.input),
        "output": line_of(item.output),
        "scores": _scores_in_row(item),
        "failed_scores": {name: str(of.get("class", "")) for name, of in item.score_errors.items()},
        "seconds": item.seconds or None,
        "cost": item.usage.get("cost"),
        "error": None if error is None else line_of(error_words(error)),
        "label": None if said is None else line_of(said.label),
        "hidden": run_table.is_hidden(item.id),
    }


def error_words(error: Mapping[str, Any]) -> str:
    """Return an error on one line."""
    return f"{error.get('type') or error.get('class', '')}: {error.get('message', '')}"


def _scores_in_row(item: ItemRecord) -> dict[str, Any]:
    return {
        str(ScoreName(name, part)): {
            "value": record.get("value"),
            "label": line_of(record.get("label")),
        }
        for name, score in item.scores.items()
        for part, record in parts_of(score)
    }


# ---- one item -----------------------------------------------------------------------------------


def item_answer(opened: ViewedRun, query: Query) -> dict[str, Any] | None:
    """Return everything about one item in one trial; None: there is no such item."""
    opened.run_table.refresh()
    trial = number_in(query, "trial", 0)
    wholes = opened.run_table.read_whole(_item_id(opened.run_table, query))
    whole = next((one for one in wholes if one.item.trial == trial), None)
    if whole is None:
        return None
    limit = WHOLE if "whole" in query else PART
    answer = whole_answer(opened, whole, len(wholes), Shortener(limit, IMAGES), query.get("score"))
    shown = Shortener(limit)
    raw = {name: shown(value) for name, value in whole_data(whole).items()}
    layout = opened.reader.layout
    images = shown_images(whole.item.row, opened.reader.run_file, layout.home)
    return {**answer, "images": images, "raw": raw}


def image_answer(opened: ViewedRun, query: Query) -> Image:
    """Return an image that a field of an item names.

    Raises:
        LimpetError: No field names it, or it cannot be shown.
    """
    opened.run_table.refresh()
    name, reader = unspelled(query.get("file", "")), opened.reader
    wholes = opened.run_table.read_whole(_item_id(opened.run_table, query))
    if not any(name in images_in(whole.item.row) for whole in wholes):
        raise LimpetError("no field of this item names this image")
    return image_in(folder_of(reader.run_file, reader.layout.home), name, whole=True)


def whole_answer(
    opened: ViewedRun, whole: WholeItem, trials: int, shown: Shortener, score: str | None = None
) -> dict[str, Any]:
    """Return the same, without the raw JSON."""
    item = whole.item
    answer = {
        "id": item.id,
        "trial": item.trial,
        "trials": trials,
        "status": item.status.value,
        "words": item.status.words,
        "in_flight": list(whole.in_flight),
        "input": shown(item.input),
        "expected": shown(item.expected),
        "output": shown(item.output),
        "metadata": shown(item.metadata),
        "error": shown(item.error),
        "seconds": item.seconds or None,
        "attempts_made": item.attempts,
        "cost": item.usage.get("cost"),
        "tokens": item.usage.get("total_tokens"),
        "at": item.at or None,
        "by_current_version": not item.version,
        "masked": list(item.masked),
        "row": shown(dict(item.row)),
        "roles": dict(item.roles),
        "scores": _scores(whole, shown),
        "trace": trace_tree(item.trace, shown),
        "attempts": [_attempt(attempt, shown) for attempt in whole.failed_attempts],
        "earlier": len(whole.earlier),
        **labelling_answer(opened, item, score),
    }
    return {**answer, "shortened": shown.shortened}


def _scores(whole: WholeItem, shown: Shortener) -> list[dict[str, Any]]:
    found = []
    for name, score in whole.item.scores.items():
        entry = whole.scores.get(name)
        facts: Mapping[str, Any] = {} if entry is None else entry.facts
        usage = facts.get("usage") or {}
        for part, record in parts_of(score):
            found.append({
                "name": str(ScoreName(name, part)),
                "value": shown(record.get("value")),
                "label": shown(record.get("label")),
                "explanation": shown(record.get("explanation")),
                "votes": votes_words(record) or None,
                "metadata": shown(record.get("metadata")),
                "replies": [] if part is not None else _replies(whole.ballots.get(name, ()), shown),
                "seconds": facts.get("seconds"),
                "cost": usage.get("cost"),
                "tokens": usage.get("total_tokens"),
                "error": None,
            })  # fmt: skip
    for name, error in whole.item.score_errors.items():
        words, kind = shown(error_words(error)), shown(error.get("class"))
        found.append({"name": name, "value": None, "label": None, "error": words, "class": kind})
    return found


def _replies(ballots: Sequence[Mapping[str, Any]], shown: Shortener) -> list[Any]:
    return [shown(dict(ballot)) for ballot in ballots]


def _attempt(attempt: Mapping[str, Any], shown: Shortener) -> dict[str, Any]:
    return {
        "step": attempt.get("step"),
        "n": attempt.get("attempt"),
        "class": attempt.get("class"),
        "error": shown(f"{attempt.get('type', '')}: {attempt.get('message', '')}"),
        "seconds": attempt.get("seconds"),
        "at": attempt.get("at"),
        "retry_in": attempt.get("retry_in"),
    }
