"""A workflow that is any server that takes a request and answers with JSON."""

import functools
from collections.abc import Collection, Mapping
from typing import Any

from yarl import URL

from limpet.arguments import positive_number
from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.fingerprints.keys import digest
from limpet.transport.address import Address, checked_headers
from limpet.transport.client import Client
from limpet.transport.deadlines import Deadlines
from limpet.transport.failures import SUCCESSES, is_only_error, said_error
from limpet.transport.parsing import parse_json
from limpet.transport.reply import Reply
from limpet.types import Item, Output
from limpet.workflows.answer_path import ALL, AnswerPath
from limpet.workflows.protocol import Workflow
from limpet.workflows.remote import NOTHING, RemoteWorkflow
from limpet.workflows.template import has_placeholders, quoted_url, render, render_url
from limpet.workflows.usage import usage_of_body

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_REDIRECTS = range(300, 400)
_BEGUN_OR_PART, _EMPTY = (202, 206), (204, 205)
_DEFAULT_BODY = {"input": "{{input}}"}


def http(
    url: str,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    answer: str = "$",
    statuses: Collection[int] = SUCCESSES,
    connect_timeout: float | None = 10.0,
    first_byte_timeout: float | None = None,
    between_bytes_timeout: float | None = None,
    timeout: float | None = None,
    max_response_mb: float = 64,
    version: str | None = None,
    name: str = "http",
) -> Workflow:
    """Evaluate a server that answers with JSON.

    Args:
        url: Where it is. Its path and query may hold placeholders: `{{column}}`.
        method: GET, POST, PUT, PATCH or DELETE.
        headers: What else is sent. The values are secrets: shown nowhere, in no fingerprint.
        body: What is sent, as JSON, with placeholders in its texts; None: `{"input":
            "{{input}}"}`, and nothing with GET and DELETE.
        answer: A JSONPath to the answer in the response; "$" is all of it.
        statuses: Those that are a success; all of 200 to 299 but 202, 204, 205 and 206.
        connect_timeout: Seconds until there is a connection.
        first_byte_timeout: Seconds until the response begins, connecting included.
        between_bytes_timeout: Seconds from one piece of the response to the next.
        timeout: Seconds for all of it.
        max_response_mb: A larger response is a failure.
        version: Declares which server it is. Then it may move to another host and its answers
            are kept; without it, another host is another server.
        name: What people call it.

    Raises:
        LimpetError: An argument cannot be used as it is.
    """
    if method not in _METHODS:
        raise LimpetError(f"method={method!r}: must be one of {', '.join(_METHODS)}")
    if body is not None and method == "GET":
        raise LimpetError("body: a GET has none", hint="put placeholders into the url")
    wrong = [one for one in statuses if type(one) is not int or not 200 <= one <= 599]  # noqa: PLR2004 - HTTP's own range
    if wrong or not statuses:
        raise LimpetError(f"statuses={statuses!r}: must be statuses such as 200")
    if moved := sorted(set(statuses).intersection(_REDIRECTS)):
        raise LimpetError(
            f"statuses={moved!r}: a redirect is no answer",
            hint="redirects are followed, and the status of where they lead is looked at",
        )
    address = Address(url, "url")
    deadlines = Deadlines(connect_timeout, first_byte_timeout, between_bytes_timeout, timeout)
    most = positive_number(max_response_mb=max_response_mb)
    client = Client(address, checked_headers(headers), deadlines, most)
    path = AnswerPath(answer)
    if body is None:
        body = NOTHING if method in ("GET", "DELETE") else _DEFAULT_BODY
    return HttpWorkflow(name, address, client, method, body, path, frozenset(statuses), version)


class HttpWorkflow(RemoteWorkflow):
    """A server that answers with JSON; see `http`."""

    _lone_404 = False  # it may be said of what is asked for in the body

    def __init__(
        self,
        name: str,
        address: Address,
        client: Client,
        method: str,
        body: Any,
        path: AnswerPath,
        statuses: Collection[int],
        version: str | None,
    ) -> None:
        super().__init__(name, address, client, method)
        self._body = body
        self._path = path
        self._statuses = statuses
        self._version = version
        one_path = not has_placeholders(address.relative)
        self._one_path = one_path
        self._url = URL(address.url) if one_path else None
        self._origin = str(URL(address.origin)).rstrip("/")
        self._place = "" if one_path else quoted_url(address.relative)

    @functools.cached_property
    def fingerprint(self) -> Mapping[str, str]:  # type: ignore[override]  # it is only read
        """The method, the templates, the path to the answer; the host unless a version is given."""
        return {name: digest(one) for name, one in self._counted.items()}

    @property
    def _counted(self) -> dict[str, Any]:
        counted = {
            "method": self._method,
            "url": self._address.relative,
            "body": None if self._body is NOTHING else self._body,
            "answer": self._path.path,
        }
        if self._version is not None:
            return {**counted, "version": self._version}
        return {**counted, "host": self._address.origin}

    @property
    def described(self) -> Mapping[str, Any]:
        """What the fingerprint is made of, for people; a query may hold a key."""
        path, sign, _ = self._address.relative.partition("?")
        return {**self._counted, "url": path + (sign and "?…")}

    def seen(self, item: Item) -> Any:
        body = None if self._body is NOTHING else render(self._body, item)
        place = None if self._url is not None else render_url(self._address.relative, item)
        return {"url": place, "body": body}

    def _request(self, item: Item) -> tuple[URL, Any]:
        url = self._url
        if url is None:
            url = URL(self._origin + render_url(self._place, item), encoded=True)
        return url, NOTHING if self._body is NOTHING else render(self._body, item)

    async def _read(self, reply: Reply) -> Output:
        if reply.status not in self._statuses:
            raise await self._refusal(reply)
        raw = await reply.whole()
        try:
            said = parse_json(raw)
        except ValueError as error:
            raise self._not_json(reply, raw, str(error)) from None
        if not reply.framed and isinstance(said, (int, float)):
            raise TransientError(
                f"{self._where}: the response is a bare number without a marked end: it may be cut"
            )
        if self._path.path == ALL and reply.status in SUCCESSES and is_only_error(said):
            shown = self._client.show(said_error(said))
            raise TransientError(f"{self._where}: the response is an error: {shown}")
        value = self._path.find(said, self._where, self._client.show)
        return Output(value, usage_of_body(said))

    def _refused(self, reply: Reply, raw: bytes, said: Any) -> LimpetError:
        error = super()._refused(reply, raw, said)
        if reply.status in _BEGUN_OR_PART:
            hint = f"if it is the answer all the same: statuses=[200, {reply.status}]"
            return PermanentError(str(error), hint=hint)
        return error

    def _not_json(self, reply: Reply, raw: bytes, why: str) -> LimpetError:
        if reply.status in _EMPTY:
            return PermanentError(
                f"{self._where}: status {reply.status} has no body, and so no answer"
            )
        if not raw.strip():
            return TransientError(f"{self._where}: the response is empty")
        shown = self._shown(raw)
        if "json" in reply.content_type:
            return TransientError(f"{self._where}: the response is {why}: {shown}")
        kind = self._client.show(reply.content_type or "untyped")
        return PermanentError(f"{self._where}: the response is {kind}, and not JSON: {shown}")
