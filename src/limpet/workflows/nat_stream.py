"""What is in the toolkit's stream: which answer, which trace, which failure?

It consists of lines with a prefix: `data:` holds the answer or a part of it, `intermediate_data:`
an intermediate step. A failure is a last line without a prefix, or an `event: error` followed by
its data, as usual in event streams. Steps may follow the answer, so nothing is known before the
stream ends. The bytes arrive in pieces that may end anywhere.
"""

from collections.abc import Mapping
from typing import Any

from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.nat_trace import event_of
from limpet.transport.failures import Show, said_error
from limpet.transport.parsing import parse_json
from limpet.transport.reply import MOST_SAID
from limpet.workflows.nat_errors import agent_failure, is_agent_error

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
            PermanentError: A line holds something other than an answer.
        """
        # The open line stays in pieces: joining it for each piece would take quadratic time.
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
            self._note_workflow(sent)
        elif line.startswith(b"{"):
            self._fail(self._parsed(line, "a line without a prefix"))
        elif not line.startswith(_OTHER_FIELDS):
            raise TransientError(
                f"{self._where}: unexpected line in the stream: {self._shown(line)}"
            )

    def _note_workflow(self, sent: Any) -> None:
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
                f"{self._where}: the stream ended before its workflow did (a WORKFLOW_START has no "
                "WORKFLOW_END): it was truncated"
            )
        if not framed and not self.ended:
            raise TransientError(
                f"{self._where}: the stream ended without a mark (it is not chunked, and has no "
                "length and no WORKFLOW_END): it may be truncated"
            )
        if not values:
            return ""  # the agent had nothing to say
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
    """Return whether a part is only the id of a trace, which a traced server sends as well."""
    if not isinstance(value, str) or not value.startswith(_TRACE_ID):
        return False
    try:
        content = parse_json(value.encode())
    except ValueError:
        return False
    return isinstance(content, dict) and list(content) == ["observability_trace_id"]
