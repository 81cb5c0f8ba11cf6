"""`limpet compare`: is the new run better?"""

import math
from collections.abc import Sequence
from pathlib import Path

import click

from limpet.cli.error_exit import DONE, FAILED, INCONCLUSIVE
from limpet.report.comparison import comparison_lines
from limpet.report.comparison_data import comparison_data
from limpet.report.comparison_files import as_junit, as_markdown, write_file
from limpet.report.live_display import busy
from limpet.report.tables import put, put_json
from limpet.run.comparing.comparable import CompareOptions
from limpet.run.comparing.compare import compare_runs
from limpet.run.comparing.results import Comparison
from limpet.run.reading.find_run import choose_run, is_matrix, variants_in


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
            raise click.UsageError(f"{option} is about gates: give --fail-if-worse NAME=MARGIN")
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
    """Return the variants of a matrix that have begun, in its order."""
    found: list[str] = []
    if is_matrix(directory := choose_run(base)):
        found = [str(variant.path) for variant in variants_in(directory) if variant.has_begun]
    if len(found) < 2:  # noqa: PLR2004 - a base, and one to compare with it
        raise click.UsageError("Missing argument 'NEW...': only a matrix with two runs needs none")
    return found


def read_margins(values: Sequence[str]) -> dict[str, float]:
    """Read `--fail-if-worse`: NAME=MARGIN."""
    margins: dict[str, float] = {}
    for text in values:
        name, _, number = text.rpartition("=")
        try:
            margin = float(number)
        except ValueError:
            margin = math.nan
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
