"""How does the `limpet` process begin and end?"""

import contextlib
import gc
import io
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from limpet.cli.commands import cli
from limpet.cli.error_exit import report_error

_THREADS_S = 2.0
"""How long the process waits for threads that user code left running."""


def main() -> NoReturn:
    """Run the `limpet` command."""
    # By default Python collects garbage after 700 new objects: a tenth of a start, and a quarter of
    # a run with a thousand calls in flight. This process is ours, so we may collect less often.
    gc.set_threshold(10_000, 10, 10)
    _ready_streams()
    try:
        code: Any = cli(standalone_mode=False, prog_name="limpet")
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - `report_error` knows each kind
        code = report_error(error)
    _exit(code if isinstance(code, int) else 0)


def _ready_streams() -> None:
    """Make sure that stdout and stderr can be written to."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed with `>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot print × shows its code: better than a traceback.
            stream.reconfigure(errors="backslashreplace")


def _exit(code: int) -> NoReturn:
    """End the process, even if user code left threads running."""
    with contextlib.suppress(OSError, ValueError):  # the reader is gone
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    deadline = time.monotonic() + _THREADS_S
    for thread in [thread for thread in threading.enumerate() if not thread.daemon]:
        if thread is not threading.main_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                os._exit(code)
    sys.exit(code)
