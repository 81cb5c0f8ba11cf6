"""What are the means while a run is running?

They are marked as such, for slow items come last and are often wrong. What is in flight and what
failed counts as the lowest and as the highest score possible.
"""

from collections.abc import Iterator
from typing import Any

from limpet.run.progress.watcher import ScoreSoFar, Snapshot
from limpet.run.results.score_words import span
from limpet.text import one_line


def so_far_words(snapshot: Snapshot) -> list[str]:
    """Return the means so far, a line each: `correct 0.8 of 15 so far (0.52–0.87 with …)`."""
    lines = []
    for _, name, score, flying, failed in _scores(snapshot):
        words = f"{one_line(name)} {score.mean:.3f} of {score.n:,} so far"
        about = [f"{flying:,} in flight"] if flying else []
        about += [f"{failed:,} failed"] if failed else []
        if about and (ends := _ends(score, flying + failed)):
            words += f" ({span(*ends)} with {', '.join(about)})"
        lines.append(words)
    return lines


def so_far_data(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Return the means so far by step and score, as JSON data."""
    found: dict[str, dict[str, Any]] = {}
    for step, name, score, flying, failed in _scores(snapshot):
        about: dict[str, Any] = {"mean": score.mean, "n": score.n}
        if ends := _ends(score, flying + failed):
            about |= {"low": ends[0], "high": ends[1]}
        found.setdefault(step, {})[name] = about
    return found


def _scores(snapshot: Snapshot) -> Iterator[tuple[str, str, ScoreSoFar, int, int]]:
    """Yield each score with its step and name, the calls in flight for it, and the failures."""
    for step in snapshot.steps[1:]:
        first = snapshot.steps[0]
        flying = len(first.in_flight) + len(step.in_flight)
        failed = sum(first.failed.values()) + sum(step.failed.values())
        for name, score in step.scores.items():
            yield step.name, name, score, flying, failed


def _ends(score: ScoreSoFar, missing: int) -> tuple[float, float] | None:
    """Return the mean if all that is missing were the lowest, and the highest; None: unknown."""
    if score.range is None:
        return None
    n = score.n + missing
    low, high = ((score.mean * score.n + end * missing) / n for end in score.range)
    return low, high
