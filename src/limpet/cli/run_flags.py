"""Which flags does `limpet run` take?

What runs is imported when it is run, so that `--help` is there at once.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from limpet.cli.nat_flags import SPELLINGS, nat_flags


@click.command("run", context_settings=SPELLINGS)
@click.argument("file", type=click.Path(path_type=Path), default=Path("eval.yml"))
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--redo", is_flag=True, help="Run the workflow again, whatever is there.")
@click.option("--redo-step", "redo_steps", multiple=True, metavar="NAME",
              help="Run this step again: workflow, or an evaluator; may be repeated.")  # fmt: skip
@click.option("--redo-item", "redo_items", multiple=True, metavar="ID",
              help="Run only this item again; may be repeated.")  # fmt: skip
@click.option("--keep", is_flag=True, help="The workflow changed: keep what it gave before.")
@click.option(
    "--retry-failed/--no-retry-failed",
    default=True,
    show_default=True,
    help="Try again what failed before.",
)
@click.option(
    "--early-stop/--no-early-stop",
    default=None,
    help="Stop if the first items all fail alike.  [default: early-stop]",
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N rows, in this session.")
@click.option("--trials", type=click.IntRange(min=1), help="How often each item is asked.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE",
              help="Another value than the file's; may be repeated.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event, on stdout.")
@click.option("--fail-under", "floors", multiple=True, metavar="NAME=VALUE",
              help="End with 1 if an evaluator's mean is lower; may be repeated.")  # fmt: skip
@click.option("--config-file", type=click.Path(path_type=Path), hidden=True,
              help="NAT: as FILE.")  # fmt: skip
@nat_flags
def command(**given: Any) -> int:
    """Run the evaluation that FILE describes, or go on with it.

    FILE is an eval.yml, or a configuration of the NeMo Agent Toolkit as it is. What is on disk is
    kept, what is missing is done, and an edit runs only what it touched. Ctrl-C lets calls in
    flight end; a second one does not.
    """
    code: int = import_module("limpet.cli.run").run(**given)
    return code
