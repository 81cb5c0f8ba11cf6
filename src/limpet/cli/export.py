"""`limpet export`: the results, as a table for others."""

import sys
from pathlib import Path
from typing import Literal

import click
from rich.text import Text

from limpet.cli.endings import DONE
from limpet.errors import LimpetError
from limpet.journal.files import replace_file
from limpet.report.busy import busy
from limpet.report.export import as_csv, as_jsonl, write_parquet
from limpet.report.jsonl import escaped
from limpet.report.nat import names_of, write_nat
from limpet.report.terminal import talk
from limpet.run.reading import RunReader, open_run
from limpet.run.reading.find_run import complete_run
from limpet.text import harmless, one_line

_FORMATS = ("csv", "jsonl", "parquet", "nat")
_LINES = {"csv": as_csv, "jsonl": as_jsonl}


@click.command("export")
@click.argument("run", required=False, shell_complete=lambda _c, _p, text: complete_run(text))
@click.option("--to", "form", type=click.Choice(_FORMATS), required=True, help="Which format.")
@click.option("--output", type=click.Path(path_type=Path), metavar="PATH",
              help="A file, or for nat a directory. Without it: stdout.")  # fmt: skip
@click.option("--force", is_flag=True, help="Write over what is there.")
def command(
    run: str | None,
    *,
    form: Literal["csv", "jsonl", "parquet", "nat"],
    output: Path | None,
    force: bool,
) -> int:
    """Write the results of RUN as a table: a row for each item in each trial.

    Without RUN: the run in this directory, or else the latest in ./runs.
    """
    with open_run(run) as reader:
        if output is None:
            if form not in _LINES:
                what = "a directory" if form == "nat" else "a file"
                raise click.UsageError(f"--to {form} needs --output, {what}")
            to_terminal = sys.stdout.isatty()
            for line in _LINES[form](reader):
                sys.stdout.buffer.write(_for_terminal(form, line) if to_terminal else line)
            return DONE
        _check(reader, form, output, force=force)
        try:
            with busy(f"writing {one_line(str(output))}"):
                _write(reader, form, output)
        except OSError as error:
            raise LimpetError(
                f"{one_line(str(output))}: cannot be written: {error.strerror}"
            ) from error
        talk().print(Text(f"wrote {one_line(str(output))}"))
    return DONE


def _for_terminal(form: str, encoded: bytes) -> bytes:
    """Return a line with nothing that a terminal would obey: a model said it."""
    line = encoded.decode("utf-8", "replace")
    if form == "jsonl":  # it stays JSON, and means the same
        return f"{escaped(line[:-1])}\n".encode()
    return harmless(line).encode()


def _check(reader: RunReader, form: str, output: Path, *, force: bool) -> None:
    """Refuse what would be lost or cannot work, before anything is written."""
    shown = one_line(str(output))
    if form == "nat":
        if output.exists() and not output.is_dir():
            raise LimpetError(f"{shown}: this is a file", hint="--to nat writes a directory")
        if output.resolve() == reader.layout.home:
            raise LimpetError(f"{shown}: this is the run itself", hint="name another directory")
        there = [name for name in names_of(reader) if (output / name).exists()]
    else:
        if output.is_dir():
            raise LimpetError(f"{shown}: this is a directory", hint="name a file")
        there = [output.name] if output.exists() else []
    if there and not force:
        raise LimpetError(
            f"{shown}: {one_line(there[0])} is there already", hint="write over it with --force"
        )


def _write(reader: RunReader, form: str, output: Path) -> None:
    if form == "nat":
        write_nat(reader, output)
    elif form == "parquet":
        write_parquet(reader, output)
    else:
        replace_file(output, _LINES[form](reader))
