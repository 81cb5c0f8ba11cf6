"""How does a prompt template become the messages for an item?"""

import mimetypes
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from limpet.errors import DatasetError, LimpetError, wrong_argument
from limpet.placeholders import PLACEHOLDER, check_placeholders, names_in
from limpet.shapes import Item
from limpet.text import one_line, quoted
from limpet.workflows.request_templates import render, render_as_text

# ---- How do images and files get into a message? ------------------------------------------------
#
# A part of a message names a URL, which is passed on, or a file, which is sent as a `data:` URL.
# Rows are untrusted: only files below one folder are sent, none that are hidden or too large.

KINDS = {"image_url": "url", "file": "file_data"}
"""The parts of a message that may have a file, and the file's key."""
LARGEST_MB = 20
_URL = re.compile(r"(?:https?://|data:)", re.IGNORECASE)
_MEBI = 2**20

Resolve = Callable[[str, str], str]
"""Returns the value to send for a reference in a part of this kind."""


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
        return part  # a file on the server, by its id
    if not isinstance(reference, str):
        raise DatasetError(f"{kind}: must be a path or a URL, not {quoted(str(reference))}")
    return {**part, kind: {**held, KINDS[kind]: resolve(kind, reference)}}


def is_url(reference: Any) -> bool:
    """Return whether a reference is a URL, which is passed on to the server."""
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
    """Return a digest of the value sent for a reference: for a file, its content and type.

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
            f"{_shown(reference)} is outside {one_line(home.name)}/",
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
            f"{_shown(reference)} is not {what}", hint="the type is determined by the suffix"
        )
    return type_


def _name_of(reference: Any) -> str:
    return str(reference).rpartition("/")[2]


def _shown(reference: str) -> str:
    return quoted(reference[:200])


# ---- How does a prompt template become the messages for an item? --------------------------------

_ROLES = ("system", "developer", "user", "assistant", "tool")
_KIND_OF = {"images": "image_url", "files": "file"}

Messages = str | Sequence[str | Mapping[str, Any]]
Rendered = list[dict[str, Any]]


class PromptTemplate:
    """The template of a conversation.

    Args:
        prompt: One user message.
        messages: The entire conversation, instead of `prompt`.
        images: Images for the last message.
        files: Other files for it.
        folder: The folder of images and files.

    Attributes:
        template: The messages, before their placeholders are filled.
        may_have_files: Whether a message may have an image or a file.

    Raises:
        LimpetError: An argument is invalid.
    """

    def __init__(
        self,
        prompt: str | None,
        messages: Messages | None,
        images: str | Sequence[str],
        files: str | Sequence[str],
        folder: Path,
    ) -> None:
        listed = _checked_messages(prompt, messages)
        attached = {"images": images, "files": files}
        self.template = {"messages": listed} | {
            name: _checked_references(name, references)
            for name, references in attached.items()
            if references
        }
        self._folder = folder
        self._fields = {name: f"{{{{{name}}}}}" for _, name in names_in(self.template)}
        self.may_have_files = len(self.template) > 1 or any(
            isinstance(message, str) or isinstance(message.get("content"), list)
            for message in listed
        )

    def fields(self, item: Item) -> dict[str, Any]:
        """Return the fields of an item that the template names.

        Raises:
            LimpetError: The item lacks one of them.
        """
        filled: dict[str, Any] = render(self._fields, item)
        return filled

    def contents(self, item: Item) -> list[str]:
        """Return a digest of each image and file of an item.

        Raises:
            DatasetError: The item's fields cannot be used.
        """
        digests: list[str] = []

        def add_digest(kind: str, reference: str) -> str:
            digests.append(content_digest(kind, reference, self._folder))
            return reference

        if self.may_have_files:
            with _naming(item):
                resolved(self._rendered(item), add_digest)
        return digests

    def messages(self, item: Item) -> Rendered:
        """Return the messages for an item, with images and files by their paths.

        Raises:
            DatasetError: The item's fields cannot be used.
        """
        with _naming(item):
            return self._rendered(item)

    def with_files(self, messages: Rendered) -> Rendered:
        """Return messages with the content of their images and files.

        Raises:
            DatasetError: A file cannot be sent.
        """
        return resolved(messages, lambda kind, reference: data_url(kind, reference, self._folder))

    def _rendered(self, item: Item) -> Rendered:
        messages: Rendered = []
        for message in self.template["messages"]:
            if isinstance(message, str):
                messages += _messages_in(render(message, item), message)
            else:
                messages.append({**message, "content": _content(message.get("content"), item)})
        if parts := list(self._parts(item)):
            last = messages[-1]
            text = last["content"]
            texts = [{"type": "text", "text": text}] if isinstance(text, str) else list(text or ())
            messages[-1] = {**last, "content": [*texts, *parts]}
        return messages

    def _parts(self, item: Item) -> Iterator[dict[str, Any]]:
        for name, kind in _KIND_OF.items():
            for template in self.template.get(name, ()):
                value = render(template, item)
                for reference in value if isinstance(value, list) else [value]:
                    if reference is not None and reference != "":
                        yield part_of(kind, reference)


# ---- checking the template ----------------------------------------------------------------------


def _checked_messages(prompt: str | None, messages: Messages | None) -> list[Any]:
    if (prompt is None) == (messages is None):
        text = "needs prompt or messages" if prompt is None else "prompt: excludes messages"
        raise LimpetError(text, hint="prompt is short for a single user message")
    if prompt is not None:
        if not isinstance(prompt, str) or not prompt.strip():
            raise wrong_argument("prompt", "must be a non-empty string")
        check_placeholders(prompt=prompt)
        return [{"role": "user", "content": prompt}]
    listed = [messages] if isinstance(messages, str) else messages
    if not isinstance(listed, (list, tuple)) or not listed:
        raise wrong_argument("messages", "must be a list of messages")
    check_placeholders(messages=listed)
    for number, message in enumerate(listed, 1):
        is_field = isinstance(message, str) and PLACEHOLDER.fullmatch(message) is not None
        if flaw := None if is_field else _flaw_of(message):
            raise wrong_argument("messages", f"message {number} {flaw}")
    return list(listed)


def _flaw_of(message: Any) -> str | None:
    if not isinstance(message, Mapping):
        return "must be a mapping with role and content, or a field like '{{history}}'"
    if message.get("role") not in _ROLES:
        return f"must have a role: {', '.join(_ROLES)}"
    content = message.get("content")
    is_empty = content is None and not message.get("tool_calls")
    if is_empty or not isinstance(content, (str, list, type(None))):
        return "must have content: a string, or a list of parts"
    return None


def _checked_references(name: str, references: Any) -> list[str]:
    listed = [references] if isinstance(references, str) else references
    is_list = isinstance(listed, (list, tuple))
    if not is_list or not all(isinstance(text, str) and text for text in listed):
        raise wrong_argument(name, "must be a list of strings, for example ['{{photo}}']")
    check_placeholders(**{name: listed})
    return list(listed)


# ---- filling it ---------------------------------------------------------------------------------


def _messages_in(value: Any, placeholder: str) -> Rendered:
    """Return the messages in a field of the row."""
    if not isinstance(value, list):
        raise DatasetError(f"{placeholder} must be a list of messages")
    for number, message in enumerate(value, 1):
        if flaw := _flaw_of(message):
            raise DatasetError(f"{placeholder}: message {number} {flaw}")
    return [dict(message) for message in value]


def _content(content: Any, item: Item) -> Any:
    """Return the content of a message with its placeholders filled, text as text."""
    if isinstance(content, str):
        return render_as_text(content, item)
    if not isinstance(content, list):
        return content
    return [
        {**part, "text": render_as_text(part["text"], item)}
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        else render(part, item)
        for part in content
    ]


@contextmanager
def _naming(item: Item) -> Iterator[None]:
    """Add the item's id to an error about its fields."""
    try:
        yield
    except DatasetError as error:
        raise DatasetError(f"item {quoted(item.id)}: {error}", hint=error.hint) from error
