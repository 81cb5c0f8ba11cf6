"""`limpet export`: write the results as a table."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.integrations.kinds import KINDS, Kind
from limpet.journal.files import replace_file
from limpet.report.export import (
    ExportRows,
    VariantRows,
    as_csv,
    as_jsonl,
    as_markdown,
    write_parquet,
)
from limpet.report.terminal import busy, say
from limpet.report.words import escaped
from limpet.run.reading import RunReader, open_run
from limpet.run.reading.find_run import choose_run, is_matrix, variants_in
from limpet.run.results.table import MOST_LETTERS, write_xlsx
from limpet.text import count, harmless, one_line

_LINES = {"csv": as_csv, "jsonl": as_jsonl, "md": as_markdown}
_FORMS = ("csv", "jsonl", "parquet", "xlsx", "md")
_KINDS = {kind.FORM: kind for kind in KINDS}


def command(
    run: str | None,
    *,
    form: str | None,
    output: Path | None,
    by_item: bool,
    force: bool,
) -> int:
    """Export the results of a run, or of all runs of a matrix."""
    form = form or _form_of(output)
    if output is None and form not in _LINES:
        what = "a directory" if form in _KINDS else "a file"
        raise click.UsageError(f"--to {form} needs --output, {what}")
    if kind := _KINDS.get(form):
        if by_item:
            raise click.UsageError(f"--by-item cannot be combined with --to {form}")
        assert output is not None
        with open_run(run) as reader:
            _check_directory(kind, reader, output, force=force)
            _write(output, lambda: kind.export(reader, output))
    elif run is not None and is_matrix(directory := choose_run(run)):
        variants = variants_in(directory)
        _export(lambda: VariantRows(variants, by_item=by_item), form, output, force=force)
    else:
        with open_run(run) as reader:
            _export(lambda: ExportRows(reader, by_item=by_item), form, output, force=force)
    return DONE


def _form_of(output: Path | None) -> str:
    """Return the format for a file's name."""
    form = "" if output is None else output.suffix[1:].lower()
    if form not in _FORMS:
        raise click.UsageError(f"--to is missing: give one of {', '.join((*_FORMS, *_KINDS))}")
    return form


def _export(
    make_rows: Callable[[], ExportRows], form: str, output: Path | None, *, force: bool
) -> None:
    if output is None:
        to_terminal = sys.stdout.isatty()
        for line in _LINES[form](make_rows()):
            sys.stdout.buffer.write(_for_terminal(form, line) if to_terminal else line)
        return
    if output.is_dir():
        raise LimpetError(f"{one_line(str(output))}: is a directory", hint="name a file")
    _check_existing(output, [output.name] if output.exists() else [], force=force)
    _write(output, lambda: _write_table(make_rows(), form, output))


def _write(output: Path, write: Callable[[], None]) -> None:
    shown = one_line(str(output))
    try:
        with busy(f"writing {shown}"):
            write()
    except OSError as error:
        raise LimpetError(f"{shown}: cannot write: {error.strerror}") from error
    say(f"wrote {shown}")


def _for_terminal(form: str, encoded: bytes) -> bytes:
    """Return a line without control characters, which a model may have written."""
    line = encoded.decode("utf-8", "replace")
    if form == "jsonl":  # escaping keeps it the same JSON
        return f"{escaped(line[:-1])}\n".encode()
    return harmless(line).encode()


def _check_directory(kind: Kind, reader: RunReader, output: Path, *, force: bool) -> None:
    """Raise before writing if files would be lost or the target is unusable."""
    shown = one_line(str(output))
    if output.exists() and not output.is_dir():
        raise LimpetError(f"{shown}: is a file", hint=f"--to {kind.FORM} writes a directory")
    if output.resolve() == reader.layout.home:
        raise LimpetError(f"{shown}: is the run itself", hint="name another directory")
    existing = [name for name in kind.exported(reader) if (output / name).exists()]
    _check_existing(output, existing, force=force)


def _check_existing(output: Path, existing: Sequence[str], *, force: bool) -> None:
    if existing and not force:
        raise LimpetError(
            f"{one_line(str(output))}: {one_line(existing[0])} already exists",
            hint="overwrite it with --force",
        )


def _write_table(rows: ExportRows, form: str, output: Path) -> None:
    if form == "parquet":
        write_parquet(rows, output)
    elif form == "xlsx":
        if shortened := write_xlsx(rows.names, rows, output):
            cells = count(shortened, "cell")
            say(f"{cells} shortened to {MOST_LETTERS:,} characters: Excel holds no more")
    else:
        replace_file(output, _LINES[form](rows))
