"""Who removes Ray's folder when the driver was killed?

A small process that holds the other end of a pipe, as with the workers of a driver that is killed.
The gateway cannot: it is killed as well. Ray's own processes end a moment later, and write logs
until then, so it tries again while the folder is there.
"""

import asyncio
import subprocess
import sys
import tempfile

_PROGRAM = """
import os, shutil, sys, time
sys.stdin.read()
for _ in range(600):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.1)
"""


class TempFolder:
    """A folder that is gone when it is closed, or when this process is.

    Attributes:
        path: Where it is.
    """

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="limpet-ray-")
        self._remover = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-c", _PROGRAM, self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # no signal from the terminal reaches it
        )

    async def close(self) -> None:
        assert self._remover.stdin is not None
        self._remover.stdin.close()
        await asyncio.to_thread(self._remover.wait)
