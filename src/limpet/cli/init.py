"""`limpet init`: create a small working example."""

import json
import re
import shlex
from importlib.resources import files
from itertools import count
from pathlib import Path

import click
import yaml

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.text import one_line

_EXAMPLE = ("eval.yml", "questions.jsonl", "app.py", "README.md")


def command(directory: Path) -> int:
    """Create a small working example."""
    existing = [name for name in _EXAMPLE if (directory / name).exists()]
    if existing:
        raise LimpetError(
            f"{one_line(str(directory / existing[0]))} already exists; nothing was written",
            hint=f"choose another directory: limpet init {shlex.quote(str(_free(directory)))}",
        )
    own = _name_for(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in _EXAMPLE:
            text = (files("limpet.cli") / "first" / name).read_text(encoding="utf-8")
            text = text.replace("name: first\n", f"name: {_in_yaml(own)}\n")
            text = text.replace("runs/first", shlex.quote(f"runs/{own}"))
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise LimpetError(f"{one_line(str(directory))}: {error.strerror}") from error
    for name in _EXAMPLE:
        click.echo(str(directory / name))
    go = "" if directory == Path() else f"cd {shlex.quote(str(directory))} && "
    click.echo(f"next: {go}limpet run eval.yml", err=True)
    return DONE


def _free(directory: Path) -> Path:
    """Return a directory like this one that does not exist: `first-2`."""
    stem = directory if directory.name else Path("first")
    if not stem.exists():
        return stem
    names = (stem.with_name(f"{stem.name}-{number}") for number in count(2))
    return next(path for path in names if not path.exists())


def _in_yaml(name: str) -> str:
    return name if yaml.safe_load(name) == name else json.dumps(name, ensure_ascii=False)


def _name_for(directory: Path) -> str:
    """Return the directory's name, if it can name an evaluation."""
    name = directory.resolve().name
    return name if re.fullmatch(r"\w[\w.-]*", name) else "first"
