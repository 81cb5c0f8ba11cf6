"""`limpet export`: write the results as a table."""

import sys
from pathlib import Path
from typing import Literal

import click

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.journal.files import replace_file
from limpet.report.export import Rows, as_csv, as_jsonl, as_markdown, nat_files, write_nat
from limpet.report.live_display import busy
from limpet.report.parquet import write_parquet
from limpet.report.spreadsheet import MOST_LETTERS, write_xlsx
from limpet.report.terminal import say
from limpet.report.words import escaped
from limpet.run.reading import RunReader, open_run
from limpet.text import count, harmless, one_line

_LINES = {"csv": as_csv, "jsonl": as_jsonl, "md": as_markdown}


def command(
    run: str | None,
    *,
    form: Literal["csv", "jsonl", "parquet", "xlsx", "md", "nat"],
    output: Path | None,
    by_item: bool,
    force: bool,
) -> int:
    """Export the results of a run."""
    if by_item and form == "nat":
        raise click.UsageError("--by-item cannot be combined with --to nat")
    with open_run(run) as reader:
        if output is None:
            if form not in _LINES:
                what = "a directory" if form == "nat" else "a file"
                raise click.UsageError(f"--to {form} needs --output, {what}")
            to_terminal = sys.stdout.isatty()
            for line in _LINES[form](Rows(reader, by_item=by_item)):
                sys.stdout.buffer.write(_for_terminal(form, line) if to_terminal else line)
            return DONE
        _check(reader, form, output, force=force)
        try:
            with busy(f"writing {one_line(str(output))}"):
                _write(reader, form, output, by_item=by_item)
        except OSError as error:
            raise LimpetError(f"{one_line(str(output))}: cannot write: {error.strerror}") from error
        say(f"wrote {one_line(str(output))}")
    return DONE


def _for_terminal(form: str, encoded: bytes) -> bytes:
    """Return a line without control characters: a model may have written it."""
    line = encoded.decode("utf-8", "replace")
    if form == "jsonl":  # escaping keeps it the same JSON
        return f"{escaped(line[:-1])}\n".encode()
    return harmless(line).encode()


def _check(reader: RunReader, form: str, output: Path, *, force: bool) -> None:
    """Raise before writing if files would be lost or the target cannot work."""
    shown = one_line(str(output))
    if form == "nat":
        if output.exists() and not output.is_dir():
            raise LimpetError(f"{shown}: is a file", hint="--to nat writes a directory")
        if output.resolve() == reader.layout.home:
            raise LimpetError(f"{shown}: is the run itself", hint="name another directory")
        existing = [name for name in nat_files(reader) if (output / name).exists()]
    else:
        if output.is_dir():
            raise LimpetError(f"{shown}: is a directory", hint="name a file")
        existing = [output.name] if output.exists() else []
    if existing and not force:
        raise LimpetError(
            f"{shown}: {one_line(existing[0])} already exists", hint="overwrite it with --force"
        )


def _write(reader: RunReader, form: str, output: Path, *, by_item: bool) -> None:
    if form == "nat":
        write_nat(reader, output)
        return
    rows = Rows(reader, by_item=by_item)
    if form == "parquet":
        write_parquet(rows, output)
    elif form == "xlsx":
        if cut := write_xlsx(rows, output):
            say(f"{count(cut, 'cell')} cut at {MOST_LETTERS:,} characters: Excel holds no more")
    else:
        replace_file(output, _LINES[form](rows))
