"""Which calls had started when a session was cut off?"""

from pathlib import Path

import orjson


def unfinished(events: Path, start: int) -> dict[str, str]:
    """Return the keys and ids of attempts that started and did not fail, from `start` on.

    Those that are not in their column either were in flight at the end: they may have been paid
    for. A line that cannot be read is left out: the story is not the truth.
    """
    begun: dict[str, str] = {}
    try:
        file = events.open("rb")
    except FileNotFoundError:
        return begun
    with file:
        file.seek(start)
        for line in file:
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            match event:
                case {"event": "started", "key": str(key), "id": str(id_)}:
                    begun[key] = id_
                case {"event": "failed", "key": str(key)}:
                    begun.pop(key, None)
    return begun
