"""A process that writes records and reports on stdout what became of each. Run by the attacks.

Its one argument is a JSON object:
    path, durability, patience_s: as of the journal
    sizes: a record takes size `sizes[number % len(sizes)]`
    first: the number of the first record
    count: how many records; absent: no end, until one is refused
    at_once: how many appends wait at the same time
    most_file_bytes: a limit on the size of a file (RLIMIT_FSIZE)
    short_writes: whether the system takes only some bytes of each write
    linger: whether to wait for the end of stdin before the journal is closed
Each report is one line of JSON: {"ack": number}, {"refused": number, "type", "text", "hint"},
{"trouble": text, "hint"}, {"ready": true}, {"closed": true}.
"""

import asyncio
import itertools
import json
import os
import resource
import sys
from pathlib import Path

from limpet.journal import Journal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from crash.laboratory import STEP, outcome_of


def report(**facts):
    os.write(1, json.dumps(facts).encode() + b"\n")


def on_trouble(trouble):
    if trouble is None:
        report(trouble=None)
    else:
        report(trouble=str(trouble), type=type(trouble).__name__, hint=trouble.hint)


async def write(column, config):
    first, sizes = config.get("first", 0), config.get("sizes", [100])
    count = config.get("count")
    numbers = itertools.count(first) if count is None else iter(range(first, first + count))

    async def work():
        for number in numbers:
            try:
                await column.append(outcome_of(number, sizes[number % len(sizes)]))
            except Exception as error:
                facts = {"type": type(error).__name__, "text": str(error)}
                report(refused=number, hint=getattr(error, "hint", None), **facts)
                if count is None:
                    return
            else:
                report(ack=number)

    await asyncio.gather(*[work() for _ in range(config.get("at_once", 1))])


def take_few_bytes():
    really = os.writev

    def writev(fd, parts):
        first = next(part for part in parts if len(part))
        return really(fd, [memoryview(first)[: max(1, len(first) // 3)]])

    os.writev = writev


def main(config):
    if config.get("short_writes"):
        take_few_bytes()
    options = {name: config[name] for name in ("durability", "patience_s") if name in config}
    with Journal(config["path"], **options) as journal:
        journal.listeners.append(on_trouble)
        column = journal.column(STEP)
        report(ready=True)
        if "most_file_bytes" in config:
            limit = config["most_file_bytes"]
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        asyncio.run(write(column, config))
        if config.get("linger"):
            sys.stdin.read()
    report(closed=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
