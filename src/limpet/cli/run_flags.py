"""What do the flags of `limpet run` set for each run?"""

import math
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from limpet.cli.error_exit import named_number
from limpet.engines.spec import ENGINES
from limpet.run.api import Arguments
from limpet.run.budget import as_budget
from limpet.run.options import RunOptions
from limpet.run.results.score_words import ScoreName, split_name
from limpet.text import did_you_mean, nearest, one_line

if TYPE_CHECKING:
    from limpet.cli.compare import Against


class RunFlags(NamedTuple):
    """The flags that apply to each run."""

    against: "Against | None"
    redo_steps: tuple[str, ...]
    redo_items: tuple[str, ...]
    keep: bool
    retry_failed: bool | None
    fail_fast: bool | None
    goals: tuple[str, ...]
    budget: tuple[str, ...]
    limit: int | None
    rehearse: int | None
    floors: tuple[str, ...]
    engine: str | None
    quiet: bool
    as_json: bool

    @property
    def forces(self) -> bool:
        """Whether something with results runs again."""
        return bool(self.redo_steps or self.redo_items)

    def options_for(self, prepared: Arguments) -> RunOptions:
        """Return the options that the flags set; they replace those of the file."""
        options: RunOptions = {}
        if self.keep:
            options["on_change"] = "keep"
        if self.retry_failed is not None:
            options["retry_failed"] = self.retry_failed
        if self.fail_fast is not None:
            options["fail_fast"] = self.fail_fast
        if self.goals:
            options["stop_when"] = _read_goals(self.goals, list(prepared.evaluators))
        if self.budget:
            options["budget"] = {
                **(prepared.options.get("budget") or {}),
                **read_budget(self.budget),
            }
        if self.engine is not None:
            options["engine"] = self.engine
        return options


# ---- flags with a value -------------------------------------------------------------------------


class Floor(NamedTuple):
    """The limit of a score's mean: the lowest or, if lower is better, the highest allowed."""

    name: ScoreName
    least: float


def read_floors(values: Sequence[str], evaluators: Collection[str]) -> list[Floor]:
    """Read `--fail-under`."""
    return [Floor(*_read_score("--fail-under", text, evaluators, 0.9)) for text in values]


def _read_goals(values: Sequence[str], evaluators: Collection[str]) -> dict[str, float]:
    """Read `--stop-when`."""
    goals = {}
    for text in values:
        name, half_width = _read_score("--stop-when", text, evaluators, 0.02)
        if half_width <= 0:
            raise click.UsageError(f"--stop-when {text}: the half-width must be above 0")
        goals[str(name)] = half_width
    return goals


def read_budget(values: Sequence[str]) -> dict[str, float]:
    """Read `--budget`: `cost=20`, or several limits with commas between them."""
    pairs = [pair.partition("=")[::2] for text in values for pair in text.split(",")]
    try:
        return as_budget({kind.strip(): amount.strip() for kind, amount in pairs})
    except (TypeError, ValueError) as error:
        raise click.UsageError(f"--budget {' '.join(values)}: {error}") from error


def _read_score(
    flag: str, text: str, evaluators: Collection[str], example: float
) -> tuple[ScoreName, float]:
    """Read the NAME=NUMBER of a flag."""
    whole, value = named_number(text)
    name = split_name(whole, evaluators)
    if whole and name is None:
        hint = did_you_mean(whole, evaluators)
        raise click.UsageError(f"{flag} {text}: unknown evaluator {whole!r}{hint}")
    if name is None or not math.isfinite(value):
        known = whole or nearest(text, evaluators) or "NAME"
        raise click.UsageError(f"{flag} {text}: must be NAME=NUMBER, for example {known}={example}")
    return name, value


def read_against(
    base: str | None, margins: Sequence[str], inconclusive: str | None
) -> "Against | None":
    """Read `--against` and the flags of its gates; None: nothing is compared."""
    if base is None and not margins and not inconclusive:
        return None
    # It imports NumPy, which most runs do not need.
    against: Against | None = import_module("limpet.cli.compare").read_against(
        base, margins, inconclusive
    )
    return against


# ---- flags that are wrong, or exclude each other ------------------------------------------------


def check_flags(flags: RunFlags, *, redo: bool) -> None:
    """Refuse an unknown engine, and flags that exclude each other."""
    if flags.quiet and flags.as_json:
        raise click.UsageError("--quiet and --json cannot be combined")
    if flags.rehearse is not None:
        if flags.against is not None or flags.floors:
            raise click.UsageError("--rehearse runs a few items: nothing is decided by them")
        if flags.goals:
            raise click.UsageError("--rehearse runs all its items, --stop-when perhaps fewer")
    if redo and flags.keep:
        raise click.UsageError("--redo and --keep cannot be combined")
    if redo and flags.redo_items:
        raise click.UsageError("--redo runs every item: use --redo or --redo-item, not both")
    if flags.engine is not None and flags.engine not in ENGINES:
        raise click.UsageError(
            f"--engine={one_line(repr(flags.engine))}: must be processes or ray; for settings, "
            "use --set 'engine={processes: 4}'; for none, --set engine=null"
            + did_you_mean(flags.engine, ENGINES)
        )


def check_skipped(given: Mapping[str, Any], flags: RunFlags) -> None:
    """Refuse to redo a workflow that `--skip-workflow` does not call."""
    redoes_workflow = not flags.redo_steps or "workflow" in flags.redo_steps
    if given.get("skip_workflow") and flags.forces and redoes_workflow:
        raise click.UsageError(
            "--skip-workflow calls no workflow: name the evaluators to run again with "
            "--redo-step, or leave out --skip-workflow"
        )


def check_matrix(only: Sequence[str], against: "Against | None", *, has_matrix: bool) -> None:
    """Refuse `--only` without a matrix, and `--against` with one."""
    if not has_matrix and only:
        raise click.UsageError(f"--only {only[0]}: the file has no matrix")
    if has_matrix and against is not None:
        raise click.UsageError(
            "--against: the file has a matrix; compare its runs with limpet compare BASE RUN…"
        )
