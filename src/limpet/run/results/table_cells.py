"""How is a value written into one cell of a table that people open?"""

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

from limpet.json_values import encode

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_CONTROLS = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WIDEST_BITS = 13_000  # Python refuses to print more than 4,300 digits


def csv_line(cells: Iterable[Any]) -> bytes:
    """Return a line of a CSV file."""
    text = io.StringIO()
    # This terminator makes csv quote a cell with a lone \r, too; the line itself ends in \n.
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return (text.getvalue()[:-2] + "\n").encode("utf-8", "backslashreplace")


def without_controls(text: str) -> str:
    r"""Return a string with control characters written out, like `\x1b`."""
    return _CONTROLS.sub(
        lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n")
    )


def spreadsheet_cell(value: Any) -> Any:
    """Return a value for a cell that no spreadsheet runs as a formula."""
    cell = flat_cell(value)
    if not isinstance(cell, str) or not cell.startswith(_FORMULA) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def flat_cell(value: Any) -> Any:
    """Return a value for one cell: numbers and strings unchanged, the rest as JSON."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and value.bit_length() > _WIDEST_BITS:
        return hex(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    return encode(value)[0].decode()
