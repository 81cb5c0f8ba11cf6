"""`limpet import`: reuse existing answers."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from limpet.cli.error_exit import DONE, FAILED
from limpet.cli.made_by import MadeBy
from limpet.integrations.importing import import_rows, rows_of_file
from limpet.report.terminal import say


def command(
    file: Path,
    *,
    into: Path,
    trials: int | None,
    settings: tuple[str, ...],
    env_file: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Import the answers of a file into a run."""
    config = MadeBy(into, given, trials, settings, None, env_file).read()
    rows = list(rows_of_file(file))  # before its directory is moved
    make_room = partial(config.make_room, _say)
    done = import_rows(rows, file.name, config.prepare(), before=make_room)
    if as_json:
        counts = {"imported": done.imported, "existing": done.existing}
        click.echo(json.dumps({"file": str(file), **counts, "skipped": dict(done.skipped)}))
    else:
        _say(str(done))
    return DONE if done.imported or done.existing else FAILED


def _say(line: str) -> None:
    say(line, wrap=False)
