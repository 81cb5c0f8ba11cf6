"""`limpet view` shows runs in the browser, `limpet report` writes one into a file."""

import asyncio
import signal
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.report.markdown import run_markdown, write_file
from limpet.report.terminal import busy, say
from limpet.run.comparing.comparable import CompareOptions
from limpet.run.comparing.compare import compare_runs
from limpet.run.reading.find_run import choose_run, is_run
from limpet.run.reading.reader import open_run
from limpet.text import one_line
from limpet.view.html_report import write_report
from limpet.view.server import serving


def command(
    directory: Path,
    *,
    port: int | None,
    open_browser: bool,
    allow_hosts: Sequence[str],
    person: str,
    read_only: bool,
) -> int:
    """Serve the pages until Ctrl-C."""
    if not directory.exists():
        raise LimpetError(
            f"{one_line(str(directory))}: no such directory",
            hint="name the directory that holds the runs, or a run: limpet view DIR",
        )
    view = f"#/run?run={quote(directory.resolve().name)}" if is_run(directory) else ""
    options: dict[str, Any] = {"port": port or 0, "allow_hosts": allow_hosts}
    options |= {"person": person.strip(), "read_only": read_only}
    asyncio.run(_serve(directory, view, options, open_browser=open_browser))
    return DONE


# ---- `limpet view`: look at runs in the browser, while they run and after. ----------------------


async def _serve(
    directory: Path, view: str, options: dict[str, Any], *, open_browser: bool
) -> None:
    ended = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, ended.set)
    async with serving(directory, **options) as server:
        print(server.address + view, flush=True)  # noqa: T201 - the one line of output
        can = (
            "read the runs"
            if options["read_only"]
            else "read the runs, label answers and give orders"
        )
        say(f"Press Ctrl-C to stop. Anyone with this address can {can}.")
        if open_browser:
            await asyncio.to_thread(webbrowser.open, server.address + view)
        await ended.wait()


# ---- `limpet report`: a run in one file, for people without the run or Limpet. ------------------

_DEFAULT = Path("report.html")


def report(
    run: str | None,
    *,
    against: str | None,
    output: Path | None,
    markdown: Path | None,
    max_size: int,
) -> int:
    """Write the report of a run."""
    run_path = choose_run(run)
    base = None if against is None else choose_run(against)
    if output is not None or markdown is None:
        output = output or _DEFAULT
        with busy(f"writing {one_line(str(output))}"):
            made = write_report(run_path, output, base, max_size)
        say(f"wrote {made}")
    if markdown is not None:
        with busy(f"writing {one_line(str(markdown))}"), open_run(str(run_path)) as reader:
            compared = None if base is None else compare_runs([base, run_path], CompareOptions())
            text = run_markdown(reader, compared)
        write_file(markdown, text)
    return DONE
