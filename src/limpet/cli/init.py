"""`limpet init`: create a small working example."""

import shlex
from importlib.resources import files
from pathlib import Path

import click

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
            hint="choose an empty directory: limpet init first",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in _EXAMPLE:
            text = (files("limpet.cli") / "first" / name).read_text(encoding="utf-8")
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise LimpetError(f"{one_line(str(directory))}: {error.strerror}") from error
    for name in _EXAMPLE:
        click.echo(str(directory / name))
    go = "" if directory == Path() else f"cd {shlex.quote(str(directory))} && "
    click.echo(f"next: {go}limpet run eval.yml", err=True)
    return DONE
