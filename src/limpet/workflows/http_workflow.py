"""A workflow behind any server that returns JSON."""

from collections.abc import Collection, Mapping
from typing import Any, Unpack

from yarl import URL

from limpet.errors import LimpetError, PermanentError, TransientError, wrong_argument
from limpet.placeholders import check_placeholders, has_placeholders
from limpet.shapes import Item, Output
from limpet.text import did_you_mean
from limpet.transport.address import Address
from limpet.transport.client import CallOptions
from limpet.transport.failures import SUCCESSES, is_only_error, said_error
from limpet.transport.parsing import parse_json
from limpet.transport.reply import HttpReply
from limpet.usage import add_receipt, plain_usage, usage_of_body
from limpet.workflows.protocol import Workflow
from limpet.workflows.remote import RemoteWorkflow
from limpet.workflows.request_templates import ALL, AnswerPath, quoted_url, render, render_url

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_STATUSES, _REDIRECTS = range(200, 600), range(300, 400)
_BEGUN_OR_PART, _EMPTY = (202, 206), (204, 205)
_DEFAULT_BODY = {"input": "{{input}}"}


def http(
    url: str,
    *,
    method: str = "POST",
    body: Any = None,
    answer: str = "$",
    statuses: Collection[int] = SUCCESSES,
    version: str | None = None,
    name: str = "http",
    **options: Unpack[CallOptions],
) -> Workflow:
    """Evaluate a server that returns JSON.

    Args:
        url: Its address. Path and query may contain placeholders: `{{column}}`.
        method: GET, POST, PUT, PATCH or DELETE.
        body: The JSON to send, with placeholders in its strings; None: `{"input": "{{input}}"}`,
            or no body with GET and DELETE.
        answer: A JSONPath to the answer in the response; "$" is the entire response.
        statuses: The statuses that mean success: 200 to 299, except 202, 204, 205 and 206.
        version: The declared version of the server: it may then move to another host and keep its
            answers. Without it, another host is another server.
        name: Its name.
        **options: How to call it: `headers`, timeouts and `max_response_mb`, see `CallOptions`.

    Raises:
        LimpetError: An argument is invalid.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    if method not in _METHODS:
        near = did_you_mean(method, _METHODS) if isinstance(method, str) else ""
        raise wrong_argument("method", f"must be one of {', '.join(_METHODS)}{near}", method)
    if body is not None and method == "GET":
        raise wrong_argument("body", "a GET has none", hint="put placeholders into the url")
    listed = statuses if isinstance(statuses, Collection) else ()
    if not listed or any(type(status) is not int or status not in _STATUSES for status in listed):
        raise wrong_argument("statuses", "must be a list of statuses, for example [200]", statuses)
    if redirects := sorted(set(statuses).intersection(_REDIRECTS)):
        raise wrong_argument(
            "statuses",
            "a redirect is not an answer",
            redirects,
            hint="redirects are followed; list the status of their target",
        )
    address, path = Address(url, "url"), AnswerPath(answer)
    check_placeholders(url=url)
    check_placeholders(body=body)
    if body is None and method not in ("GET", "DELETE"):
        body = _DEFAULT_BODY
    return HttpWorkflow(name, address, options, method, body, path, frozenset(statuses), version)


class HttpWorkflow(RemoteWorkflow):
    """A server that returns JSON; see `http`."""

    kind = "http"
    _lone_404 = False  # the server may lack what the body requests

    def __init__(
        self,
        name: str,
        address: Address,
        options: CallOptions,
        method: str,
        body: Any,
        path: AnswerPath,
        statuses: Collection[int],
        version: str | None,
    ) -> None:
        super().__init__(name, address, options, method, version)
        self._body = body
        self._path = path
        self._statuses = statuses
        one_path = not has_placeholders(address.relative)
        self._one_path = one_path
        self._url = URL(address.url) if one_path else None
        self._origin = str(URL(address.origin)).rstrip("/")
        self._template = "" if one_path else quoted_url(address.relative)

    @property
    def _counted(self) -> Mapping[str, Any]:
        settings = {
            "method": self._method,
            "url": self._address.relative,
            "body": self._body,
            "answer": self._path.path,
        }
        if self._version is not None:
            return {**settings, "version": self._version}
        return {**settings, "host": self._address.origin}

    def seen(self, item: Item) -> Any:
        url = None if self._url is not None else render_url(self._address.relative, item)
        return {"url": url, "body": render(self._body, item)}

    def _request(self, item: Item) -> tuple[URL, bytes | None]:
        url = self._url
        if url is None:
            url = URL(self._origin + render_url(self._template, item), encoded=True)
        return url, None if self._body is None else self._encoded(render(self._body, item))

    async def _read(self, reply: HttpReply) -> Output:
        if reply.status not in self._statuses:
            raise await self._failure(reply)
        raw = await reply.read_all()
        try:
            body = parse_json(raw)
        except ValueError as error:
            raise self._not_json(reply, raw, str(error)) from None
        usage = usage_of_body(body)
        add_receipt(plain_usage(usage))
        if not reply.framed and isinstance(body, (int, float)):
            raise TransientError(
                f"{self._where}: the response is a bare number of unknown length: perhaps truncated"
            )
        if self._path.path == ALL and reply.status in SUCCESSES and is_only_error(body):
            shown = self._client.show(said_error(body))
            raise TransientError(f"{self._where}: the response is an error: {shown}")
        value = self._path.find(body, self._where, self._client.show)
        return Output(value, usage)

    def _status_error(self, reply: HttpReply, raw: bytes, body: Any) -> LimpetError:
        error = super()._status_error(reply, raw, body)
        if reply.status in _BEGUN_OR_PART:
            hint = f"if this is the answer, use statuses=[200, {reply.status}]"
            return PermanentError(str(error), hint=hint)
        return error

    def _not_json(self, reply: HttpReply, raw: bytes, why: str) -> LimpetError:
        if reply.status in _EMPTY:
            return PermanentError(f"{self._where}: status {reply.status} has no body, so no answer")
        if not raw.strip():
            return TransientError(f"{self._where}: the response is empty")
        shown = self._shown(raw)
        if "json" in reply.content_type:
            return TransientError(f"{self._where}: the response is {why}: {shown}")
        kind = self._client.show(reply.content_type or "untyped")
        return PermanentError(f"{self._where}: the response is {kind}, not JSON: {shown}")
