"""`limpet import`: reuse existing answers."""

import functools
import json
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from limpet.cli.endings import DONE, FAILED
from limpet.cli.nat_flags import (
    SPELLINGS,
    endpoint_flags,
    endpoint_of,
    identity_flags,
    refuse_flags,
)
from limpet.config import Config, is_nat_file, load_config
from limpet.integrations.nat import Flags, load_nat_config
from limpet.integrations.nat.importing import ImportReport, Target, import_rows
from limpet.integrations.nat.rows import rows_of_file
from limpet.report.terminal import talk
from limpet.text import harmless


@click.command("import", context_settings=SPELLINGS)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), default=Path("eval.yml"),
              show_default=True, metavar="CONFIG", help="Whose run receives them.")  # fmt: skip
@endpoint_flags
@identity_flags
@click.option("--trials", "--reps", "trials", type=click.IntRange(min=1),
              help="How many times to run each item.")  # fmt: skip
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE",
              help="Override a value of the file; may be repeated.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
def command(
    file: Path,
    *,
    into: Path,
    trials: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Import answers from FILE, a workflow_output.json written by nat eval or Limpet, into a run.

    A row is imported if it holds an answer and the dataset has an item with the same id and input.
    Imported answers count as answers of the current workflow: `limpet run` continues from there.
    """
    if is_nat_file(into):
        flags = Flags(
            **endpoint_of(given),
            dataset=given["dataset"],
            reps=trials,
            overrides=given["override"],
            result_json_path=given["result_json_path"] or "$",
            settings=overrides,
        )
        done = _into_nat(file, into, flags)
    else:
        refuse_flags(given)
        settings = overrides if trials is None else (*overrides, f"trials={trials}")
        rows = list(rows_of_file(file))
        done = import_rows(rows, file.name, _target(load_config(into, settings)))
    if as_json:
        counts = {"imported": done.imported, "existing": done.existing}
        click.echo(json.dumps({"file": str(file), **counts, "skipped": dict(done.skipped)}))
    else:
        talk().print(Text(harmless(str(done))), soft_wrap=True)
    return DONE if done.imported or done.existing else FAILED


def _into_nat(file: Path, into: Path, flags: Flags) -> ImportReport:
    config = load_nat_config(into, flags)
    config.prepare()
    rows = list(rows_of_file(file))  # before its directory is moved

    def say(line: str) -> None:
        talk().print(Text(harmless(line)), soft_wrap=True)

    set_aside = functools.partial(config.set_foreign_aside, say, imported=True)
    return import_rows(rows, file.name, config.target(), before=set_aside)


def _target(config: Config) -> Target:
    ready = config.prepare()
    dataset, steps = ready.dataset.load(), ready.trace_filter
    return Target(
        config.run,
        dataset.items,
        config.trials,
        ready.workflow,
        dataset.roles.input,
        id=dataset.roles.id or "id",
        trace_filter=None if steps is None else tuple(steps),
    )
