"""What does the file hold, as text?"""

import codecs
from pathlib import Path

from limpet.config.problems import Place, did_you_mean, refuse
from limpet.text import one_line

_LARGEST = 2**20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, shown: str) -> str:
    """Return the text of a configuration file.

    Args:
        path: Where it is.
        shown: What the user calls it.

    Raises:
        ConfigError: It is not there, cannot be read, is no text, or far too large.
    """
    raw = _bytes_of(path, Place(shown)).removeprefix(codecs.BOM_UTF8)
    if raw.startswith(_UTF16):
        refuse(Place(shown, 1), "is UTF-16, not UTF-8", "save the file as UTF-8")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        refuse(
            Place(shown, line),
            f"byte {raw[error.start]:#04x} is not UTF-8",
            "save the file as UTF-8",
        )


def _bytes_of(path: Path, place: Place) -> bytes:
    try:
        if path.is_dir():
            refuse(place, "is a directory", "name the file in it: eval.yml")
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        refuse(place, "there is no such file", _near(path))
    except OSError as error:
        refuse(place, f"cannot be read: {one_line(error.strerror or str(error))}")
    if len(raw) > _LARGEST:
        refuse(place, "is larger than 1 MB, which no configuration is", "name an eval.yml")
    return raw


def _near(path: Path) -> str | None:
    try:
        return did_you_mean(path.name, [one.name for one in path.parent.iterdir()])
    except (OSError, ValueError):
        return None
