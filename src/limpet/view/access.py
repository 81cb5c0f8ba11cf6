"""Who may read the pages, and what does a page get when a request fails?"""

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Container, Iterable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from limpet.errors import LimpetError
from limpet.text import one_line, text_of
from limpet.view.label_answers import AnswerChangedError
from limpet.view.viewed_runs import NoSuchRunError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# ---- Who may read the pages? --------------------------------------------------------------------
#
# Other users of this machine can reach its loopback, and any web page in the same browser may send
# requests to it. So each request needs the token of the printed address, and must name this server
# in `Host` and, if it has one, in `Origin`. A request that writes must have an `Origin`.

_COOKIE = "limpet_token"
_READS = ("GET", "HEAD")
_OTHERS = ("cross-site", "same-site")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class AccessCheck:
    """Admits requests with the token, and adds security headers.

    Args:
        hosts: The values of `Host` that mean this server, with the port.
        page: The page, which tells people without a token where it is.
        writes: The only paths that accept writes.

    Attributes:
        token: The token of the printed address.
    """

    def __init__(self, hosts: Iterable[str], page: bytes, writes: Container[str] = ()) -> None:
        self.token = secrets.token_urlsafe(24)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._page = page
        self._writes = writes

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, or refuse it with the reason."""
        response: web.StreamResponse | None = self._refusal(request) or self._welcome(request)
        if response is None:
            response = await handler(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _refusal(self, request: web.Request) -> web.Response | None:
        host = request.headers.get("Host", "").lower()
        origin = request.headers.get("Origin")
        if host not in self._hosts:
            hint = "for a forwarded port, start it with --allow-host HOST:PORT"
            return _refused(403, f"this server is not called {host}", hint)
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return _refused(403, "requests from pages of other sites are refused")
        is_write = request.method == "POST" and request.path in self._writes
        if request.method not in _READS and not is_write:
            return _refused(405, "only GET and HEAD", headers={"Allow": "GET, HEAD"})
        if is_write and (fault := _fault_of_write(request)):
            return fault
        is_link = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.path == "/"
        if request.headers.get("Sec-Fetch-Site") in _OTHERS and not is_link:
            return _refused(403, "requests from pages of other sites are refused")
        if not self._has_token(request):
            if request.path == "/" and "token" not in request.query:
                # After a link on another site, a browser sends the cookie only when the page asks.
                return web.Response(body=self._page, status=401, content_type="text/html")
            hint = "open the address that limpet view printed: it has a token"
            return _refused(401, "the token is missing or wrong", hint)
        return None

    def _has_token(self, request: web.Request) -> bool:
        given = request.query.get("token") if request.path == "/" else None
        given = request.cookies.get(self._cookie(request), "") if given is None else given
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def _welcome(self, request: web.Request) -> web.Response | None:
        """Move the token from the address, which ends up in histories, to a cookie."""
        if request.path != "/" or "token" not in request.query:
            return None
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(
            self._cookie(request), self.token, httponly=True, samesite="Strict", path="/"
        )
        return response

    def _cookie(self, request: web.Request) -> str:
        """Return the cookie's name: cookies are shared by all ports of a host."""
        port = request.headers.get("Host", "").rpartition(":")[2]
        return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


def _fault_of_write(request: web.Request) -> web.Response | None:
    """Return why a request must not write: a page of ours sends its origin."""
    if "Origin" not in request.headers:
        return _refused(403, "only a page of this server may write")
    if request.content_type != "application/json" or "Content-Type" not in request.headers:
        return _refused(415, "must be application/json")
    return None


def _refused(
    status: int, error: str, hint: str = "", headers: dict[str, str] | None = None
) -> web.Response:
    data = {"error": error, **({"hint": hint} if hint else {})}
    return web.json_response(data, status=status, headers=headers)


# ---- What does a page get when a request fails? -------------------------------------------------
#
# A sentence, as JSON, whatever happened. A defect of ours is also logged with its traceback: only
# once, because the page asks every second.

logger = logging.getLogger("limpet.view")
_STATUSES: dict[type[Exception], int] = {NoSuchRunError: 404, AnswerChangedError: 409}
_HINT = "this is a bug in Limpet: please report what limpet view printed"


def failed(error: Exception, status: int = 400) -> web.Response:
    """Return the error and its hint, if it has one."""
    hint = error.hint if isinstance(error, LimpetError) else None
    data = {"error": text_of(error), "hint": hint}
    return web.json_response(data, status=_STATUSES.get(type(error), status))


class Faults:
    """Turns unexpected exceptions into answers, and logs each kind once."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    @web.middleware
    async def caught(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, or report the exception."""
        try:
            return await handler(request)
        except web.HTTPException as answer:
            return web.json_response({"error": answer.reason}, status=answer.status)
        except Exception as error:  # noqa: BLE001 - the page must be told, whatever it is
            self._log(request.path, error)
            what = f"{type(error).__name__}: {one_line(text_of(error))}"
            return web.json_response({"error": what, "hint": _HINT}, status=500)

    def _log(self, path: str, error: Exception) -> None:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = "" if at is None else f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
        kind = f"{type(error).__name__} {where}"
        if kind not in self._logged:
            self._logged.add(kind)
            logger.error("%s: the request failed", path, exc_info=error)


def server_log() -> logging.Logger:
    """Return the log of the HTTP server, without requests that are not HTTP."""
    log = logging.getLogger("limpet.view.http")
    if _is_ours not in log.filters:
        log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)
