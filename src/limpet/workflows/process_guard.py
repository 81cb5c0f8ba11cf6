"""Who ends the processes of a Limpet that was killed itself?

A process that is killed with SIGKILL cannot clean up, and its children live on: they would work,
and spend, for a run that is resumed elsewhere. So a small process of its own holds the list of
running groups and the other end of a pipe. When the pipe closes, it kills them and exits.

Still open. A process that was started a moment before Limpet was killed may not be on the list yet.
"""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress

_PROGRAM = """
import os, signal, sys
groups = set()
for line in sys.stdin.buffer:
    (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class ProcessGuard:
    """A process that kills the listed groups when this one dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # no signal from the terminal reaches it
        )

    def started(self, group: int) -> None:
        self._send(f"+{group}\n")

    def ended(self, group: int) -> None:
        self._send(f"-{group}\n")

    def _send(self, line: str) -> None:
        # Fewer bytes than PIPE_BUF are written whole. If somebody killed the guard, the groups are
        # still killed by us.
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                os.write(self._process.stdin.fileno(), line.encode())

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            await asyncio.to_thread(process.wait)
