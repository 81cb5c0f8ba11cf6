"""What does the toolkit's stream say: which answer, which steps, which failure?

Lines, each with its prefix: `data:` holds the answer or a part of it, `intermediate_data:` a step.
A failure is a last line without a prefix, or `event: error` with what it says behind it, as event
streams have it. The end of the stream ends it, and steps may come after
the answer, so nothing is known before the end. The bytes come in pieces that end anywhere.
"""

from collections.abc import Mapping
from typing import Any

from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.transport.failures import Show, agent_failure, is_agent_error, said_error
from limpet.transport.parsing import parse_json
from limpet.transport.reply import MOST_SAID
from limpet.workflows.nat_trace import is_workflow_end, is_workflow_start, step_of

_DATA, _STEP, _DONE = b"data:", b"intermediate_data:", b"[DONE]"
_TRACE = '{"observability_trace_id":'
_EVENT, _ERROR = b"event:", b"error"
_OTHER_FIELDS = (b":", _EVENT, b"id:", b"retry:")
_MARK = b"\xef\xbb\xbf"


class AgentStream:
    """Reads a stream as it comes.

    Args:
        where: Who sends it, for messages.
        show: How what it says is shown.

    Attributes:
        trace: The steps, in the order in which they came.
        ended: The server said that this is all.
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
        self._error: list[bytes] | None = None  # what an error event has said so far

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes.

        Raises:
            TransientError: A line is broken.
            PermanentError: A line says something else than an answer.
        """
        # The open line is kept in pieces: joining it for each piece would take quadratic time.
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
        said, self._error = self._error, None
        if said is None:
            return
        text = b"\n".join(said)
        try:
            error = parse_json(text)
        except ValueError:  # text for people
            error = self._shown(text)
        if not is_agent_error(error):
            error = {"message": said_error(error) or error or "an error event that says nothing"}
        self._fail(error)

    def _fail(self, said: Mapping[str, Any]) -> None:
        self._failure = self._failure or agent_failure(self._where, said, self._show)

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
            self.trace.append(step_of(sent))
            self._note_workflow(sent)
        elif line.startswith(b"{"):
            self._fail(self._parsed(line, "a line without a prefix"))
        elif not line.startswith(_OTHER_FIELDS):
            raise TransientError(
                f"{self._where}: the stream holds a line that is none of the protocol's: "
                f"{self._shown(line)}"
            )

    def _note_workflow(self, sent: Any) -> None:
        id_ = sent.get("id") if isinstance(sent, dict) else None
        if is_workflow_start(sent):
            self._under_way.add(str(id_))
        elif is_workflow_end(sent):
            self.ended = True
            self._under_way.discard(str(id_))

    def _read_data(self, data: bytes) -> None:
        if data == _DONE:
            self.ended = True
            return
        said = self._parsed(data, "a part of the answer")
        if is_agent_error(said):
            self._fail(said)
        elif isinstance(said, dict) and "value" in said:
            if not _is_trace(said["value"]):
                self._values.append(said["value"])
        elif (error := said_error(said)) is not None:
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
        """Return the answer, now that the stream is at its end.

        Args:
            framed: The end was marked, so that it is not a cut.

        Raises:
            LimpetError: There is none, or it is not whole; the type tells what to do.
        """
        self._end_line()
        self._end_event()
        if self._failure is not None:
            raise self._failure
        values = self._values
        if not values:
            empty = not self.trace
            raise TransientError(
                f"{self._where}: the stream {'is empty' if empty else 'ended without an answer'}"
            )
        if self._under_way:
            raise TransientError(
                f"{self._where}: the stream ended before its workflow did (a WORKFLOW_START has no "
                "WORKFLOW_END): it was cut"
            )
        if not framed and not self.ended:
            raise TransientError(
                f"{self._where}: the stream ended without a mark (it is not chunked, has no length "
                "and no WORKFLOW_END): it may have been cut"
            )
        if any(value is None for value in values):
            raise PermanentError(f"{self._where}: the answer is null")
        if len(values) == 1:
            return values[0]
        if all(isinstance(value, str) for value in values):
            return "".join(values)
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise PermanentError(
            f"{self._where}: the answer came in {len(values)} parts that are not all text: {kinds}"
        )


def _is_trace(value: Any) -> bool:
    """Tell whether a part announces a trace: a server under a tracer sends it as if an answer."""
    if not isinstance(value, str) or not value.startswith(_TRACE):
        return False
    try:
        said = parse_json(value.encode())
    except ValueError:
        return False
    return isinstance(said, dict) and list(said) == ["observability_trace_id"]
