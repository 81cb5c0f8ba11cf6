"""What was this measured on?"""

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

# A benchmark starts from nothing, and knows of no other.
os.environ["LIMPET_REMEMBER_PACE"] = os.environ["LIMPET_SHARE_PACE"] = "0"


def describe(*packages: str) -> str:
    """Return one line: cores, system, Python, the versions of the packages, and the yardstick."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, {versions}; yardstick {yardstick_ms():.1f} ms"
    )


def yardstick_ms() -> float:
    """Return the CPU milliseconds of a fixed piece of pure Python, the least of nine.

    It does what our own code does most: calls, dicts, strings, small objects. A figure in
    milliseconds divided by it compares machines, and busy hours with quiet ones.
    """
    return min(_worked_s() for _ in range(9)) * 1000


def _worked_s() -> float:
    start = time.process_time()
    seen: dict[str, tuple[int, str]] = {}
    for number in range(20_000):
        key = f"q{number % 997}"
        count, text = seen.get(key, (0, ""))
        seen[key] = _stepped(count, text, number)
    assert len(seen) == 997
    return time.process_time() - start


def _stepped(count: int, text: str, number: int) -> tuple[int, str]:
    return count + 1, text if number % 2 else str(number)


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
