"""A workflow behind `nat serve`: an agent of the NeMo Agent Toolkit."""

from collections.abc import Mapping
from typing import Any, Unpack

from yarl import URL

from limpet.errors import LimpetError, PermanentError, TransientError, wrong_argument
from limpet.nat_trace import event_of
from limpet.shapes import Item, Output
from limpet.transport.address import Address
from limpet.transport.client import CallOptions
from limpet.transport.failures import SUCCESSES, UNPROCESSABLE, Show, StatusError, said_error
from limpet.transport.parsing import parse_json
from limpet.transport.reply import MOST_SAID, HttpReply
from limpet.usage import add_receipt, plain_usage, usage_of_body, usage_of_trace
from limpet.workflows.protocol import Workflow
from limpet.workflows.remote import RemoteWorkflow, shown_address

# ---- Which error does the toolkit's error object raise? -----------------------------------------
#
# The toolkit reports the name of the agent's exception as `details`.

_RATE_LIMITED = 429
_LIMIT_NAMES = ("RateLimit", "TooManyRequests", "ResourceExhausted", "Throttl")
_PERMANENT_NAMES = ("NameError", "UnboundLocalError", "SyntaxError", "ImportError",
                    "ModuleNotFoundError", "NotImplementedError", "AuthenticationError",
                    "PermissionDeniedError")  # fmt: skip


class WorkflowFailedError(TransientError):
    """The agent behind the server raised an exception."""


def agent_failure(where: str, error: Mapping[str, Any], show: Show) -> LimpetError:
    """Return the error for the toolkit's error object, by the exception it names."""
    name = error.get("details")
    name = name if isinstance(name, str) else ""
    parts = [show(part) for part in (name, error.get("message", error)) if part]
    message = f"{where}: the workflow failed: {': '.join(parts)}"
    if any(part in name for part in _LIMIT_NAMES):
        return StatusError(message, status=_RATE_LIMITED)
    if name.rpartition(".")[2] in _PERMANENT_NAMES:
        return PermanentError(message)
    return WorkflowFailedError(message)


def is_agent_error(value: Any) -> bool:
    """Return whether a value is the toolkit's error object."""
    return (
        isinstance(value, dict)
        and "value" not in value
        and isinstance(value.get("code"), str)
        and "message" in value
    )


# ---- Which answer, trace or failure is in the toolkit's stream? ---------------------------------
#
# It consists of lines with a prefix: `data:` has the answer or a part of it, `intermediate_data:`
# an intermediate step. A failure is a last line without a prefix, or an `event: error` followed by
# its data, as usual in event streams. Steps may follow the answer, so nothing is certain before the
# stream ends. The bytes arrive in pieces that may end anywhere.

_DATA, _STEP, _DONE = b"data:", b"intermediate_data:", b"[DONE]"
_TRACE_ID = '{"observability_trace_id":'
_EVENT, _ERROR = b"event:", b"error"
_OTHER_FIELDS = (b":", _EVENT, b"id:", b"retry:")
_MARK = b"\xef\xbb\xbf"


class AgentStream:
    """Reads a stream as it arrives.

    Args:
        where: The call's name in messages.
        show: Formats text from the server.

    Attributes:
        trace: The events of the intermediate steps, in order of arrival.
        ended: The server marked the end.
    """

    def __init__(self, where: str, show: Show) -> None:
        self.trace: list[dict[str, Any]] = []
        self.ended = False
        self._under_way: set[str] = set()
        self._where = where
        self._show = show
        self._values: list[Any] = []
        self._failure: LimpetError | None = None
        self._open_line: list[bytes] = []
        self._begun = False
        self._error: list[bytes] | None = None  # the data of an error event so far

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes.

        Raises:
            TransientError: A line is broken.
            PermanentError: A line is something other than an answer.
        """
        # The open line stays in pieces: joining it each time would take quadratic time.
        first, *more = chunk.split(b"\n")
        self._open_line.append(first)
        for line in more:
            self._end_line()
            self._open_line.append(line)

    def _end_line(self) -> None:
        line = b"".join(self._open_line)
        self._open_line.clear()
        if not self._begun:
            self._begun, line = True, line.removeprefix(_MARK)
        line = line.strip()
        if line:
            self._read(line)
        else:
            self._end_event()

    def _end_event(self) -> None:
        lines, self._error = self._error, None
        if lines is None:
            return
        text = b"\n".join(lines)
        try:
            error = parse_json(text)
        except ValueError:  # plain text
            error = self._shown(text)
        if not is_agent_error(error):
            error = {"message": said_error(error) or error or "an empty error event"}
        self._fail(error)

    def _fail(self, error: Mapping[str, Any]) -> None:
        self._failure = self._failure or agent_failure(self._where, error, self._show)

    def _read(self, line: bytes) -> None:
        if line.startswith(_DATA):
            data = line[len(_DATA) :].strip()
            if self._error is None:
                self._read_data(data)
            else:
                self._error.append(data)
        elif line.startswith(_EVENT) and line[len(_EVENT) :].strip() == _ERROR:
            self._error = []
        elif line.startswith(_STEP):
            sent = self._parsed(line[len(_STEP) :], "a step")
            self.trace.append(event_of(sent))
            self._remember_workflow(sent)
        elif line.startswith(b"{"):
            self._fail(self._parsed(line, "a line without a prefix"))
        elif not line.startswith(_OTHER_FIELDS):
            raise TransientError(
                f"{self._where}: unexpected line in the stream: {self._shown(line)}"
            )

    def _remember_workflow(self, sent: Any) -> None:
        sent = sent if isinstance(sent, dict) else {}
        if sent.get("type") == "WORKFLOW_START":
            self._under_way.add(str(sent.get("id")))
        elif sent.get("type") == "WORKFLOW_END":
            self.ended = True
            self._under_way.discard(str(sent.get("id")))

    def _read_data(self, data: bytes) -> None:
        if data == _DONE:
            self.ended = True
            return
        part = self._parsed(data, "a part of the answer")
        if is_agent_error(part):
            self._fail(part)
        elif isinstance(part, dict) and "value" in part:
            if not _is_trace_id(part["value"]):
                self._values.append(part["value"])
        elif (error := said_error(part)) is not None:
            self._fail({"message": error})
        else:
            raise PermanentError(
                f"{self._where}: a part of the answer has no 'value': {self._shown(data)}"
            )

    def _parsed(self, raw: bytes, what: str) -> Any:
        try:
            return parse_json(raw)
        except ValueError as error:
            raise TransientError(f"{self._where}: {what} is {error}: {self._shown(raw)}") from None

    def _shown(self, raw: bytes) -> str:
        return self._show(raw[:MOST_SAID].decode(errors="replace"))

    def answer(self, *, framed: bool) -> Any:
        """Return the answer, once the stream has ended.

        Args:
            framed: HTTP marked the end, so the stream is not truncated.

        Raises:
            LimpetError: It failed, or is incomplete; the type says what to do.
        """
        self._end_line()
        self._end_event()
        if self._failure is not None:
            raise self._failure
        values = self._values
        if self._under_way:
            raise TransientError(
                f"{self._where}: the stream was truncated: it ended before its workflow (a "
                "WORKFLOW_START has no WORKFLOW_END)"
            )
        if not framed and not self.ended:
            raise TransientError(
                f"{self._where}: the stream may be truncated: its end is not marked (it is not "
                "chunked, and has no length and no WORKFLOW_END)"
            )
        if not values:
            return ""  # the agent's answer is empty
        if any(value is None for value in values):
            raise PermanentError(f"{self._where}: the answer is null")
        if len(values) == 1:
            return values[0]
        if all(isinstance(value, str) for value in values):
            return "".join(values)
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise PermanentError(
            f"{self._where}: the answer has {len(values)} parts that are not all strings: {kinds}"
        )


def _is_trace_id(value: Any) -> bool:
    """Return whether a part is only a trace id, which a traced server also sends."""
    if not isinstance(value, str) or not value.startswith(_TRACE_ID):
        return False
    try:
        content = parse_json(value.encode())
    except ValueError:
        return False
    return isinstance(content, dict) and list(content) == ["observability_trace_id"]


# ---- A workflow behind `nat serve`: an agent of the NeMo Agent Toolkit. -------------------------

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
        input_key: The agent's parameter for the input.
        version: The declared version of the agent: it may then move to another address and keep its
            answers. Without it, another address is another agent.
        name: Its name.
        **options: How to call it: `headers`, timeouts and `max_response_mb`, see `CallOptions`.

    Raises:
        LimpetError: An argument is invalid.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    if not isinstance(path, str) or not path.startswith("/"):
        shown = shown_address(f"{path}")
        raise wrong_argument("path", "must start with a slash, for example /generate/full", shown)
    if not isinstance(input_key, str) or not input_key:
        raise wrong_argument("input_key", "must be the name of the agent's parameter", input_key)
    if "?" in f"{endpoint}" or "#" in f"{endpoint}":
        raise wrong_argument(
            "endpoint", "must be an address without a query: the path is appended to it"
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
            return self._read_body(await reply.read_all())
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
            add_receipt(plain_usage(usage_of_trace(stream.trace)))
            raise
        return Output(value, usage_of_trace(stream.trace), stream.trace)

    def _read_body(self, raw: bytes) -> Output:
        try:
            body = parse_json(raw)
        except ValueError as error:
            what = f"{error}: {self._shown(raw)}" if raw.strip() else "empty"
            raise TransientError(f"{self._where}: the response is {what}") from None
        add_receipt(plain_usage(usage_of_body(body)))
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
        # One row may have a number where the agent expects a string. A missing or unknown field
        # affects all rows.
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
