"""What is a model told about an item? The messages of a prompt, filled with the row's fields."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from limpet.errors import DatasetError, LimpetError
from limpet.templates import PLACEHOLDER, check_placeholders, names_in
from limpet.text import quoted
from limpet.types import Item
from limpet.workflows.attachments import content_digest, data_url, part_of, resolved
from limpet.workflows.template import render, render_as_text

_ROLES = ("system", "developer", "user", "assistant", "tool")
_KIND_OF = {"images": "image_url", "files": "file"}

Messages = str | Sequence[str | Mapping[str, Any]]
Rendered = list[dict[str, Any]]


class Conversation:
    """The template of a conversation.

    Args:
        prompt: One message of the user.
        messages: The whole conversation, instead of `prompt`.
        images: Images for the last message.
        files: Other files for it.
        folder: The folder of images and files.

    Attributes:
        template: What the model is told, before its placeholders are filled.
        may_have_files: Whether a message may hold an image or a file.

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
            LimpetError: The item does not have one of them.
        """
        filled: dict[str, Any] = render(self._fields, item)
        return filled

    def contents(self, item: Item) -> list[str]:
        """Return a digest of each image and file of an item.

        Raises:
            DatasetError: The item's fields cannot be used.
        """
        digests: list[str] = []

        def note(kind: str, reference: str) -> str:
            digests.append(content_digest(kind, reference, self._folder))
            return reference

        if self.may_have_files:
            with _naming(item):
                resolved(self._rendered(item), note)
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
        raise LimpetError(text, hint="prompt is short for a single message of the user")
    if prompt is not None:
        if not isinstance(prompt, str) or not prompt.strip():
            raise LimpetError("prompt: must be a string that is not empty")
        check_placeholders(prompt=prompt)
        return [{"role": "user", "content": prompt}]
    listed = [messages] if isinstance(messages, str) else messages
    if not isinstance(listed, (list, tuple)) or not listed:
        raise LimpetError("messages: must be a list of messages")
    check_placeholders(messages=listed)
    for number, message in enumerate(listed, 1):
        is_field = isinstance(message, str) and PLACEHOLDER.fullmatch(message) is not None
        if flaw := None if is_field else _flaw_of(message):
            raise LimpetError(f"messages: message {number} {flaw}")
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
        raise LimpetError(f"{name}: must be a list of strings, for example ['{{{{photo}}}}']")
    check_placeholders(**{name: listed})
    return list(listed)


# ---- filling it ---------------------------------------------------------------------------------


def _messages_in(value: Any, placeholder: str) -> Rendered:
    """Return the messages that a field of the row holds."""
    if not isinstance(value, list):
        raise DatasetError(f"{placeholder} must hold a list of messages")
    for number, message in enumerate(value, 1):
        if flaw := _flaw_of(message):
            raise DatasetError(f"{placeholder}: message {number} {flaw}")
    return [dict(message) for message in value]


def _content(content: Any, item: Item) -> Any:
    """Return the content of a message with its placeholders filled, as text wherever it is text."""
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
    """Name the item in an error about its fields."""
    try:
        yield
    except DatasetError as error:
        raise DatasetError(f"item {quoted(item.id)}: {error}", hint=error.hint) from error
