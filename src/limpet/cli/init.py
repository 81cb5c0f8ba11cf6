"""`limpet init` creates a small working example, `limpet schema` prints the schema of eval.yml."""

import json
import re
import shlex
from collections.abc import Sequence
from importlib.resources import files
from itertools import count
from pathlib import Path

import click
import yaml

from limpet.cli.error_exit import DONE
from limpet.config import json_schema
from limpet.errors import LimpetError
from limpet.text import one_line

# ---- `limpet init`: create a small working example. ---------------------------------------------

_FIRST = ("eval.yml", "questions.jsonl", "app.py", "README.md")
_FIRST_JUDGE = (
    "eval.yml",
    "questions.jsonl",
    "prompts/answer.txt",
    "prompts/polite.txt",
    "server.py",
    "README.md",
)


def command(directory: Path, *, judge: bool) -> int:
    """Create a small working example."""
    source, example = ("first_judge", _FIRST_JUDGE) if judge else ("first", _FIRST)
    existing = [name for name in example if (directory / name).exists()]
    if existing:
        free = f"{'--judge ' if judge else ''}{shlex.quote(str(_free(directory)))}"
        raise LimpetError(
            f"{one_line(str(directory / existing[0]))} already exists; nothing was written",
            hint=f"choose another directory: limpet init {free}",
        )
    _write(source, example, directory)
    for name in example:
        click.echo(str(directory / name))
    click.echo(_next_steps(directory, judge=judge), err=True)
    return DONE


def _write(source: str, example: Sequence[str], directory: Path) -> None:
    own = _name_for(directory)
    try:
        for name in example:
            text = (files("limpet.cli") / source / name).read_text(encoding="utf-8")
            text = text.replace("name: first\n", f"name: {_in_yaml(own)}\n")
            text = text.replace("runs/first", shlex.quote(f"runs/{own}"))
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise LimpetError(f"{one_line(str(directory))}: {error.strerror}") from error


def _next_steps(directory: Path, *, judge: bool) -> str:
    go = "" if directory == Path() else f"cd {shlex.quote(str(directory))}"
    if not judge:
        return f"next: {f'{go} && ' if go else ''}limpet run eval.yml"
    start = "python server.py &    # two small models on this machine"
    return "next: " + "\n      ".join(filter(None, (go, start, "limpet run eval.yml")))


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


def schema() -> int:
    """Print the JSON schema of eval.yml."""
    click.echo(json.dumps(json_schema(), indent=2))
    return DONE
