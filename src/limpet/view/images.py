"""Which images of a dataset does a page show?

Rows are untrusted, and so is what lies beside them: a page gets only PNG, JPEG, WebP and GIF files,
by their first bytes, that a field names, inside the dataset's folder and through no link. As long
as the dataset is the one that the run read: otherwise its images may be others, too.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from limpet.errors import LimpetError
from limpet.journal.files import file_digest
from limpet.run.run_file import RunFile

_NAME = re.compile(r"(?i)[^\0:\\]{1,250}\.(?:png|jpe?g|webp|gif)")
_MOST_VALUES, _MOST_IMAGES = 1_000, 20
_HEAD = 2**20
"""The bytes read for type and size: an image may begin with much about its colours."""
_MOST_MB, _MOST_PIXELS = 10, 50_000_000


class Image(NamedTuple):
    """An image that can be shown.

    Attributes:
        kind: Its content type.
        width: Its width in pixels.
        height: Its height in pixels.
        content: All its bytes, or their beginning.
    """

    kind: str
    width: int
    height: int
    content: bytes


def images_in(row: Any) -> list[str]:
    """Return the paths of images that fields of a row name, each once."""
    return list(dict.fromkeys(_names(row)))[:_MOST_IMAGES]


def _names(row: Any) -> Iterator[str]:
    left, seen = [row], 0
    while left and seen < _MOST_VALUES:
        value, seen = left.pop(), seen + 1
        if isinstance(value, str) and len(value) < _MOST_VALUES and _is_inside(value):
            yield value
        elif isinstance(value, Mapping):
            left += [*value.values()][:_MOST_VALUES][::-1]
        elif isinstance(value, list):
            left += value[:_MOST_VALUES][::-1]


def _is_inside(name: str) -> bool:
    # A part that is empty, hidden or ".." leads elsewhere.
    return _NAME.fullmatch(name) is not None and not any(
        part.startswith(".") or not part for part in name.removeprefix("./").split("/")
    )


def folder_of(run_file: RunFile, home: Path) -> Path:
    """Return the folder of the dataset that a run read.

    Raises:
        LimpetError: The run does not name it, or it is another dataset now.
    """
    known = run_file.dataset
    if known is None:
        raise LimpetError("not shown: the run does not say in which file its dataset was")
    path = Path(os.path.normpath(home / known.path))
    try:
        found = path.stat()
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        is_same = _digest_of(path, state) == known.digest
    except (OSError, LimpetError):
        raise LimpetError("not shown: the run's dataset is not there any more") from None
    if not is_same:
        raise LimpetError("not shown: the dataset has changed since the run read it")
    return path.parent


@lru_cache(maxsize=32)
def _digest_of(path: Path, _state: tuple[int, ...]) -> str:
    return file_digest(path)


def image_in(folder: Path, name: str, *, whole: bool) -> Image:
    """Return an image in a folder, by a relative path.

    Raises:
        LimpetError: There is none that can be shown.
    """
    try:
        with os.fdopen(_opened(folder, name), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise LimpetError("not shown: is not a file")
            if found.st_size > _MOST_MB * 1_000_000:
                raise LimpetError(f"not shown: larger than {_MOST_MB} MB")
            content = file.read(_MOST_MB * 1_000_000 if whole else _HEAD)
    except (OSError, ValueError):
        raise LimpetError("not shown: no such file in the dataset's folder") from None
    image = _image(content)
    if image is None or not (image.width and image.height):
        raise LimpetError("not shown: is no PNG, JPEG, WebP or GIF")
    if image.width * image.height > _MOST_PIXELS:
        raise LimpetError(f"not shown: has too many pixels, {image.width} × {image.height}")
    return image


def _opened(folder: Path, name: str) -> int:
    """Open a file for reading, following no link below the folder."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    *parents, last = name.removeprefix("./").split("/")
    at = os.open(folder, flags | os.O_DIRECTORY)
    try:
        for part in parents:
            below = os.open(part, flags | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def _image(content: bytes) -> Image | None:
    """Return what the first bytes say; None: they are of no image that is shown."""

    def little(at: int, many: int = 2) -> int:
        return int.from_bytes(content[at : at + many], "little")

    def big(at: int, many: int = 2) -> int:
        return int.from_bytes(content[at : at + many], "big")

    if content.startswith(b"\x89PNG\r\n\x1a\n") and content[12:16] == b"IHDR":
        return Image("image/png", big(16, 4), big(20, 4), content)
    if content.startswith((b"GIF87a", b"GIF89a")):
        return Image("image/gif", little(6), little(8), content)
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        sizes = {
            b"VP8 ": (little(26) & 0x3FFF, little(28) & 0x3FFF),
            b"VP8L": ((little(21, 4) & 0x3FFF) + 1, (little(21, 4) >> 14 & 0x3FFF) + 1),
            b"VP8X": (little(24, 3) + 1, little(27, 3) + 1),
        }
        return Image("image/webp", *sizes.get(content[12:16], (0, 0)), content)
    if content.startswith(b"\xff\xd8\xff"):
        at = 2
        while content[at : at + 1] == b"\xff" and at + 9 <= len(content):
            kind = content[at + 1]
            if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):  # noqa: PLR2004 - a frame
                return Image("image/jpeg", big(at + 7), big(at + 5), content)
            at += 2 + max(big(at + 2), 2)
    return None


def shown_images(row: Any, run_file: RunFile, home: Path) -> list[dict[str, Any]]:
    """Return the images that fields name: each with its size, or why it is not shown."""
    found: list[dict[str, Any]] = []
    for name in images_in(row):
        try:
            image = image_in(folder_of(run_file, home), name, whole=False)
            found.append({"file": name, "width": image.width, "height": image.height})
        except LimpetError as error:
            found.append({"file": name, "why": str(error)})
    return found
