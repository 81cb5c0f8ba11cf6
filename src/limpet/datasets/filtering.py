"""Which rows are asked for?"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import translate
from typing import Any

from limpet.datasets.columns import check_column

_GLOB = re.compile(r"[*?\[]")


class RowFilter:
    """Keeps the rows that match every allowed column and no denied one.

    Args:
        asked: `{"allow": {column: patterns}, "deny": {column: patterns}}`.
        place: How a message names the dataset.
        columns: The columns there are.

    Raises:
        TypeError: It has another shape.
        DatasetError: It names a column that is not there.
    """

    def __init__(self, asked: Mapping[str, Any], place: str, columns: Collection[str]) -> None:
        check_shape(asked)
        self._allow = _patterns_of(asked, "allow", place, columns)
        self._deny = _patterns_of(asked, "deny", place, columns)

    def keeps(self, values: Mapping[str, Any]) -> bool:
        """Tell whether the row is asked for."""
        return all(one.matches(values) for one in self._allow) and not any(
            one.matches(values) for one in self._deny
        )


def check_shape(asked: Mapping[str, Any]) -> None:
    """Raise `TypeError` if this is not the shape of a filter."""
    allowed = 'must be {"allow": {column: [values]}, "deny": {column: [values]}}, or one of them'
    if not isinstance(asked, Mapping) or not set(asked) <= {"allow", "deny"}:
        raise TypeError(f"filter={asked!r}: {allowed}")
    for side in asked.values():
        named = side or {}
        if not isinstance(named, Mapping) or not all(isinstance(name, str) for name in named):
            raise TypeError(f"filter={asked!r}: {allowed}")


def _patterns_of(
    asked: Mapping[str, Any], side: str, place: str, columns: Collection[str]
) -> "list[_Patterns]":
    patterns = []
    for column, wanted in (asked.get(side) or {}).items():
        check_column(place, columns, column, f"filter: {side}: ")
        patterns.append(_Patterns(column, wanted))
    return patterns


class _Patterns:
    """What the value in one column may be."""

    def __init__(self, column: str, wanted: Any) -> None:
        # A lone text is one pattern, not a list of its letters.
        one = isinstance(wanted, (str, Mapping)) or not isinstance(wanted, Iterable)
        texts = [_text_of(pattern) for pattern in ([wanted] if one else wanted)]
        self._column = column
        self._texts = frozenset(texts)
        # What `fnmatchcase` does, made ready once for all rows.
        self._globs = [re.compile(translate(text)) for text in texts if _GLOB.search(text)]

    def matches(self, values: Mapping[str, Any]) -> bool:
        if self._column not in values:
            return False
        text = _text_of(values[self._column])
        return text in self._texts or any(glob.match(text) for glob in self._globs)


def _text_of(value: Any) -> str:
    """Return a text as it is, and anything else as its JSON: `7`, `true`, `null`."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
