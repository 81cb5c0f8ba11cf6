"""How do images and files get into a message?

A part of a message names a URL, which is passed on, or a file, which is sent as a `data:` URL. Rows
are not trusted: only files below one folder are sent, no hidden ones, and none that is too large.
"""

import mimetypes
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from limpet.errors import DatasetError
from limpet.text import one_line, quoted

KINDS = {"image_url": "url", "file": "file_data"}
"""The parts of a message that hold a file, and the key under which they hold it."""
LARGEST_MB = 20
_URL = re.compile(r"(?:https?://|data:)", re.IGNORECASE)
_MEBI = 2**20

Resolve = Callable[[str, str], str]
"""Returns what is sent for a reference in a part of this kind."""


def part_of(kind: str, reference: Any) -> dict[str, Any]:
    """Return the part of a message for an image or a file."""
    if isinstance(reference, Mapping):
        return {"type": kind, kind: dict(reference)}
    name = {} if kind == "image_url" or is_url(reference) else {"filename": _name_of(reference)}
    return {"type": kind, kind: {**name, KINDS[kind]: reference}}


def resolved(messages: Sequence[Mapping[str, Any]], resolve: Resolve) -> list[dict[str, Any]]:
    """Return messages with each reference to an image or file replaced."""
    return [
        {**message, "content": [_resolved_part(part, resolve) for part in content]}
        if isinstance(content := message.get("content"), list)
        else dict(message)
        for message in messages
    ]


def _resolved_part(part: Any, resolve: Resolve) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in KINDS:
        return part
    held = part_of(kind, part.get(kind))[kind]
    reference = held.get(KINDS[kind])
    if kind == "file" and reference is None:
        return part  # a file that the server has, by its id
    if not isinstance(reference, str):
        raise DatasetError(f"{kind}: must be a path or a URL, not {quoted(str(reference))}")
    return {**part, kind: {**held, KINDS[kind]: resolve(kind, reference)}}


def is_url(reference: Any) -> bool:
    """Return whether a reference is passed on to the server."""
    return isinstance(reference, str) and _URL.match(reference) is not None


def data_url(kind: str, reference: str, folder: Path) -> str:
    """Return a URL unchanged, and a file as a `data:` URL.

    Raises:
        DatasetError: The file cannot be sent.
    """
    if is_url(reference):
        return reference
    content = _read(_located(reference, folder), reference)
    return f"data:{_type_of(kind, reference)};base64,{b64encode(content).decode()}"


def content_digest(kind: str, reference: str, folder: Path) -> str:
    """Return a digest of what is sent for a reference: of a file, its content and type.

    Raises:
        DatasetError: The file cannot be sent.
    """
    if is_url(reference):
        return reference
    path = _located(reference, folder)
    found = path.stat()
    content = _digest_of(path, reference, (found.st_ino, found.st_size, found.st_mtime_ns))
    return f"{_type_of(kind, reference)} {content}"


@lru_cache(maxsize=10_000)
def _digest_of(path: Path, reference: str, _state: tuple[int, ...]) -> str:
    return blake2b(_read(path, reference), digest_size=16).hexdigest()


def _located(reference: str, folder: Path) -> Path:
    try:
        path = Path(folder, reference).resolve()
    except (OSError, ValueError):  # too long, or with a NUL
        raise DatasetError(f"{_shown(reference)} is not a path") from None
    home = folder.resolve()
    if not path.is_relative_to(home):
        raise DatasetError(
            f"{_shown(reference)} is outside of {one_line(home.name)}/",
            hint="only files in the dataset's folder are sent: copy it there, or use a URL",
        )
    if any(part.startswith(".") for part in path.relative_to(home).parts):
        raise DatasetError(f"{_shown(reference)} is hidden: hidden files are never sent")
    if not path.is_file():
        why = "is not a file" if path.exists() else "does not exist"
        raise DatasetError(
            f"{_shown(reference)} {why}", hint="paths are relative to the dataset's folder"
        )
    return path


def _read(path: Path, reference: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_MB * _MEBI + 1)
    except OSError as error:
        raise DatasetError(f"{_shown(reference)} cannot be read: {error.strerror}") from error
    if len(content) > LARGEST_MB * _MEBI:
        raise DatasetError(f"{_shown(reference)} is larger than {LARGEST_MB} MB")
    return content


def _type_of(kind: str, reference: str) -> str:
    type_, encoding = mimetypes.guess_type(_name_of(reference))
    is_image = type_ is not None and type_.startswith("image/")
    if type_ is None or encoding is not None or (kind == "image_url" and not is_image):
        what = "an image" if kind == "image_url" else "a file of a known type"
        raise DatasetError(
            f"{_shown(reference)} is not {what}", hint="the type is known by the file's ending"
        )
    return type_


def _name_of(reference: Any) -> str:
    return str(reference).rpartition("/")[2]


def _shown(reference: str) -> str:
    return quoted(reference[:200])
