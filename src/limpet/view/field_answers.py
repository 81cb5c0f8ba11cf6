"""What are the scores for each value of a field of the dataset? As `limpet show --by` says it.

Only fields with few values have a table. Adding up the items of a large run takes a while: each
request does some of it, as a search does.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from multidict import MultiMapping

from limpet.errors import LimpetError
from limpet.report.items import apart_words, difference_lines
from limpet.run.results.filters import MISSING, field_of, is_value
from limpet.run.results.groups import Groups
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import score_words
from limpet.text import quoted
from limpet.view.shown_values import line_of, score_claims
from limpet.view.viewed_runs import ViewedRun, unspelled

_MOST_VALUES = 12
_FIRST_ROWS, MOST_FIELDS = 20, 50
_LOOKED_AT = 500
"""So many rows, from all over the dataset, tell which fields have few values."""
_LONGEST = 200
_BATCH, _REQUEST_S = 500, 0.3
_REST = 10
"""While a run grows, its items are added up again after so many times the time it took."""


def fields_of(opened: ViewedRun) -> list[str]:
    """Return the fields of the dataset, from its first rows."""
    rows = len(opened.run_table)
    if opened.fields[0] != rows:
        names: dict[str, None] = {}
        for item in opened.run_table.read(range(min(_FIRST_ROWS, rows)), whole=False):
            names |= dict.fromkeys(name for name in item.row if name not in item.roles.values())
        opened.fields = (rows, [*names][:MOST_FIELDS])
    return opened.fields[1]


def few_valued(opened: ViewedRun) -> list[str]:
    """Return the fields with at most 12 values that repeat, as far as some rows tell."""
    rows = len(opened.run_table)
    if opened.few_valued[0] != rows:
        some = np.unique(np.linspace(0, max(0, rows - 1), min(rows, _LOOKED_AT), dtype=int))
        items = list(_read(opened, some))
        names = [name for name in fields_of(opened) if _is_few([field_of(i, name) for i in items])]
        opened.few_valued = (rows, names)
    return opened.few_valued[1]


def _read(opened: ViewedRun, positions: Iterable[int]) -> Iterator[ItemRecord]:
    return opened.run_table.read(positions, whole=not opened.reader.knows_rows)


def _is_few(values: Sequence[Any]) -> bool:
    plain = all(
        isinstance(value, (int, float, type(None)))
        or value is MISSING
        or (isinstance(value, str) and len(value) <= _LONGEST)
        for value in values
    )
    return plain and 1 < len({*map(repr, values)}) <= min(_MOST_VALUES, len(values) / 2)


class ByField:
    """Adds up the items of a run for each value of some fields, some in each call."""

    def __init__(self, opened: ViewedRun, fields: Sequence[str]) -> None:
        reader, table = opened.reader, opened.run_table.table
        about = (reader.evaluators, table.trials, reader.run_file.scales)
        self.groups = {field: Groups(field, *about) for field in fields}
        self.version = opened.run_table.version
        self.took_s = 0.0
        # Trial by trial, as a summary adds them up.
        cells = np.arange(len(opened.run_table)).reshape(-1, table.trials).T.ravel()
        self.of = len(cells)
        self._items = _read(opened, cells)
        self._without: set[str] = set()
        self.left = self.of

    def go_on(self, budget_s: float) -> None:
        """Add up items for `budget_s` seconds."""
        began = time.monotonic()
        while self.left and time.monotonic() < began + budget_s:
            some: list[ItemRecord] = list(islice(self._items, _BATCH))
            self.left = self.left - len(some) if some else 0
            for item in some:
                for field, groups in [*self.groups.items()]:
                    groups.add(item)
                    if field_of(item, field) is MISSING:
                        self._without.add(field)
                    if len(groups.values) > _MOST_VALUES:
                        del self.groups[field]
            if not self.groups:
                self.left = 0
        self.took_s += time.monotonic() - began

    def data(self, field: str) -> dict[str, Any]:
        """Return the table of a field."""
        if field not in self.groups:
            return {"field": field, "values": [], "notes": [f"more than {_MOST_VALUES} values"]}
        groups = self.groups[field].data()
        known = [group["value"] for group in groups]
        values = [
            {"value": line_of(group["value"]), "where": self._where(field, group["value"], known),
             "n": group["n"], "failed": sum(group["workflow"]["failed"].values()),
             "scores": _scores(group)}
            for group in groups
        ]  # fmt: skip
        return {"field": field, "values": values, "notes": difference_lines(groups)}

    def _where(self, field: str, value: Any, known: Sequence[Any]) -> str | None:
        """Return the words that select just these items; None: there are none."""
        words = value if isinstance(value, str) else "null" if value is None else repr(value)
        words = words.lower() if isinstance(value, bool) else words
        if ":" in field or (value is None and field in self._without) or len(words) > _LONGEST:
            return None
        alike = [one for one in known if is_value(one, words)]
        return words if len(alike) == 1 and is_value(value, words) else None


def _scores(group: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = score_claims(group)
    for claim in found:
        score = group["scores"][claim["name"]]
        claim["words"] = score_words(score)
        claim["apart"] = apart_words(score["from_rest"]) if "from_rest" in score else None
    return found


def by_answer(opened: ViewedRun, query: MultiMapping[str]) -> dict[str, Any]:
    """Return the table of a field, or how many items are left to add up.

    Raises:
        LimpetError: No field with few values has this name.
    """
    field, known_fields = query.get("field", ""), few_valued(opened)
    field = field if field in known_fields else unspelled(field)
    if field not in known_fields:
        raise LimpetError(f"no field with at most {_MOST_VALUES} values is called {quoted(field)}")
    known, working = opened.by_field.setdefault(field, [None, None])
    version = opened.run_table.version
    is_due = known is None or (
        known["version"] != version and time.monotonic() - known["at"] > _REST * known["took_s"]
    )
    if working is None and is_due:
        working = ByField(opened, [field])
    if working is not None:
        working.go_on(_REQUEST_S)
        if not working.left:
            known = {"version": working.version, "took_s": working.took_s, "at": time.monotonic(),
                     "data": working.data(field)}  # fmt: skip
            working = None
        opened.by_field[field] = [known, working]
    if known is None:
        return {"field": field, "left_to_search": working.left, "of": working.of}
    return {**known["data"], "is_stale": known["version"] != version}


_OF_REPORT = 200_000
"""Characters of the tables in a report, together."""


def all_by_field(opened: ViewedRun) -> dict[str, Any]:
    """Return the tables of all fields with few values, as far as they fit into a report."""
    found: dict[str, Any] = {}
    by_field = ByField(opened, few_valued(opened))
    by_field.go_on(float("inf"))
    for field in few_valued(opened):
        table = by_field.data(field)
        if len(repr(found)) + len(repr(table)) < _OF_REPORT:
            found[field] = table
    return found
