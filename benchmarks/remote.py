"""What does a call to an agent behind HTTP cost on our side?

A server of its own process, which answers each request after 200 ms; 10,000 items, 1,000 of them in
flight, journal on and synced. How long it must take is asked of the server first, by a client that
does nothing but send bytes and count answers. With 1,000 in flight the server allows some 4,400
calls a second, more than aiohttp makes on one core; so the same is asked with 100 in flight, where
the server decides and not the core.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from machine import describe, peak_bytes, print_table, verdict
from yarl import URL

import limpet
from limpet.workflows import http, nat

MEBI = 2**20
COUNT, IN_FLIGHT, WAIT_S = 10_000, 1_000, 0.2
FEW, FEW_IN_FLIGHT = 2_000, 100
STREAM = (
    b'intermediate_data: {"id":"u","parent_id":"root","type":"LLM_END","name":"m","payload":'
    b'"{\\"event_type\\":\\"LLM_END\\",\\"event_timestamp\\":2.5,\\"name\\":\\"m\\",\\"UUID\\":'
    b'\\"u\\",\\"usage_info\\":{\\"token_usage\\":{\\"prompt_tokens\\":30}}}"}\n\n'
    b'data: {"value":"forty-two"}\n\n'
)


# ---- the server ---------------------------------------------------------------------------------


async def answer_plain(request: web.Request) -> web.Response:
    await request.read()
    await asyncio.sleep(WAIT_S)
    return web.Response(body=b'{"answer":"forty-two"}', content_type="application/json")


async def answer_stream(request: web.Request) -> web.Response:
    await request.read()
    await asyncio.sleep(WAIT_S)
    return web.Response(body=STREAM, content_type="text/event-stream")


async def serve() -> None:
    app = web.Application()
    app.router.add_post("/plain", answer_plain)
    app.router.add_post("/generate/full", answer_stream)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2 * IN_FLIGHT).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@contextmanager
def server() -> Iterator[int]:
    """Start one, and yield its port."""
    command = [sys.executable, __file__, "serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


# ---- what the server allows ---------------------------------------------------------------------


class Hammer(asyncio.Protocol):
    """Sends the same request again and again, and counts the answers."""

    left = 0
    running = 0
    done: asyncio.Future[None]

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        Hammer.running += 1
        self.send()

    def send(self) -> None:
        if Hammer.left:
            Hammer.left -= 1
            self.transport.write(self.request)
            return
        self.transport.close()
        Hammer.running -= 1
        if not Hammer.running and not Hammer.done.done():
            Hammer.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.seen += data
        head, gap, body = self.seen.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or b"0")
        if gap and len(body) >= length:
            self.seen = b""
            self.send()


async def hammer(port: int, path: str, count: int, in_flight: int) -> float:
    """Return the seconds that the server takes for all requests."""
    body = b'{"input":"What is the 4711th number?"}'
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    Hammer.left, Hammer.running, Hammer.done = count, 0, loop.create_future()
    start = time.perf_counter()
    for _ in range(in_flight):
        await loop.create_connection(lambda: Hammer(head + body), "127.0.0.1", port)
    await Hammer.done
    return time.perf_counter() - start


async def bare(port: int, path: str) -> tuple[float, float]:
    """Return the seconds and CPU seconds of a client that is aiohttp and nothing else."""
    url, left = URL(f"http://127.0.0.1:{port}{path}"), iter(range(COUNT))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask() -> None:
            for n in left:
                body = b'{"input":"What is the %dth number?"}' % n
                async with session.post(url, data=body) as response:
                    await response.read()

        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(ask() for _ in range(IN_FLIGHT)))
        return time.perf_counter() - start, time.process_time() - cpu


# ---- our side -----------------------------------------------------------------------------------


def measure(
    kind: str, port: int, folder: Path, count: int, in_flight: int
) -> tuple[float, float, int]:
    """Run once; return the seconds, the CPU seconds and the peak of memory."""
    url = f"http://127.0.0.1:{port}"
    workflow = nat(url) if kind == "nat" else http(f"{url}/plain", answer="$.answer")
    rows = [{"id": f"q{n}", "question": f"What is the {n}th number?"} for n in range(count)]
    start, cpu = time.perf_counter(), time.process_time()
    result = limpet.evaluate(rows, workflow, run=folder, pace=in_flight)
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    assert result.summary["workflow"]["completed"] == count, result.summary
    return seconds, used, peak_bytes()


def in_a_process(
    kind: str, port: int, folder: Path, count: int = COUNT, in_flight: int = IN_FLIGHT
) -> tuple[float, float, int]:
    numbers = [str(count), str(in_flight)]
    command = [sys.executable, __file__, kind, str(port), str(folder), *numbers]
    out = subprocess.check_output(command, env={**os.environ}, text=True)  # noqa: S603 - ourselves
    seconds, used, memory = out.split()
    return float(seconds), float(used), int(memory)


def main() -> None:
    table = []
    with server() as port, tempfile.TemporaryDirectory(dir=".") as folder:
        for kind, path in (("http", "/plain"), ("nat", "/generate/full")):
            in_a_process(kind, port, Path(folder) / f"{kind}-warm", 100)
            allowed = asyncio.run(hammer(port, path, COUNT, IN_FLIGHT))
            seconds, used, memory = in_a_process(kind, port, Path(folder) / kind)
            each = used / COUNT * 1000
            table += [
                [f"{kind}: CPU per item", f"{each:.3f} ms", "≤ 0.6 ms", verdict(each <= 0.6)],
                [f"{kind}: {COUNT:,} items", f"{seconds:.2f} s", f"≤ 1.1 × {allowed:.2f} s",
                 verdict(seconds <= 1.1 * allowed)],
                [f"{kind}: peak of memory", f"{memory / MEBI:.0f} MB", "≤ 150 MB",
                 verdict(memory <= 150 * MEBI)],
            ]  # fmt: skip
            allowed = asyncio.run(hammer(port, path, FEW, FEW_IN_FLIGHT))
            few = in_a_process(kind, port, Path(folder) / f"{kind}-few", FEW, FEW_IN_FLIGHT)
            row = f"{kind}: {FEW:,} items, {FEW_IN_FLIGHT} in flight"
            table.append(
                [
                    row,
                    f"{few[0]:.2f} s",
                    f"≤ 1.1 × {allowed:.2f} s",
                    verdict(few[0] <= 1.1 * allowed),
                ]
            )
        seconds, used = asyncio.run(bare(port, "/plain"))
        each = used / COUNT * 1000
        table.append(["aiohttp alone: CPU per item", f"{each:.3f} ms", "", ""])
        table.append([f"aiohttp alone: {COUNT:,} items", f"{seconds:.2f} s", "", ""])
    print(describe("limpet", "aiohttp"))
    print()
    print_table(["measure", "measured", "must reach", "reached"], table)
    if any(row[-1] == "NO" for row in table):
        raise SystemExit("a figure was missed")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    elif len(sys.argv) > 1:
        kind, port, folder, *numbers = sys.argv[1:]
        print(*measure(kind, int(port), Path(folder), *map(int, numbers)))
    else:
        main()
