"""What do all workflows behind HTTP share?

Each kind turns an item into a request, and a response into an answer; the client does the rest.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from yarl import URL

from limpet.errors import LimpetError, PermanentError, SetupError, TransientError
from limpet.fingerprints.keys import digest
from limpet.pacing import observe
from limpet.shapes import Item, Output, Usage
from limpet.transport.address import Address
from limpet.transport.client import CallOptions, client_for
from limpet.transport.failures import (
    NOT_FOUND,
    UNPROCESSABLE,
    WRONG_METHOD,
    status_error,
    wanted_fields,
)
from limpet.transport.parsing import encode_json, parse_json
from limpet.transport.reply import MOST_SAID, HttpReply
from limpet.workflows.protocol import Workflow

_MANY_REFUSED = 5
_MAY_HOLD_KEYS = ("url", "path", "endpoint")


class RemoteWorkflow(Workflow):
    """A workflow whose answers come from a server.

    A subclass defines `kind`, `seen`, `_counted`, `_request` and `_read`.
    """

    kind: ClassVar[str]

    def __init__(
        self, name: str, address: Address, options: CallOptions, method: str, version: str | None
    ) -> None:
        self.name = name
        self.endpoint = address.origin
        self._address = address
        self._client = client_for(self.kind, address, options)
        self._method = method
        self._version = version
        self._where = f"{method} {address.origin}{address.path}"
        self._answered = False
        self._refused_items = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._where}>"

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """The values of its headers and the credentials in its address."""
        return self._client.secrets

    @functools.cached_property
    def fingerprint(self) -> Mapping[str, str]:  # type: ignore[override]  # it is only read
        """The digest of each setting that its answers depend on."""
        return {name: digest(value) for name, value in self._counted.items()}

    @property
    def described(self) -> Mapping[str, Any]:
        """The content of the fingerprint, for people; without queries, which may hold keys."""
        return {
            name: shown_address(value) if name in _MAY_HOLD_KEYS else value
            for name, value in self._counted.items()
        }

    @property
    def _counted(self) -> Mapping[str, Any]:
        """The settings that its answers depend on."""
        raise NotImplementedError

    def _request(self, item: Item) -> tuple[URL, bytes | None]:
        """Return the URL and the body for an item; None: no body."""
        raise NotImplementedError

    async def _read(self, reply: HttpReply) -> Output:
        """Return the answer in a response."""
        raise NotImplementedError

    async def open(self) -> None:
        self._answered = self.answered_before
        await self._client.open()

    async def close(self) -> None:
        await self._client.close()

    async def call(self, item: Item) -> Output:
        url, body = self._request(item)
        output = await self._client.ask(self._method, url, body, self._read, self._where)
        self._answered = True
        if isinstance(output.usage, Usage) and output.usage.total_tokens:
            observe(usage={"total_tokens": output.usage.total_tokens})
        return output

    # ---- for the subclasses ---------------------------------------------------------------------

    _one_path = True
    """Whether every item is sent to the same path."""
    _lone_404 = True
    """Whether a single 404 means that the path is wrong, not that the server lacks an item."""

    def _encoded(self, content: Any) -> bytes:
        try:
            return encode_json(content)
        except ValueError as error:
            raise PermanentError(f"{self._where}: cannot be sent as JSON: {error}") from None

    def _shown(self, raw: bytes) -> str:
        return self._client.show(raw[:MOST_SAID].decode(errors="replace"))

    async def _failure(self, reply: HttpReply) -> LimpetError:
        """Return the error for an unsuccessful response."""
        if reply.status != UNPROCESSABLE:
            raw = await reply.beginning()
            return self._status_error(reply, raw, _parsed_or_none(raw))
        # Only the complete body tells whether the request, the agent or the item is at fault.
        raw = await reply.read_all()
        body = _parsed_or_none(raw)
        if body is None and not reply.framed and "json" in reply.content_type:
            return TransientError(f"{self._where}: status 422, with a truncated body")
        return self._status_error(reply, raw, body)

    def _status_error(self, reply: HttpReply, raw: bytes, body: Any) -> LimpetError:
        if reply.status == UNPROCESSABLE and isinstance(body, dict) and "detail" in body:
            return self._wrong_form(body["detail"])
        error = status_error(
            self._where, reply.status, reply.headers, body, self._shown(raw.strip())
        )
        if self._is_path_wrong(reply.status):
            return SetupError(str(error), hint=self._path_hint())
        may_be_the_items = reply.status == NOT_FOUND and not self._one_path
        if not isinstance(error, PermanentError) or may_be_the_items:
            return error
        return self._item_or_setup_error(str(error), self._path_hint())

    def _is_path_wrong(self, status: int) -> bool:
        if self._answered or not self._one_path:
            return False
        return status == WRONG_METHOD or (status == NOT_FOUND and self._lone_404)

    def _wrong_form(self, detail: Any) -> LimpetError:
        fields = wanted_fields(detail, self._client.show)
        message = f"{self._where}: the server expects a different request (status 422): {fields}"
        if self._answered or self._is_about_values(detail):
            return self._item_or_setup_error(message, self._form_hint())
        return SetupError(message, hint=self._form_hint())

    def _item_or_setup_error(self, message: str, hint: str) -> LimpetError:
        """Return an item's failure, or the run's if the first few items are all refused."""
        if self._answered:
            return PermanentError(message)
        self._refused_items += 1
        if self._refused_items < _MANY_REFUSED:
            return PermanentError(message)
        return SetupError(
            f"the first {self._refused_items} items were refused, and none was answered: {message}",
            hint=hint,
        )

    def _is_about_values(self, detail: Any) -> bool:  # noqa: ARG002 - subclasses use it
        """Return whether a refusal is about the value of a field that we send."""
        return False

    def _form_hint(self) -> str:
        return "send the request it expects, and run again"

    def _path_hint(self) -> str:
        return "check the path of the address and the method, and run again"


def shown_address(address: str) -> str:
    """Return an address or path for display, without its query, which may hold a key."""
    path, mark, _ = address.partition("?")
    return path + (mark and "?…")


def _parsed_or_none(raw: bytes) -> Any:
    try:
        return parse_json(raw)
    except ValueError:
        return None
