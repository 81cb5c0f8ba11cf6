"""Connections that are used again, and those that lead through a proxy's tunnel."""

import asyncio
import base64
import os
import threading

import pytest
from cut_short import ended
from e2e.servers import answering, on_a_thread, reset, server_tls, site

import limpet
from limpet.executors import Backoff
from limpet.workflows import http, nat

ITEMS = [limpet.Item(str(n), f"Repeat {n}") for n in range(3)]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def answer(value):
    body = b'{"value":"%s"}' % value
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


async def request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    return head, await reader.readexactly(int(length or 0))


class Lines:
    """A server whose script has each connection for itself, from its beginning to its end.

    Attributes:
        url: Where it is.
        port: The same, in part.
    """

    def __init__(self, script):
        self._script = script
        self._writers = set()

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        try:
            await self._script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()


def lines(script):
    return on_a_thread(Lines(script))


# ---- connections that are used again ------------------------------------------------------------


class Chatty:
    """Answers each request in turn; between two of them it does on the line what it is told to."""

    def __init__(self, between):
        self.connections = 0
        self._done = threading.Event()
        self._between = between

    async def __call__(self, reader, writer):
        await request(reader)
        self.connections += 1
        first = self.connections == 1
        if first:  # before the answer, for with it the test goes on
            self._go, self._loop = asyncio.Event(), asyncio.get_running_loop()
        writer.write(answer(b"line %d" % self.connections))
        await writer.drain()
        if first:
            await self._go.wait()
            await self._between(writer)
            self._done.set()
        await request(reader)
        writer.write(answer(b"line again"))

    def speak(self):
        self._loop.call_soon_threadsafe(self._go.set)
        assert self._done.wait(100)


async def saying(writer, *raw):
    for one in raw:
        writer.write(one)
        await writer.drain()


async def two_calls(url, chatty, *, noticed):
    workflow = nat(url)
    await workflow.open()
    try:
        first = await workflow.call(ITEMS[0])
        chatty.speak()
        for _ in range(10 if noticed else 0):  # what has come is read by the event loop
            await asyncio.sleep(0)
        second = await workflow.call(ITEMS[1])
    finally:
        await workflow.close()
    return first.value, second.value


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize(
    "unasked",
    [answer(b"nobody asked"), answer(b"nobody asked")[:20], b"\r\n", b"bye"],
    ids=["a whole answer", "half a head", "an empty line", "a word"],
)
def test_what_is_said_unasked_on_an_idle_connection_is_nobodys_answer(unasked, noticed):
    chatty = Chatty(lambda writer: saying(writer, unasked))
    with lines(chatty) as server:
        values = asyncio.run(two_calls(server.url, chatty, noticed=noticed))
    assert values == ("line 1", "line 2")


def test_a_connection_on_which_nothing_was_said_is_used_again():
    chatty = Chatty(saying)
    with lines(chatty) as server:
        values = asyncio.run(two_calls(server.url, chatty, noticed=True))
    assert values == ("line 1", "line again")


@pytest.mark.parametrize("noticed", [True, False])
def test_a_connection_that_was_closed_while_idle_costs_no_attempt(noticed):
    async def hang_up(writer):
        writer.close()
        await writer.wait_closed()

    chatty = Chatty(hang_up)
    with lines(chatty) as server:
        values = asyncio.run(two_calls(server.url, chatty, noticed=noticed))
    assert values == ("line 1", "line 2")


class Attempts(limpet.types.Watcher):
    count = 0

    def started(self, cell, attempt):
        self.count += 1


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_a_call_that_meets_a_closing_connection_is_one_failed_attempt_and_no_outage(how):
    asked = []

    async def script(reader, writer):
        while True:
            asked.append(await request(reader))
            if len(asked) == 2:  # it was used before, and now not a byte of an answer comes
                if how == "reset":
                    reset(writer)
                return
            writer.write(answer(b"x"))

    attempts = Attempts()
    with lines(script) as server:
        workflow = nat(server.url)
        pacer = limpet.pacing.Pacer(workflow.endpoint)
        result = limpet.evaluate(
            [{"id": str(n), "question": f"Repeat {n}"} for n in range(6)],
            workflow,
            watcher=attempts,
            pace=limpet.Pace(concurrency="auto", max_concurrency=1, pacer=pacer),
            retry=limpet.Retry(backoff=Backoff(0, 0)),
            save=False,
        )
    assert result.summary["workflow"]["completed"] == 6
    kinds = [one.attempts for one in result.items]
    assert sorted(kinds) == [1, 1, 1, 1, 1, 2]
    assert len(asked) == attempts.count == 7


# ---- through a tunnel ---------------------------------------------------------------------------


class Tunnel:
    """A proxy that knows only CONNECT.

    Attributes:
        heads: What it was asked.
    """

    def __init__(self, refusal=None):
        self.heads = []
        self._refusal = refusal

    async def __call__(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if self._refusal is not None:
            writer.write(self._refusal)
            await writer.drain()
            return
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        there, onward = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(pumped(reader, onward), pumped(there, writer))
        finally:
            onward.close()


async def pumped(reader, writer):
    while piece := await reader.read(2**16):
        writer.write(piece)
        await writer.drain()
    writer.close()


def ask(workflow, count=1, **more):
    rows = [{"id": f"q{n}", "question": f"Repeat {n}"} for n in range(count)]
    options = {"pace": 1, "retry": limpet.Retry(2, Backoff(0, 0)), "save": False}
    return ended(limpet.evaluate, rows, workflow, **(options | more))


def through(monkeypatch, proxy):
    monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("://", "://me:hunter%32@"))


def test_a_tunnel_is_opened_with_the_proxys_credentials_and_the_server_sees_none(
    certificate, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    tunnel = Tunnel()
    with (
        lines(tunnel) as proxy,
        site(answering({"value": "x"}), server_tls(*certificate)) as server,
    ):
        through(monkeypatch, proxy)
        result = ask(nat(server.url, headers={"X-Api-Key": "k-1234"}), count=5)
        port = server.url.rpartition(":")[2]
        heard = [headers for _, _, headers, _ in server.seen]
    assert [one.output.value for one in result.items] == ["x"] * 5
    # Not the one that looked whether somebody is there; and one tunnel served all calls.
    (head,) = [one for one in tunnel.heads if one]
    credentials = base64.b64encode(b"me:hunter2")
    assert head.startswith(f"CONNECT localhost:{port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic " + credentials in head
    assert b"k-1234" not in head
    assert len(heard) == 5
    assert all("Proxy-Authorization" not in one for one in heard)
    assert all(one["X-Api-Key"] == "k-1234" for one in heard)


REFUSED = b"HTTP/1.1 407 No hunter2 for you\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def test_a_proxy_that_wants_other_credentials_stops_the_run_and_they_are_not_shown(monkeypatch):
    tunnel = Tunnel(REFUSED)
    with lines(tunnel) as proxy:
        through(monkeypatch, proxy)
        result = ask(nat("https://agent.invalid"), count=100)
    assert len(tunnel.heads) == 1
    assert isinstance(result.stop_reason, limpet.errors.SetupError)
    said = str(result.stop_reason)
    assert said == (
        "POST https://agent.invalid:443/generate/full: its proxy: status 407: No [redacted] for you"
    )
    assert "HTTPS_PROXY" in result.stop_reason.hint


@pytest.mark.parametrize(
    ("status", "kind", "attempts"),
    [(b"403 Forbidden", "permanent", 1), (b"502 Bad Gateway", "transient", 3)],
)
def test_a_tunnel_that_is_refused_otherwise_is_said_with_its_kind(
    monkeypatch, status, kind, attempts
):
    tunnel = Tunnel(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
    with lines(tunnel) as proxy:
        through(monkeypatch, proxy)
        (item,) = ask(nat("https://agent.invalid")).items
    assert item.error["class"] == kind
    assert f"its proxy: status {status.decode()[:3]}" in item.error["message"]
    assert len(tunnel.heads) == attempts


def test_a_certificate_behind_a_tunnel_that_is_not_trusted_is_said(certificate, monkeypatch):
    with (
        lines(Tunnel()) as proxy,
        site(answering({"value": "x"}), server_tls(*certificate)) as server,
    ):
        through(monkeypatch, proxy)
        (item,) = ask(http(server.url)).items
        assert server.seen == []
    assert "its certificate is not trusted: self-signed certificate" in item.error["message"]
