"""What does a comparison look like in a notebook?"""

import math
from html import escape

from limpet.run.comparing.results import Comparison, LabelComparison, ScoreComparison
from limpet.run.progress.html_table import table_html
from limpet.text import count, one_line

_HEADS = ("score", "base", "new", "change", "95% interval", "verdict", "better / same / worse")


def comparison_html(comparison: Comparison) -> str:
    """Return a table for each new run, with what is left out below it."""
    found = ""
    for run in comparison.new:
        title = f"{one_line(run.run)} compared with {one_line(comparison.base.run)}"
        rows = [_row(name, score) for name, score in run.scores.items()]
        notes = [*run.about.notes, *run.notes, *(one.why for one in run.left_out)]
        found += f"<p>{escape(title)}</p>{table_html(_HEADS, rows)}"
        found += "".join(f"<p>{escape(one_line(note))}</p>" for note in notes)
    for gate in comparison.gates:
        words = f"{gate.name} in {gate.run}: {gate.verdict} (margin {gate.margin:g})"
        found += f"<p>{escape(one_line(words))}</p>"
    return found


def _row(name: str, score: ScoreComparison | LabelComparison) -> list[str]:
    if isinstance(score, LabelComparison):
        changed = f"{sum(score.changes.values()):,} of {count(score.n, 'label')} changed"
        return [escape(one_line(name)), changed, *[""] * (len(_HEADS) - 2)]
    low, high, _ = score.headline
    missing = f", {score.missing:,} missing" if score.missing else ""
    return [
        escape(one_line(name)),
        f"{score.base_mean:.3f}",
        f"{score.new_mean:.3f}",
        f"{score.delta:+.3f}",
        f"{low:+.3f} to {high:+.3f}" if math.isfinite(high - low) else "–",
        score.verdict,
        f"{score.better:,} / {score.same:,} / {score.worse:,}{missing}",
    ]
