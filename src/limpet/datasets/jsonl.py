"""How are rows read from one JSON object per line?"""

from pathlib import Path

from limpet.datasets.rows import Flaw, Row, Rows
from limpet.datasets.strict_json import exact_decoder, plain_object, reason_of
from limpet.datasets.text_files import decoded, raw_lines_of
from limpet.errors import DatasetError

_BOM = "\ufeff"  # concatenated files contain one each


def read_jsonl(path: Path, place: str) -> Rows:
    """Yield the rows of a JSONL file, skipping blank lines."""
    decode = exact_decoder().decode
    is_first = True
    for number, raw, offset in raw_lines_of(path, place):
        plain = plain_object(raw)
        if plain is not None:
            is_first = False
            yield Row(number, plain, raw.strip())
            continue
        _, line, flaw = decoded(number, raw, offset)
        text = line.strip().removeprefix(_BOM)
        if flaw is not None:
            yield Flaw(number, text, flaw)
            continue
        if not text:
            continue
        try:
            values = decode(text)
        except (ValueError, RecursionError) as error:
            if is_first:
                _check_not_an_array(text, place, number)
            yield Flaw(number, text, reason_of(error))
            continue
        finally:
            is_first = False
        if isinstance(values, dict):
            yield Row(number, values)
        else:
            yield Flaw(number, text, "not a JSON object")


def _check_not_an_array(text: str, place: str, number: int) -> None:
    """Raise `DatasetError` if the first line shows that the file is not JSONL."""
    if text in {"[", "[{", "{"}:
        raise DatasetError(
            f"{place}, line {number}: a JSON value spans several lines: {text}",
            hint="JSONL is one object per line; an array of objects is a .json file",
        )
