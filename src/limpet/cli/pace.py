"""`limpet pace` lists what runs learned about endpoints, or forgets it."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.pacing.limits import number
from limpet.pacing.memory import OFF, PaceMemory, of_the_user
from limpet.report.tables import cell, plain_table, put, put_json
from limpet.report.terminal import say
from limpet.report.words import duration
from limpet.text import count, one_line, quoted


def command(words: Sequence[str], *, as_json: bool) -> int:
    """List the endpoints and what was learned of each, or forget some."""
    forget = words[:1] == ("forget",)
    url, *more = words[forget:] or ("",)
    if more:
        raise LimpetError(f"one URL, not {len(more) + 1}", hint="limpet pace [forget] [URL]")
    memory = of_the_user()
    if memory is None:
        why = f"{OFF} is 0" if os.environ.get(OFF) == "0" else "there is no home directory"
        raise LimpetError(f"the pace is not remembered: {why}")
    if forget:
        return _forget(memory, url)
    if memory.is_damaged:
        say(f"{one_line(str(memory.path))} is damaged: the next run replaces it")
    entries = [entry for entry in memory.entries().values() if entry["endpoint"].startswith(url)]
    entries.sort(key=lambda entry: -entry["at"])
    if as_json:
        for entry in entries:
            put_json(entry)
    elif entries:
        table = plain_table("endpoint", "learned", "age")
        for entry in entries:
            age = duration(time.time() - entry["at"])
            table.add_row(*map(cell, (one_line(entry["endpoint"]), _words(entry["learned"]), age)))
        put(table)
    elif not memory.is_damaged:
        say(f"no run with `pace: auto` learned anything{_where(url)} in the last day")
    return DONE


def _forget(memory: PaceMemory, url: str) -> int:
    try:
        forgotten = memory.forget(url)
    except OSError as error:
        raise LimpetError(f"{one_line(str(memory.path))}: {error.strerror}") from error
    words = f"forgot {count(forgotten, 'endpoint')}"
    say(words if forgotten else f"nothing to forget{_where(url)}")
    return DONE


def _where(url: str) -> str:
    return f" of an address that begins with {quoted(url)}" if url else ""


_WORDS = {"rate": "{:,.3g}/s", "in_flight": "{:,.0f} in flight", "per_minute": "{:,.0f} a minute"}


def _words(learned: Mapping[str, Any]) -> str:
    found = {name: number(learned.get(name)) for name in _WORDS}
    known = [_WORDS[name].format(top) for name, top in found.items() if top is not None]
    if known or learned.get("by_headers") is True:
        return ", ".join(known) or "its headers name the limit"
    many = f"{number(learned.get('window')) or 0.0:,.0f} in flight"
    return f"{many} pay off" if learned.get("found") is True else f"no limit up to {many}"
