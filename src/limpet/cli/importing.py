"""`limpet import`: reuse existing answers."""

import functools
import json
from pathlib import Path
from typing import Any

import click

from limpet.cli.error_exit import DONE, FAILED
from limpet.cli.made_by import MadeBy
from limpet.config import Config
from limpet.integrations.nat import NatConfig
from limpet.integrations.nat.earlier_results import EarlierResults
from limpet.integrations.nat.importing import ImportReport, Target, import_rows
from limpet.integrations.nat.rows import rows_of_file
from limpet.report.terminal import say
from limpet.run.record_fields import RecordNames


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
    if isinstance(config, NatConfig):
        done = _into_nat(file, config)
    else:
        done = import_rows(list(rows_of_file(file)), file.name, _target(config))
    if as_json:
        counts = {"imported": done.imported, "existing": done.existing}
        click.echo(json.dumps({"file": str(file), **counts, "skipped": dict(done.skipped)}))
    else:
        _say(str(done))
    return DONE if done.imported or done.existing else FAILED


def _into_nat(file: Path, config: NatConfig) -> ImportReport:
    config.prepare()
    rows = list(rows_of_file(file))  # before its directory is moved
    make_room = functools.partial(EarlierResults(config).set_foreign_aside, _say, imported=True)
    return import_rows(rows, file.name, config.target(), before=make_room)


def _say(line: str) -> None:
    say(line, wrap=False)


def _target(config: Config) -> Target:
    ready = config.prepare()
    dataset = ready.dataset.load()
    return Target(
        config.run,
        dataset.items,
        config.trials,
        ready.workflow,
        dataset.roles.input,
        RecordNames(dataset.roles.id or "id"),
        prices=ready.options.get("prices"),
    )
