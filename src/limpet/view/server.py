"""The server of the live page: routes, and one thread per request that reads.

The pages ask once a second; an unchanged answer is not computed again.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import orjson
from aiohttp import web
from multidict import MultiMapping

from limpet.errors import JournalError, LimpetError
from limpet.executors.threads import Threads
from limpet.json_values import is_deep_text
from limpet.run.control import control
from limpet.view.access import AccessCheck, Faults, failed, server_log
from limpet.view.compare_answers import Compared, matrices_answer
from limpet.view.field_answers import by_answer
from limpet.view.images import Image
from limpet.view.item_answers import image_answer, item_answer, items_answer, near_answer
from limpet.view.label_answers import (
    MOST_BYTES,
    checked_fields,
    keep_label,
)
from limpet.view.run_answers import RunsList, first_answer, mark_of, now_if_running, run_answer
from limpet.view.setup_answers import setup_answer
from limpet.view.viewed_runs import Labeller, NoSuchRunError, ViewedRun, ViewedRuns

PAGES = Path(__file__).parent / "pages"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_HOST = "127.0.0.1"
_LABEL, _ORDER, _UNAVAILABLE = "/api/label", "/api/order", 503
Query = MultiMapping[str]
Answer = Callable[[ViewedRun, Query], dict[str, Any] | None]


class Started(NamedTuple):
    """A running server: its port, and the address to open, with the token."""

    port: int
    address: str


@asynccontextmanager
async def serving(
    directory: Path,
    *,
    port: int = 0,
    allow_hosts: Iterable[str] = (),
    read_only: bool = False,
    person: str = "",
) -> AsyncIterator[Started]:
    """Serve the runs below a directory on this machine's loopback, until the block ends.

    Args:
        directory: The directory, or a run.
        port: The port; 0: any that is free.
        allow_hosts: Other values of `Host` that mean this server, for a forwarded port.
        read_only: Save no labels, and hide no scores.
        person: Who labels; empty: unnamed.

    Raises:
        LimpetError: The port is in use, or not permitted.
    """
    listening = _listen(port)
    port = listening.getsockname()[1]
    hosts = [f"{_HOST}:{port}", f"localhost:{port}", *allow_hosts]
    server = PageServer(directory, Labeller(person, read_only))
    access = AccessCheck(hosts, server.files["/"][0], () if read_only else (_LABEL, _ORDER))
    runner = web.AppRunner(
        server.app(access), access_log=None, handle_signals=False, logger=server_log()
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield Started(port, f"http://{_HOST}:{port}/?token={access.token}")
    finally:
        await runner.cleanup()
        server.runs.close()


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
    except OSError as error:
        listening.close()
        raise LimpetError(
            f"port {port}: {error.strerror or error}", hint="use another: limpet view --port 0"
        ) from error
    return listening


class PageServer:
    """Answers requests for pages and for their data.

    Args:
        directory: The runs are below it.
        labeller: Who labels.

    Attributes:
        runs: The runs.
        files: The files of the pages and their types, by path.
    """

    def __init__(self, directory: Path, labeller: Labeller) -> None:
        self.runs = ViewedRuns(directory, labeller)
        self._list = RunsList(self.runs)
        self._list_lock = asyncio.Lock()
        self._compare_lock = asyncio.Lock()
        self._orders = Threads()
        self._compared: tuple[object, Compared] | None = None
        self.files = {
            f"/{path.relative_to(PAGES).as_posix()}": (path.read_bytes(), _TYPES[path.suffix])
            for path in PAGES.rglob("*")
            if path.suffix in _TYPES
        }
        self.files["/"] = self.files.pop("/index.html")

    def app(self, access: AccessCheck) -> web.Application:
        """Return the routes."""
        middlewares = [access.check, Faults().caught]
        app = web.Application(middlewares=middlewares, client_max_size=MOST_BYTES)
        app.router.add_get("/api/runs", self._runs)
        app.router.add_get("/api/run", self._run)
        app.router.add_get("/api/by", self._of_run(by_answer))
        app.router.add_get("/api/setup", self._of_run(setup_answer))
        app.router.add_get("/api/items", self._of_run(items_answer))
        app.router.add_get("/api/near", self._of_run(near_answer))
        app.router.add_get("/api/item", self._of_run(item_answer))
        app.router.add_get("/api/image", self._image)
        app.router.add_get("/api/compare", self._compare)
        app.router.add_get("/api/changes", self._changes)
        app.router.add_get("/api/matrices", self._matrices)
        app.router.add_post(_LABEL, self._label)
        app.router.add_post(_ORDER, self._order)
        for path in self.files:
            app.router.add_get(path, self._file)
        return app

    async def _file(self, request: web.Request) -> web.Response:
        content, kind = self.files[request.path]
        return web.Response(body=content, content_type=kind, charset="utf-8")

    async def _runs(self, request: web.Request) -> web.Response:
        async with self._list_lock:  # two pages with the list share one answer
            return await self._answered(request, self._list.answer)

    async def _run(self, request: web.Request) -> web.Response:
        """Answer about a run; with `soon`, only what is known at once of a large one."""
        address = request.query.get("run", "")

        def work() -> dict[str, Any] | None:
            is_read = self.runs.is_read(address)
            return None if is_read else first_answer(self.runs.path(address), address)

        if "soon" in request.query:
            try:
                first = await asyncio.to_thread(work)
            except (LimpetError, OSError, ValueError) as error:
                return failed(error)
            if first is not None:
                return _response("", encoded(first))
        return await self._tagged(request, _about_run)

    def _of_run(self, answer: Answer) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.Response:
            return await self._tagged(request, answer)

        return handle

    async def _matrices(self, request: web.Request) -> web.Response:
        return await self._answered(request, lambda: matrices_answer(self.runs))

    async def _image(self, request: web.Request) -> web.Response:
        def work() -> Image:
            with self.runs.use(request.query.get("run", "")) as opened:
                return image_answer(opened, request.query)

        try:
            image = await asyncio.to_thread(work)
        except (LimpetError, OSError, ValueError) as error:
            return failed(error, 404)
        return web.Response(body=image.content, content_type=image.kind)

    async def _compare(self, request: web.Request) -> web.Response:
        return await self._of_compared(request, lambda found: found.data)

    async def _changes(self, request: web.Request) -> web.Response:
        def answer(found: Compared) -> dict[str, Any]:
            if found.changes is None:
                raise LimpetError("the changes of one run are listed: name one as new")
            return found.changes.answer(request.query)

        return await self._of_compared(request, answer)

    async def _of_compared(
        self, request: web.Request, answer: Callable[[Compared], dict[str, Any]]
    ) -> web.Response:
        base, new = request.query.get("base", ""), request.query.getall("new", [""])
        by = request.query.get("by") or None

        def mark() -> list[object]:
            return [base, new, by, *(mark_of(self.runs.path(address)) for address in (base, *new))]

        def work() -> dict[str, Any]:
            now = mark()
            if self._compared is None or self._compared[0] != now:
                self._compared = None  # the memory of the one before
                self._compared = (now, Compared(self.runs, base, new, by))
            return answer(self._compared[1])

        async with self._compare_lock:  # it is slow, and several pages may request the same
            return await self._answered(request, work, lambda: [*mark(), request.query_string])

    async def _label(self, request: web.Request) -> web.Response:
        """Save a label: the only request that writes to the files of a run."""
        body = await request.read()

        def work() -> dict[str, Any]:
            given = checked_fields(_json(body))
            with self.runs.use(given["run"]) as opened:
                return keep_label(opened, given)

        try:
            return web.json_response(await asyncio.to_thread(work))
        except JournalError as error:
            return failed(error, _UNAVAILABLE)
        except (LimpetError, OSError, ValueError) as error:
            return failed(error)

    async def _order(self, request: web.Request) -> web.Response:
        """Give an order to a run, and answer when it is done."""
        body = await request.read()

        def work(_: object) -> str:
            given = _json(body)
            words = given.get("order") if isinstance(given, dict) else None
            if not isinstance(words, list):
                raise LimpetError("an order is a JSON object with a run and the words of the order")
            return control(self.runs.path(str(given.get("run")))).order(*words)

        try:
            # In a thread of its own: a run may take an hour to stop.
            return web.json_response({"done": await self._orders.run(work, None)})
        except (LimpetError, OSError, ValueError) as error:
            return failed(error)

    # ---- answering requests ---------------------------------------------------------------------

    async def _tagged(self, request: web.Request, answer: Answer) -> web.Response:
        """Answer a request about one run, unless the page already has the answer."""
        address, query, given = request.query.get("run", ""), request.query, _given(request)

        def work() -> web.Response:
            with self.runs.use(address) as opened:
                opened.run_table.refresh()
                labels = (opened.run_table.labelling.mark, opened.why_no_labels())
                now = now_if_running(opened)
                tag = _tag(opened.reader.mark(), labels, now, request.query_string)
                if tag == given:
                    return _response(tag, None)
                try:
                    found = answer(opened, query)
                except JournalError:
                    raise
                except LimpetError as error:
                    return failed(error)  # the query is wrong: the run stays open
                if found is None:
                    return failed(NoSuchRunError("no such item in this run"))
                if found.get("left_to_search") or found.get("is_stale"):
                    tag = ""  # the next answer will differ
                return _response(tag, encoded(found))

        try:
            return await asyncio.to_thread(work)
        except Exception as error:
            self.runs.forget(address)  # it may have been replaced or damaged: reopen it
            if isinstance(error, (LimpetError, OSError, ValueError)):
                return failed(error)
            raise

    async def _answered(
        self,
        request: web.Request,
        answer: Callable[[], dict[str, Any]],
        mark: Callable[[], object] | None = None,
    ) -> web.Response:
        given = _given(request)

        def work() -> tuple[str, bytes | None]:
            tag = "" if mark is None else _tag(mark())
            if tag and tag == given:
                return tag, None
            found = answer()
            body = encoded(found)
            if found.get("left_to_search"):
                return "", body  # the next answer will differ
            tag = tag or f'"{crc32(body):x}"'
            return tag, None if tag == given else body

        try:
            return _response(*await asyncio.to_thread(work))
        except (LimpetError, OSError, ValueError) as error:
            return failed(error)


def _about_run(opened: ViewedRun, query: Query) -> dict[str, Any]:
    return run_answer(opened, query.get("run", ""), can_label=True)


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        try:
            if not is_deep_text(body):
                return json.loads(body, parse_constant=_no_number)  # perhaps half a character
        except ValueError:
            pass
        raise LimpetError(f"the request is no JSON object: {error}") from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _given(request: web.Request) -> str:
    return request.headers.get("If-None-Match", "")


def _tag(*of: object) -> str:
    return f'"{crc32(repr(of).encode("utf-8", "replace")):x}"'


def encoded(data: Any) -> bytes:
    """Return data as JSON."""
    try:
        return orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # a number that is too large for it, or a lone surrogate
        return json.dumps(data, default=str).encode()


def _response(tag: str, body: bytes | None) -> web.Response:
    headers = {"ETag": tag} if tag else {}
    if body is None:
        return web.Response(status=304, headers=headers)
    response = web.Response(body=body, content_type="application/json", headers=headers)
    response.enable_compression()
    return response
