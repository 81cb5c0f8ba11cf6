"""What the attacks share: records that can be made again from their number, and real processes."""

import asyncio
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from e2e import ready_limpet

from limpet.fingerprints.keys import digest
from limpet.journal import Cell, CellStatus, ColumnReader, Journal, Outcome, verify

STEP = "workflow"
WRITING_PROCESS = Path(__file__).with_name("writing_process.py")


def key_of(number):
    return digest("attack", number)


def record_of(number, size=100):
    """A record of about `size` bytes that differs from every other all along its length."""
    seed = digest(number)
    return {"number": number, "text": (seed * (size // len(seed) + 1))[:size]}


def outcome_of(number, size=100):
    return Outcome(Cell(STEP, f"q{number}", 0, key_of(number)), record=record_of(number, size))


def some_outcomes():
    """A dozen, of each kind there is: marked, wrapped, retried, with odd text, forced again."""
    odd = ["\x85", "\u2028", "\x00", "é🙂", '"status":"x"', "\\n\n\r"]
    records = [
        {"answer": "plain"},
        {"answer": math.nan, "most": math.inf, "half": "\ud800", "looks": "~float:nan"},
        ["wrapped", 1],
        {"wide": 2**200, "least": -(2**70)},
        {"_crc": "its own", "_limpet": {"key": "its own"}},
        None,
        {"odd": odd},
        {"marked": True},
        {},
        {"deep": [[[{"a": [1.5, -0.0, True, None]}]]]},
    ]
    outcomes = [
        Outcome(Cell(STEP, f"q{number}", 0, key_of(number)), record=record)
        for number, record in enumerate(records)
    ]
    outcomes[7] = outcomes[7]._replace(status=CellStatus.COMPLETED_WITH_RETRIES, attempts=3)
    again = outcomes[0]._replace(record={"answer": "forced"}, generation=1)
    return [*outcomes, again, outcome_of(11, 30)]


def same(one, other):
    """Equal, with NaN equal to NaN, and types told apart."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def column_at(home):
    return home / f"{STEP}_output.jsonl"


def index_at(home):
    return home / "index" / f"{STEP}_output.idx"


async def append_all(column, outcomes):
    return await asyncio.gather(*[column.append(outcome) for outcome in outcomes])


def write(home, *groups, **options):
    """Write groups of outcomes, each group awaited before the next is begun."""

    async def go(column):
        for group in groups:
            await append_all(column, group)

    with Journal(home, **options) as journal:
        column = journal.column(STEP)
        asyncio.run(go(column))


def read_all(home, keys, **options):
    """Open for writing, as a resume would, and return what is there by key."""
    with Journal(home, **options) as journal:
        return dict(journal.column(STEP).read_many(keys))


def snapshot(home):
    """Return every name below a directory with its bytes and its time of change."""
    return {
        str(path.relative_to(home)): (
            path.read_bytes() if path.is_file() else None,
            path.stat().st_mtime_ns,
        )
        for path in sorted(home.rglob("*"))
    }


def put_back(home, column, index=None):
    """Make a journal of nothing but these bytes."""
    for name in ("torn", "index"):
        shutil.rmtree(home / name, ignore_errors=True)
    home.mkdir(exist_ok=True)
    column_at(home).write_bytes(column)
    if index is not None:
        index_at(home).parent.mkdir()
        index_at(home).write_bytes(index)


def lines_of(raw):
    return raw.splitlines(keepends=True) if b"\r" not in raw else _split(raw)


def _split(raw):
    pieces = raw.split(b"\n")
    return [piece + b"\n" for piece in pieces[:-1]] + [piece for piece in pieces[-1:] if piece]


# ---- processes -----------------------------------------------------------------------------------


def start(config, *, before=(), **options):
    """Start a process that writes as `config` says; see `writing_process.py`."""
    command = [*before, sys.executable, str(WRITING_PROCESS), json.dumps(config, default=str)]
    return ready_limpet.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **options
    )


def reports_of(process):
    """Yield what the process reports, to the end of its pipe; a torn last line is no report."""
    for line in process.stdout:
        if line.endswith("\n"):
            yield json.loads(line)


def run(config, *, before=(), **options):
    """Let a process write, and return its reports and how it ended."""
    with start(config, before=before, **options) as process:
        process.stdin.close()
        reports = list(reports_of(process))
    return reports, process.returncode


def acknowledged_in(reports):
    return [report["ack"] for report in reports if "ack" in report]


def kill(process):
    os.kill(process.pid, signal.SIGKILL)


def assert_all_there(home, acknowledged, size_of):
    """Each acknowledged record is in the column with its value, by index and without."""
    column = column_at(home)
    for index in (index_at(home), None):
        reader = ColumnReader(column, index)
        missing = [number for number in acknowledged if key_of(number) not in reader]
        assert not missing, f"acknowledged, and not there: {missing[:20]}"
        numbers = {key_of(number): number for number in acknowledged}
        count = 0
        for key, entry in reader.read_many(numbers):
            number = numbers[key]
            assert entry.record == record_of(number, size_of(number)), number
            count += 1
        assert count == len(numbers)


def reopen(home, **options):
    """Open for writing, append one more record, and see that all of it is sound afterwards."""
    write(home, [outcome_of("one more")], **options)
    report = verify(home)
    assert report.is_sound, str(report)
    assert key_of("one more") in ColumnReader(column_at(home))
