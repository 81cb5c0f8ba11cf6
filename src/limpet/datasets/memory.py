"""How are rows read that are already in memory?"""

from collections.abc import Iterable, Mapping
from typing import Any

from limpet.datasets.rows import Flaw, Row, Rows


def read_rows(source: Iterable[Any]) -> Rows:
    """Hand out copies of the rows of an iterable: what the caller does to his is no concern."""
    for number, one in enumerate(source, 1):
        if not isinstance(one, Mapping):
            yield Flaw(number, one, f"a row is a dict, not {type(one).__name__}")
        elif not all(isinstance(name, str) for name in one):
            yield Flaw(number, one, "the name of a column is not text")
        else:
            yield Row(number, dict(one))
