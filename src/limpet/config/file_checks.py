"""Which files does the configuration speak of, and are they there?

A relative path starts at the folder of the configuration, wherever the command is run.
"""

from pathlib import Path
from typing import Any

from limpet.config.environment import Substituted, written_as
from limpet.config.findings import Findings
from limpet.config.problems import nearest
from limpet.datasets.sources import SUFFIXES
from limpet.text import one_line


def located(text: str, folder: Path) -> Path:
    """Return a path of the file as an absolute one."""
    path = Path(str(text))
    try:
        path = path.expanduser()
    except RuntimeError:  # a name that begins with ~ and is nobody's home
        path = Path(str(text))
    return Path(folder, path)


def check_dataset(asked: Any, folder: Path, findings: Findings) -> None:
    """Say if the dataset's file is not there, or is none that can be read."""
    text = asked.get("path") if isinstance(asked, dict) else None
    if not isinstance(text, str) or not text.strip():
        return  # none, or not a path: said elsewhere
    at = ("dataset", "path")
    path, shown = located(text, folder), one_line(written_as(text))
    suffix = path.suffix.lower()
    if not path.exists():
        findings.add(at, f"{shown} does not exist", _hint_of_missing(text, path))
    elif path.is_dir():
        findings.add(at, f"{shown} is a directory", "name one of the files in it")
    elif suffix not in SUFFIXES:
        findings.add(
            at,
            f"{shown} is of a kind that is not read; there are {', '.join(SUFFIXES)}",
            "rename the file if it is one of these, or let a function return the rows: python:",
        )
    elif asked.get("sheet") is not None and suffix != ".xlsx":
        findings.add(("dataset", "sheet"), "only an .xlsx file has sheets")


def _hint_of_missing(text: str, path: Path) -> str:
    try:
        names = [one.name for one in path.parent.iterdir()]
    except (OSError, ValueError):
        return "paths are relative to this file, and there is no such folder either"
    if near := nearest(path.name, names):
        folder = "" if isinstance(text, Substituted) else text.rpartition("/")[0]
        return f"did you mean {one_line(f'{folder}/{near}' if folder else near)}?"
    if ":" in text and not isinstance(text, Substituted):
        return f"for a function that returns the rows: dataset: {{python: '{one_line(text)}'}}"
    return "paths are relative to this file"


def check_run(asked: Any, folder: Path, findings: Findings) -> None:
    """Say if the run's directory cannot be one."""
    text = asked.get("path") if isinstance(asked, dict) else None
    if isinstance(text, str) and located(text, folder).is_file():
        findings.add(("run", "path"), f"{one_line(written_as(text))} is a file, not a directory")
