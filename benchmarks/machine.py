"""What was this measured on?"""

import os
import platform
from importlib.metadata import version
from pathlib import Path


def describe(*packages: str) -> str:
    """Return one line: cores, system, Python and the versions of the packages."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def peak_bytes() -> int:
    """Return the peak of this process's memory, since /proc/self/clear_refs was last told `5`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def verdict(reached: bool) -> str:  # noqa: FBT001 - a verdict is one
    """Say whether a figure was reached."""
    return "yes" if reached else "NO"


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    for line in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(line) + " |")
