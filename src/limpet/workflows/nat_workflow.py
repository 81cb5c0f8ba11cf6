"""A workflow that is an agent of the NeMo Agent Toolkit, served by `nat serve`."""

import functools
from collections.abc import Mapping
from typing import Any

from yarl import URL

from limpet.arguments import positive_number
from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.fingerprints.keys import digest
from limpet.transport.address import Address, checked_headers
from limpet.transport.client import Client
from limpet.transport.deadlines import Deadlines
from limpet.transport.failures import (
    SUCCESSES,
    UNPROCESSABLE,
    agent_failure,
    is_agent_error,
    said_error,
)
from limpet.transport.parsing import parse_json
from limpet.transport.reply import Reply
from limpet.types import Item, Output
from limpet.workflows.nat_stream import AgentStream
from limpet.workflows.protocol import Workflow
from limpet.workflows.remote import RemoteWorkflow
from limpet.workflows.usage import usage_of_body, usage_of_trace

_STREAM, _JSON = "text/event-stream", "application/json"


def nat(
    endpoint: str,
    *,
    path: str = "/generate/full",
    input_key: str = "input_message",
    headers: Mapping[str, str] | None = None,
    connect_timeout: float | None = 10.0,
    first_byte_timeout: float | None = None,
    between_bytes_timeout: float | None = None,
    timeout: float | None = None,
    max_response_mb: float = 64,
    version: str | None = None,
    name: str = "nat",
) -> Workflow:
    """Evaluate an agent of the NeMo Agent Toolkit.

    Args:
        endpoint: Where its server is: `http://localhost:8000`.
        path: What is called there: `/generate/full`, `/generate` or `/v1/workflow/full`.
        input_key: The name of the agent's parameter, under which the input is sent.
        headers: What else is sent. The values are secrets: shown nowhere, in no fingerprint.
        connect_timeout: Seconds until there is a connection.
        first_byte_timeout: Seconds until the response begins, connecting included.
        between_bytes_timeout: Seconds from one piece of the response to the next.
        timeout: Seconds for all of it.
        max_response_mb: A larger response is a failure.
        version: Declares which agent it is. Then it may move to another address and its answers
            are kept; without it, another address is another agent.
        name: What people call it.

    Raises:
        LimpetError: An argument cannot be used as it is.
    """
    if not isinstance(path, str) or not path.startswith("/"):
        raise LimpetError(f"path={path!r}: must begin with a slash, such as /generate/full")
    if not isinstance(input_key, str) or not input_key:
        raise LimpetError(f"input_key={input_key!r}: must be the name of the agent's parameter")
    if "?" in f"{endpoint}" or "#" in f"{endpoint}":
        raise LimpetError("endpoint: must be an address without a query, as a path is put to it")
    address = Address(f"{endpoint}".rstrip("/") + path, "endpoint")
    deadlines = Deadlines(connect_timeout, first_byte_timeout, between_bytes_timeout, timeout)
    most = positive_number(max_response_mb=max_response_mb)
    client = Client(address, checked_headers(headers), deadlines, most)
    return NatWorkflow(name, address, client, path, input_key, version)


class NatWorkflow(RemoteWorkflow):
    """An agent of the toolkit; see `nat`."""

    def __init__(
        self,
        name: str,
        address: Address,
        client: Client,
        path: str,
        input_key: str,
        version: str | None,
    ) -> None:
        super().__init__(name, address, client, "POST")
        self._path = path
        self._input_key = input_key
        self._version = version
        self._url = URL(address.url)

    @functools.cached_property
    def fingerprint(self) -> Mapping[str, str]:  # type: ignore[override]  # it is only read
        """The path, the parameter's name, and the version; where there is none, the address."""
        counted = {**self.described}
        if "endpoint" in counted:
            counted["endpoint"] = self._address.url
        return {name: digest(one) for name, one in counted.items()}

    @property
    def described(self) -> Mapping[str, Any]:
        """What the fingerprint is made of, for people; a query may hold a key."""
        counted = {"path": self._path, "input_key": self._input_key}
        if self._version is not None:
            return {**counted, "version": self._version}
        url, sign, _ = self._address.url.partition("?")
        return {**counted, "endpoint": url + (sign and "?…")}

    def seen(self, item: Item) -> Any:
        return item.input

    def _request(self, item: Item) -> tuple[URL, Any]:
        return self._url, {self._input_key: item.input}

    async def _read(self, reply: Reply) -> Output:
        if reply.status not in SUCCESSES:
            raise await self._refusal(reply)
        if reply.content_type == _STREAM:
            return await self._read_stream(reply)
        if reply.content_type == _JSON:
            return self._read_whole(await reply.whole())
        kind = self._client.show(reply.content_type or "untyped")
        said = self._shown(await reply.beginning())
        raise PermanentError(
            f"{self._where}: the response is {kind}, and not {_STREAM} or {_JSON}: {said}",
            hint="is it the address of an agent?",
        )

    def _refused(self, reply: Reply, raw: bytes, said: Any) -> LimpetError:
        # Beyond 422 the status tells more than the agent's own words: 429, 503.
        if reply.status == UNPROCESSABLE and is_agent_error(said):
            return agent_failure(self._where, said, self._client.show)
        return super()._refused(reply, raw, said)

    async def _read_stream(self, reply: Reply) -> Output:
        stream = AgentStream(self._where, self._client.show)
        await reply.pour(stream.feed)
        value = stream.answer(framed=reply.framed)
        return Output(value, usage_of_trace(stream.trace), stream.trace)

    def _read_whole(self, raw: bytes) -> Output:
        try:
            said = parse_json(raw)
        except ValueError as error:
            what = f"{error}: {self._shown(raw)}" if raw.strip() else "empty"
            raise TransientError(f"{self._where}: the response is {what}") from None
        if is_agent_error(said):
            raise agent_failure(self._where, said, self._client.show)
        if isinstance(said, dict) and said and "value" not in said:
            if (wrong := said_error(said)) is not None:
                raise agent_failure(self._where, {"message": wrong}, self._client.show)
            return Output(said, usage_of_body(said))  # an agent whose answer is an object
        if not isinstance(said, dict) or not said:
            raise PermanentError(
                f"{self._where}: the response has no 'value': {self._client.show(said)}"
            )
        if said["value"] is None:
            raise PermanentError(f"{self._where}: the answer is null")
        return Output(said["value"], usage_of_body(said))

    def _is_about_values(self, detail: Any) -> bool:
        # One row may hold a number where the agent wants a text. A field that is missing or not
        # known is another matter.
        entries = detail if isinstance(detail, list) else []
        return bool(entries) and all(
            isinstance(one, dict)
            and one.get("loc") == ["body", self._input_key]
            and one.get("type") not in ("missing", "extra_forbidden")
            for one in entries
        )

    def _form_hint(self) -> str:
        return (
            f"the input is sent as {self._input_key!r}: set input_key to the name of the agent's "
            "parameter, and run again"
        )

    def _path_hint(self) -> str:
        return (
            f"path={self._path!r} is what was called: set path to one that the server has, such as "
            "/generate/full, /generate or /v1/workflow/full, and run again"
        )
