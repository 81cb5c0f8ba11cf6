"""A workflow behind `nat serve`: an agent of the NeMo Agent Toolkit."""

from collections.abc import Mapping
from typing import Any, Unpack

from yarl import URL

from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.transport.address import Address
from limpet.transport.failures import SUCCESSES, UNPROCESSABLE, said_error
from limpet.transport.options import CallOptions
from limpet.transport.parsing import parse_json
from limpet.transport.reply import HttpReply
from limpet.types import Item, Output
from limpet.usage import note_paid, plain_usage, usage_of_body, usage_of_trace
from limpet.workflows.nat_errors import agent_failure, is_agent_error
from limpet.workflows.nat_stream import AgentStream
from limpet.workflows.protocol import Workflow
from limpet.workflows.remote import RemoteWorkflow, shown_address

_STREAM, _JSON = "text/event-stream", "application/json"


def nat(
    endpoint: str,
    *,
    path: str = "/generate/full",
    input_key: str = "input_message",
    version: str | None = None,
    name: str = "nat",
    **options: Unpack[CallOptions],
) -> Workflow:
    """Evaluate an agent of the NeMo Agent Toolkit.

    Args:
        endpoint: Its address: `http://localhost:8000`.
        path: The path to call: `/generate/full`, `/generate` or `/v1/workflow/full`.
        input_key: The name of the agent's parameter that gets the input.
        version: Declares which version is behind the address: the agent may then move to another
            address and keeps its answers. Without it, another address is another agent.
        name: Its name.
        **options: How to call it: `headers`, timeouts and `max_response_mb`, see `CallOptions`.

    Raises:
        LimpetError: An argument is invalid.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    if not isinstance(path, str) or not path.startswith("/"):
        shown = shown_address(f"{path}")
        raise LimpetError(f"path={shown!r}: must begin with a slash, for example /generate/full")
    if not isinstance(input_key, str) or not input_key:
        raise LimpetError(f"input_key={input_key!r}: must be the name of the agent's parameter")
    if "?" in f"{endpoint}" or "#" in f"{endpoint}":
        raise LimpetError(
            "endpoint: must be an address without a query: the path is appended to it"
        )
    address = Address(f"{endpoint}".rstrip("/") + path, "endpoint")
    return NatWorkflow(name, address, options, path, input_key, version)


class NatWorkflow(RemoteWorkflow):
    """An agent of the toolkit; see `nat`."""

    kind = "nat"

    def __init__(
        self,
        name: str,
        address: Address,
        options: CallOptions,
        path: str,
        input_key: str,
        version: str | None,
    ) -> None:
        super().__init__(name, address, options, "POST", version)
        self._path = path
        self._input_key = input_key
        self._url = URL(address.url)

    @property
    def _counted(self) -> Mapping[str, Any]:
        settings = {"path": self._path, "input_key": self._input_key}
        if self._version is not None:
            return {**settings, "version": self._version}
        return {**settings, "endpoint": self._address.url}

    def seen(self, item: Item) -> Any:
        return item.input

    def _request(self, item: Item) -> tuple[URL, bytes | None]:
        return self._url, self._encoded({self._input_key: item.input})

    async def _read(self, reply: HttpReply) -> Output:
        if reply.status not in SUCCESSES:
            raise await self._failure(reply)
        if reply.content_type == _STREAM:
            return await self._read_stream(reply)
        if reply.content_type == _JSON:
            return self._read_whole(await reply.whole())
        kind = self._client.show(reply.content_type or "untyped")
        shown = self._shown(await reply.beginning())
        raise PermanentError(
            f"{self._where}: the response is {kind}, not {_STREAM} or {_JSON}: {shown}",
            hint="is it the address of an agent?",
        )

    def _status_error(self, reply: HttpReply, raw: bytes, body: Any) -> LimpetError:
        # Other statuses say more than the agent's message: 429, 503.
        if reply.status == UNPROCESSABLE and is_agent_error(body):
            return agent_failure(self._where, body, self._client.show)
        return super()._status_error(reply, raw, body)

    async def _read_stream(self, reply: HttpReply) -> Output:
        stream = AgentStream(self._where, self._client.show)
        try:
            await reply.pour(stream.feed)
            value = stream.answer(framed=reply.framed)
        except BaseException:
            note_paid(plain_usage(usage_of_trace(stream.trace)))
            raise
        return Output(value, usage_of_trace(stream.trace), stream.trace)

    def _read_whole(self, raw: bytes) -> Output:
        try:
            body = parse_json(raw)
        except ValueError as error:
            what = f"{error}: {self._shown(raw)}" if raw.strip() else "empty"
            raise TransientError(f"{self._where}: the response is {what}") from None
        note_paid(plain_usage(usage_of_body(body)))
        if is_agent_error(body):
            raise agent_failure(self._where, body, self._client.show)
        if not isinstance(body, dict) or not body:
            raise PermanentError(
                f"{self._where}: the response has no 'value': {self._client.show(body)}"
            )
        if "value" not in body:
            if (message := said_error(body)) is not None:
                raise agent_failure(self._where, {"message": message}, self._client.show)
            return Output(body, usage_of_body(body))  # an agent whose answer is an object
        if body["value"] is None:
            raise PermanentError(f"{self._where}: the answer is null")
        return Output(body["value"], usage_of_body(body))

    def _is_about_values(self, detail: Any) -> bool:
        # A single row may have a number where the agent wants a string. A missing or unknown field
        # concerns all rows.
        problems = detail if isinstance(detail, list) else []
        return bool(problems) and all(
            isinstance(problem, dict)
            and problem.get("loc") == ["body", self._input_key]
            and problem.get("type") not in ("missing", "extra_forbidden")
            for problem in problems
        )

    def _form_hint(self) -> str:
        return (
            f"the input is sent as {self._input_key!r}: set input_key (with a configuration of the "
            "toolkit: --input-key NAME) to the name of the agent's parameter, and run again"
        )

    def _path_hint(self) -> str:
        return (
            f"path={shown_address(self._path)!r} was called: set path (with a configuration of the "
            "toolkit: --endpoint-path PATH) to one that the server has, like /generate/full, "
            "/generate or /v1/workflow/full, and run again"
        )
