"""What does a page get if it cannot get an answer?

A sentence, as JSON, whatever happened. A defect of ours goes to the log, too, with its traceback:
once, as the page asks again each second.
"""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from limpet.errors import LimpetError
from limpet.text import one_line, text_of
from limpet.view.label_answers import AnswerChangedError
from limpet.view.opened_runs import NoSuchRunError

logger = logging.getLogger("limpet.view")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_STATUSES: dict[type[Exception], int] = {NoSuchRunError: 404, AnswerChangedError: 409}
_HINT = "this is a bug in Limpet: please report what limpet view printed"


def failed(error: Exception, status: int = 400) -> web.Response:
    """Return what went wrong, and what to do, if that is known."""
    hint = error.hint if isinstance(error, LimpetError) else None
    data = {"error": text_of(error), "hint": hint}
    return web.json_response(data, status=_STATUSES.get(type(error), status))


class Faults:
    """Turns exceptions that nobody expected into answers, and logs each kind once."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    @web.middleware
    async def caught(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, or say what happened."""
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
            logger.error("%s: the answer failed", path, exc_info=error)


def server_log() -> logging.Logger:
    """Return the log of the HTTP server, without requests that are not HTTP: anybody sends them."""
    log = logging.getLogger("limpet.view.http")
    if _is_ours not in log.filters:
        log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)
