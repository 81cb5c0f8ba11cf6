"""Real servers on loopback, each on a thread of its own: agents, and peers that speak badly."""

import asyncio
import atexit
import json
import socket
import ssl
import struct
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

from aiohttp import web

OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
STREAM = OK + b"Content-Type: text/event-stream\r\n"
CHUNKED = STREAM + b"Transfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


@contextmanager
def on_a_thread(opening):
    """Run an async context manager on a loop of its own; yield what it yields."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    try:
        yield wait(opening.__aenter__())
    finally:
        try:
            wait(opening.__aexit__(None, None, None))
            wait(_tidied())
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


@contextmanager
def served_by(answer):
    """Answer every request with `answer(request)`; yield the address."""

    @asynccontextmanager
    async def serving():
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        try:
            yield "http://{}:{}".format(*runner.addresses[0][:2])
        finally:
            await accepted()
            await runner.cleanup()

    with on_a_thread(serving()) as url:
        yield url


async def accepted():
    """Wait for connections on their way: asyncio leaks one that it accepts while a server stops."""
    for _ in range(5):
        await asyncio.sleep(0)


async def _tidied():
    """Leave nothing behind: no task that waits, no line that is about to be closed."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for _ in range(3):
        await asyncio.sleep(0)


# ---- servers that speak HTTP well ---------------------------------------------------------------


class Site:
    """An aiohttp server. Every request is noted before its handler runs.

    Attributes:
        url: Where it is.
        seen: Each request: its method, path with query, headers and body.
    """

    def __init__(self, handler, tls=None):
        self.seen = []
        self._handler = handler
        self._tls = tls

    async def _answer(self, request):
        body = await request.read()
        self.seen.append((request.method, request.path_qs, request.headers.copy(), body))
        return await self._handler(request)

    async def __aenter__(self):
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://localhost:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()


def site(handler, tls=None):
    return on_a_thread(Site(handler, tls))


def answering(value, status=200, **more):
    """Return a handler that always answers the same, as JSON."""

    async def answer(request):
        return web.json_response(value, status=status, **more)

    return answer


def streaming(*lines, end=b"\n\n"):
    """Return a handler that streams these lines, each as a chunk of its own."""

    async def answer(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for line in lines:
            await response.write(line + end)
        await response.write_eof()
        return response

    return answer


def data(value):
    return b"data: " + json.dumps({"value": value}).encode()


def step(kind, at=0.0, *, name="model", uuid="u1", usage=None, **more):
    """Return the line of a step."""
    payload = {"event_type": kind, "event_timestamp": at, "name": name, "UUID": uuid, **more}
    payload["usage_info"] = usage and {"token_usage": usage}
    sent = {"id": uuid, "parent_id": "root", "type": kind, "name": name}
    sent["payload"] = json.dumps(payload)
    return b"intermediate_data: " + json.dumps(sent).encode()


AGENT_ERROR = {"code": "workflow_error", "message": "no such tool", "details": "RuntimeError"}


# ---- servers that speak badly -------------------------------------------------------------------


class Asked(NamedTuple):
    head: bytes
    body: bytes


class Peer:
    """A server of bytes: `script(writer, asked)` says what is answered, then the line is closed.

    Attributes:
        url: Where it is.
        asked: Each request.
    """

    def __init__(self, script):
        self.asked = []
        self._script = script
        self._lines = set()

    async def _serve(self, reader, writer):
        self._lines.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            asked = Asked(head, await reader.readexactly(int(length or 0)))
            self.asked.append(asked)
            await self._script(writer, asked)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a connection without a request: somebody looked whether we are here
        finally:
            writer.close()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self._lines:
            writer.transport.abort()  # a line that is closed still waits for its last bytes
        await _tidied()
        await self._server.wait_closed()


def peer(script):
    return on_a_thread(Peer(script))


def sending(*pieces):
    """Return a script that sends these bytes and closes the line."""

    async def script(writer, asked):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return script


def chunk(raw):
    return f"{len(raw):x}\r\n".encode() + raw + b"\r\n"


def reset(writer):
    """Have the line torn down, instead of closed, when it is closed."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def silence(writer, asked):
    await asyncio.Event().wait()


def server_tls(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def unanswered_port():
    """Return a port at which nobody listens, and which nobody can take while the tests run."""
    held = socket.socket()
    atexit.register(held.close)
    held.bind(("127.0.0.1", 0))
    return held.getsockname()[1]
