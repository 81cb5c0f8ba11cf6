"""`limpet compare`, and `limpet run --against BASE`: is the new run better?"""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from limpet.cli.error_exit import (
    DONE,
    FAILED,
    INCONCLUSIVE,
    USAGE,
    named_number,
    say_error,
)
from limpet.errors import LimpetError
from limpet.report.comparison import comparison_lines, gate_words
from limpet.report.comparison_data import comparison_data
from limpet.report.markdown import as_junit, as_markdown, write_file
from limpet.report.tables import put, put_json
from limpet.report.terminal import busy
from limpet.run.comparing.comparable import CompareOptions
from limpet.run.comparing.compare import compare_runs
from limpet.run.comparing.opened_run import find_to_compare
from limpet.run.comparing.results import Comparison
from limpet.run.reading.find_run import choose_run, is_matrix, variants_in
from limpet.run.results.score_words import split_name
from limpet.text import did_you_mean, one_line

# ---- `limpet compare`: is the new run better? ---------------------------------------------------


def command(
    base: str,
    new: tuple[str, ...],
    *,
    evaluator: str | None,
    group: str | None,
    field: str | None,
    margins: tuple[str, ...],
    these_questions: bool,
    allow: tuple[str, ...],
    inconclusive: str | None,
    flips: int,
    as_json: bool,
    markdown: Path | None,
    junit: Path | None,
) -> int:
    """Compare runs with a base."""
    gates = read_margins(margins)
    for option, value in (("--inconclusive", inconclusive), ("--junit", junit)):
        if value and not gates:
            raise click.UsageError(f"{option} needs a gate: give --fail-if-worse NAME=MARGIN")
    options = CompareOptions(
        evaluator, group, field, ",".join(allow), these_questions, gates, flips
    )
    runs = [base, *new] if new else _variants(base)
    with busy("comparing"):
        comparison = compare_runs(runs, options)
    if as_json:
        put_json(comparison_data(comparison))
    else:
        put(*comparison_lines(comparison))
    if markdown is not None:
        write_file(markdown, as_markdown(comparison))
    if junit is not None:
        write_file(junit, as_junit(comparison.gates))
    return code_of(comparison, inconclusive)


def _variants(base: str) -> list[str]:
    """Return the variants of a matrix that have begun, in order."""
    found: list[str] = []
    if is_matrix(directory := choose_run(base)):
        found = [str(variant.path) for variant in variants_in(directory) if variant.has_begun]
    if len(found) < 2:  # noqa: PLR2004 - a base and another
        raise click.UsageError(
            "Missing argument 'NEW...': only a matrix of two or more runs needs none"
        )
    return found


def read_margins(values: Sequence[str]) -> dict[str, float]:
    """Read `--fail-if-worse`: NAME=MARGIN."""
    margins: dict[str, float] = {}
    for text in values:
        name, margin = named_number(text)
        if not name or not (math.isfinite(margin) and margin >= 0):
            raise click.UsageError(
                f"--fail-if-worse {text}: must be NAME=MARGIN, for example {name or text}=0.02"
            )
        if name in margins:
            raise click.UsageError(f"--fail-if-worse {text}: {name} has a margin already")
        margins[name] = margin
    return margins


def code_of(comparison: Comparison, inconclusive: str | None) -> int:
    """Return the exit code: 0 not worse, or without gates; 1 worse; 4 inconclusive."""
    if comparison.verdict == "inconclusive":
        return {None: INCONCLUSIVE, "pass": DONE, "fail": FAILED}[inconclusive]
    return FAILED if comparison.verdict == "worse" else DONE


# ---- `limpet run --against BASE`: is a run that has ended better than the base? ------------


class Against(NamedTuple):
    """What to compare a run with.

    Attributes:
        base: The other run.
        margins: The gates.
        inconclusive: What to do if a gate is inconclusive.
    """

    base: Path
    margins: dict[str, float]
    inconclusive: str | None

    def check(self, run: Path, evaluators: Collection[str]) -> None:
        """Check the flags before anything runs."""
        if run.exists() and self.base.exists() and run.samefile(self.base):
            raise click.UsageError(f"--against {one_line(str(self.base))}: this is the run itself")
        for name in self.margins:
            if split_name(name, evaluators) is None:
                hint = did_you_mean(name, evaluators)
                raise click.UsageError(f"--fail-if-worse {name}: unknown evaluator{hint}")


class Compared(NamedTuple):
    """How the comparison ended.

    Attributes:
        code: The exit code.
        comparison: What was found; None: they cannot be compared.
        error: Why they cannot; None: they can.
    """

    code: int
    comparison: Comparison | None = None
    error: LimpetError | None = None

    @property
    def why(self) -> str:
        """The gates that fail; empty: none, or there is an error."""
        gates = () if self.comparison is None else self.comparison.gates
        return "; ".join(gate_words(gate) for gate in gates if gate.verdict != "not worse")

    def data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        if self.comparison is not None:
            return comparison_data(self.comparison)
        return {"error": str(self.error)}

    def say(self, *, talks: bool) -> None:
        """Print the comparison, if the view talks, or why there is none."""
        if self.comparison is not None and talks:
            put("", *comparison_lines(self.comparison))
        if self.error is not None:
            say_error(f"--against: {self.error}", self.error.hint)


def read_against(
    base: str | None, margins: Sequence[str], inconclusive: str | None
) -> Against | None:
    """Read `--against`, before anything runs."""
    gates = read_margins(margins)
    if base is None:
        if gates or inconclusive:
            option = "--fail-if-worse" if gates else "--inconclusive"
            raise click.UsageError(f"{option} needs a run to compare with: --against BASE")
        return None
    if inconclusive and not gates:
        raise click.UsageError("--inconclusive needs a gate: give --fail-if-worse NAME=MARGIN")
    with find_to_compare(base) as reader:
        return Against(reader.path, gates, inconclusive)


def compared_with(against: Against, run: str) -> Compared:
    """Compare a run that has ended."""
    options = CompareOptions(fail_if_worse=against.margins)
    new, here = Path(run), Path.cwd()
    if new.is_relative_to(here):  # named like the base
        new = new.relative_to(here)
    try:
        comparison = compare_runs([against.base, new], options)
    except LimpetError as error:
        return Compared(USAGE, error=error)
    return Compared(code_of(comparison, against.inconclusive), comparison)
