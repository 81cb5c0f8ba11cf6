"""Which flags does `limpet run` take?

The command itself is imported when it runs, so that `--help` is fast.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from limpet.cli.nat_flags import SPELLINGS, nat_flags


@click.command("run", context_settings=SPELLINGS)
@click.argument("file", type=click.Path(path_type=Path), default=Path("eval.yml"))
@click.option("--plan", "only_plan", is_flag=True, help="Show what would run, and stop.")
@click.option("--redo", is_flag=True, help="Run the workflow again for every item.")
@click.option("--redo-step", "redo_steps", multiple=True, metavar="NAME",
              help="Run this step again: workflow or an evaluator; may be repeated.")  # fmt: skip
@click.option("--redo-item", "redo_items", multiple=True, metavar="ID",
              help="Run only this item again; may be repeated.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the existing answers of a changed workflow.")
@click.option(
    "--retry-failed/--no-retry-failed",
    default=True,
    show_default=True,
    help="Retry what failed in earlier sessions.",
)
@click.option(
    "--early-stop/--no-early-stop",
    default=None,
    help="Stop if the first items all fail the same way.  [default: early-stop]",
)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Run only the first N rows in this session."
)
@click.option("--trials", type=click.IntRange(min=1), help="How many times to run each item.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE",
              help="Override a value of the file; may be repeated.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print only errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event to stdout.")
@click.option("--fail-under", "floors", multiple=True, metavar="NAME=VALUE",
              help="Exit with 1 if an evaluator's mean is lower; may be repeated.")  # fmt: skip
@click.option("--config-file", type=click.Path(path_type=Path), hidden=True,
              help="NAT: same as FILE.")  # fmt: skip
@nat_flags
def command(**given: Any) -> int:
    """Run the evaluation that FILE describes, or resume it.

    FILE is an eval.yml or a NeMo Agent Toolkit configuration. Finished results are kept, only
    missing ones run, and an edit reruns only what it affects. Ctrl-C stops after the calls in
    flight; press it again to stop at once.
    """
    code: int = import_module("limpet.cli.run").run(**given)
    return code
