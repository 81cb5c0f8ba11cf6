"""How much of the events of a session that runs was read already?

Most events of a long session are of calls that have ended. So a session of a large run notes in
`index/events`, with its totals, which calls were in flight and what else its events say: a checksum
of all that follows, and a line of JSON. A reader believes it if the events that it is of have the
checksum that it names, and reads those that follow. The file may be deleted: readers then read all
events.
"""

import json
from collections import Counter
from contextlib import suppress

from limpet.errors import JournalError
from limpet.journal.event_log import EventLog, Started
from limpet.journal.files import make_directory, read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import checksum, crc32
from limpet.json_values import dumps

_FORM = 1


def write_events(layout: Layout, log: EventLog) -> None:
    """Note what the events say. The file need not survive a power cut.

    Args:
        layout: The run's layout.
        log: The events that were read, with the starts of calls.

    Raises:
        OSError: They cannot be written.
    """
    about = {
        "form": _FORM,
        "start": log.start,
        "end": log.end,
        "crc": log.crc,
        "begun": list(log.begun.values()),
        "retries": log.retries,
        "pace": log.pace,
        "stopping": log.is_stopping,
    }
    line = dumps(about).encode()
    make_directory(layout.events_note.parent)
    replace_file(layout.events_note, [b"%08x\n" % crc32(line), line], sync=False)


def read_events(layout: Layout, start: int) -> EventLog:
    """Return the events of a session, as far as they were noted; `refresh` reads the rest.

    Args:
        layout: The run's layout.
        start: Where the session begins in the events.
    """
    with suppress(OSError, ValueError, LookupError, TypeError, JournalError):
        known, _, line = read_whole(layout.events_note).partition(b"\n")
        about = json.loads(line)
        is_of = (about["form"], about["start"]) == (_FORM, start) and known == b"%08x" % crc32(line)
        end = int(about["end"])
        is_there = is_of and layout.events.stat().st_size >= end
        if is_there and checksum(layout.events, end, (start, 0)) == about["crc"]:
            log = EventLog(layout.events, start)
            calls = [Started(*call) for call in about["begun"]]
            log.begun = {(call.step, call.key): call for call in calls}
            log.retries, log.pace = Counter(about["retries"]), dict(about["pace"])
            log.is_stopping, log.end, log.crc = bool(about["stopping"]), end, about["crc"]
            return log
    return EventLog(layout.events, start)
