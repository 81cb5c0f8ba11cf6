"""`limpet import`: answers that are there already."""

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
from limpet.datasets import Dataset, load
from limpet.integrations.nat import Flags, load_nat_config
from limpet.integrations.nat.importing import Imported, Target, import_rows
from limpet.integrations.nat.rows import rows_of_file
from limpet.report.terminal import talk
from limpet.run.api import DatasetOptions
from limpet.text import harmless


@click.command("import", context_settings=SPELLINGS)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), default=Path("eval.yml"),
              show_default=True, metavar="CONFIG", help="Whose run takes them.")  # fmt: skip
@endpoint_flags
@identity_flags
@click.option("--trials", "--reps", "trials", type=click.IntRange(min=1),
              help="How often each item is asked.")  # fmt: skip
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE",
              help="Another value than the file's; may be repeated.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object, on stdout.")
def command(
    file: Path,
    *,
    into: Path,
    trials: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Take the answers of FILE, a workflow_output.json of nat eval or of Limpet, into a run.

    A row is taken if the dataset has an item of its id that asks the same, and if it holds an
    answer. What is taken counts as answered by the workflow as it is now: `limpet run` goes on
    from there.
    """
    if is_nat_file(into):
        served = endpoint_of(given)
        flags = Flags(
            **served,
            dataset=given["dataset"],
            reps=trials,
            overrides=given["override"],
            result_json_path=given["result_json_path"] or "$",
            settings=overrides,
        )
        done = _into_nat(file, into, flags)
    else:
        refuse_flags(given)
        more = () if trials is None else (f"trials={trials}",)
        rows = list(rows_of_file(file))
        done = import_rows(rows, file.name, _target(load_config(into, (*overrides, *more))))
    if as_json:
        told = {"taken": done.taken, "there": done.there, "left_out": dict(done.left_out)}
        click.echo(json.dumps({"file": str(file), **told}))
    else:
        talk().print(Text(harmless(str(done))), soft_wrap=True)
    return DONE if done.taken or done.there else FAILED


def _into_nat(file: Path, into: Path, flags: Flags) -> Imported:
    config = load_nat_config(into, flags)
    config.prepare()
    rows = list(rows_of_file(file))  # before its directory is moved

    def say(line: str) -> None:
        talk().print(Text(harmless(line)), soft_wrap=True)

    make_room = functools.partial(config.make_room_beside_theirs, say, taken=True)
    return import_rows(rows, file.name, config.target(), before=make_room)


def _target(config: Config) -> Target:
    ready = config.prepare()
    told: dict[str, Any] = dict(ready.options)
    reading = {name: told[name] for name in DatasetOptions.__annotations__ if name in told}
    dataset: Dataset = load(ready.dataset, **reading)
    steps = told.get("trace_filter")
    return Target(
        config.run,
        dataset.items,
        config.trials,
        ready.workflow,
        dataset.roles.input,
        id=dataset.roles.id or "id",
        trace_filter=None if steps is None else tuple(steps),
    )
