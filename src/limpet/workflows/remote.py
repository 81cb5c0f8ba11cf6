"""What do all workflows behind HTTP have in common?

They make a request of an item, and an answer of the response: that is the seam. All between the
two is the client's.
"""

from collections.abc import Iterable
from typing import Any

from yarl import URL

from limpet.errors import LimpetError, PermanentError, SetupError, TransientError
from limpet.pacing.ticket import observe
from limpet.transport.address import Address
from limpet.transport.client import Client
from limpet.transport.failures import (
    NOT_FOUND,
    UNPROCESSABLE,
    WRONG_METHOD,
    refused,
    wanted_fields,
)
from limpet.transport.parsing import encode_json, parse_json
from limpet.transport.reply import MOST_SAID, Reply
from limpet.types import Item, Output, Usage
from limpet.workflows.protocol import Workflow

_MANY_REFUSALS = 5


class RemoteWorkflow(Workflow):
    """A workflow whose answers come from a server.

    A kind of its own has `seen`, `_request` and `_read`.

    Args:
        name: What people call it.
        address: Where the server is.
        client: What makes the calls.
        method: How they are made.
    """

    def __init__(self, name: str, address: Address, client: Client, method: str) -> None:
        self.name = name
        self.endpoint = address.origin
        self._address = address
        self._client = client
        self._method = method
        self._where = f"{method} {address.origin}{address.path}"
        self._answered = False
        self._refusals = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._where}>"

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """The values of its headers and the credentials in its address."""
        return self._client.secrets

    def _request(self, item: Item) -> tuple[URL, Any]:
        """Return where an item is sent, and what is sent, as plain data, or NOTHING."""
        raise NotImplementedError

    async def _read(self, reply: Reply) -> Output:
        """Make an answer of a response."""
        raise NotImplementedError

    async def open(self) -> None:
        self._answered = self.answered_before
        await self._client.open()

    async def close(self) -> None:
        await self._client.close()

    async def call(self, item: Item) -> Output:
        url, content = self._request(item)
        try:
            body = None if content is NOTHING else encode_json(content)
        except ValueError as error:
            raise PermanentError(f"{self._where}: cannot be sent as JSON: {error}") from None
        output = await self._client.ask(self._method, url, body, self._read, self._where)
        self._answered = True
        if isinstance(output.usage, Usage) and output.usage.total_tokens:
            observe(usage={"total_tokens": output.usage.total_tokens})
        return output

    # ---- for the kinds --------------------------------------------------------------------------

    _one_path = True
    """Every item is sent to the same path."""
    _lone_404 = True
    """A single 404 says that the path is wrong, and not what was asked for there."""

    def _shown(self, raw: bytes) -> str:
        return self._client.show(raw[:MOST_SAID].decode(errors="replace"))

    async def _refusal(self, reply: Reply) -> LimpetError:
        """Return the error of a response that is no success."""
        if reply.status != UNPROCESSABLE:
            raw = await reply.beginning()
            return self._refused(reply, raw, parsed_or_none(raw))
        # Only its body tells who is to blame, the form, the agent or the item: all of it is read,
        # and one that breaks off tells nothing.
        raw = await reply.whole()
        said = parsed_or_none(raw)
        if said is None and not reply.framed and "json" in reply.content_type:
            return TransientError(f"{self._where}: status 422, and what it says was cut")
        return self._refused(reply, raw, said)

    def _refused(self, reply: Reply, raw: bytes, said: Any) -> LimpetError:
        if reply.status == UNPROCESSABLE and isinstance(said, dict) and "detail" in said:
            return self._wrong_form(said["detail"])
        shown = self._shown(raw.strip())
        error = refused(self._where, reply.status, reply.headers, said, shown)
        if self._is_path_wrong(reply.status):
            return SetupError(str(error), hint=self._path_hint())
        may_be_the_items = reply.status == NOT_FOUND and not self._one_path
        if not isinstance(error, PermanentError) or may_be_the_items:
            return error
        return self._of_item_or_all(str(error), self._path_hint())

    def _is_path_wrong(self, status: int) -> bool:
        if self._answered or not self._one_path:
            return False
        return status == WRONG_METHOD or (status == NOT_FOUND and self._lone_404)

    def _wrong_form(self, detail: Any) -> LimpetError:
        fields = wanted_fields(detail, self._client.show)
        message = f"{self._where}: the server wants another request (status 422): {fields}"
        if self._answered or self._is_about_values(detail):
            return self._of_item_or_all(message, self._form_hint())
        return SetupError(message, hint=self._form_hint())

    def _of_item_or_all(self, message: str, hint: str) -> LimpetError:
        """Return the failure of an item that was refused; of all, if the first few are, alike."""
        if self._answered:
            return PermanentError(message)
        self._refusals += 1
        if self._refusals < _MANY_REFUSALS:
            return PermanentError(message)
        return SetupError(
            f"the first {self._refusals} items were refused, and none was answered: {message}",
            hint=hint,
        )

    def _is_about_values(self, detail: Any) -> bool:  # noqa: ARG002 - a kind may know
        """Tell whether a refusal is about the value of a field that we do send."""
        return False

    def _form_hint(self) -> str:
        return "send what it wants, and run again"

    def _path_hint(self) -> str:
        return "check the path of the address and the method, and run again"


class _Nothing:
    """No body at all."""


NOTHING = _Nothing()


def parsed_or_none(raw: bytes) -> Any:
    """Return what a text says, if it is JSON."""
    try:
        return parse_json(raw)
    except ValueError:
        return None
