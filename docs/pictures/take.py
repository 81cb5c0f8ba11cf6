"""Take the picture of the README: the demo's command, in a real terminal, half-way through.

Run it from the project's directory: `.venv/bin/python docs/pictures/take.py`.
"""

import asyncio
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

from e2e.terminal import Terminal
from provider import Provider
from rich.console import Console
from rich.text import Text

COLUMNS, LINES = 112, 9
COLOURS = {"brown": "yellow", "default": ""}


def text_of(screen: Any) -> Text:
    """Return what is on the screen, with its colours."""
    whole = Text()
    for line in range(LINES):
        for column in range(COLUMNS):
            cell = screen.buffer[line][column]
            colour = COLOURS.get(cell.fg, cell.fg)
            colour = f"#{colour}" if re.fullmatch(r"[0-9a-f]{6}", colour) else colour
            style = " ".join([*(["bold"] if cell.bold else []), colour]).strip()
            whole.append(cell.data, style or None)
        whole.append("\n")
    return whole


async def main() -> None:
    """Run the demo until it is half-way, and write the picture."""
    provider = Provider(half=120)
    runner, url = await provider.start()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples" / "demo", folder, dirs_exist_ok=True)
        terminal = Terminal(
            ["bash", "-c", 'echo "$ limpet run eval.yml"; exec limpet run eval.yml'],
            cwd=folder,
            columns=COLUMNS,
            lines=LINES,
            env={
                "PROVIDER_URL": url,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
        )
        await asyncio.to_thread(terminal.wait_for, r"1[2-4]\d/240.*in flight")
        console = Console(
            record=True,
            width=COLUMNS,
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
        )
        console.print(text_of(terminal.screen), end="")
        terminal.close()
        svg = console.export_svg(title="limpet run eval.yml")
        svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # nothing from elsewhere
    await runner.cleanup()
    (Path(__file__).parent / "run.svg").write_text(svg, encoding="utf-8")


asyncio.run(main())
