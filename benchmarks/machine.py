"""What was this measured on?"""

import os
import platform
from importlib.metadata import version


def describe(*packages: str) -> str:
    """Return one line: cores, system, Python and the versions of the packages."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    for line in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(line) + " |")
