"""What are the values of an evaluator's scores, and how are they written in a few words?"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from limpet.text import count, one_line

NO_MEAN = "–"
_MOST_LABELS = 5
_WIDE, _NARROW = 2.0, 0.02
"""Between these widths, an interval is written with two decimals."""
_MOST_DECIMALS = 6
_HUGE = 1e6


def label_counts(
    labels: Mapping[str, int], intervals: Mapping[str, Mapping[str, float]] | None = None
) -> str:
    """Return labels with their counts, the most frequent first: `12 kind, 3 rude`.

    With the intervals of their shares: `12 kind (55–93%), 3 rude (7–45%)`.
    """
    ranked = sorted(labels.items(), key=lambda pair: (-pair[1], pair[0]))
    words = [f"{number:,} {one_line(label)}" for label, number in ranked[:_MOST_LABELS]]
    for at, (label, _) in enumerate(ranked[:_MOST_LABELS]):
        if ends := (intervals or {}).get(label):
            words[at] += f" ({100 * ends['low']:.0f}–{100 * ends['high']:.0f}%)"
    more = len(ranked) - len(words)
    return ", ".join([*words, *([f"{more:,} more labels"] if more else [])])


def score_words(numbers: Mapping[str, Any]) -> dict[str | None, str]:
    """Return the means of an evaluator by the names of its scores; None: its only one.

    A score that has only labels has their counts.

    Args:
        numbers: What `summary.json` has of the evaluator.
    """
    words: dict[str | None, str] = {
        part: whole_claim(numbers, part) for part in numbers.get("means", {})
    }
    for part, labels in numbers.get("labels_by_score", {}).items():
        words.setdefault(part, label_counts(labels))
    value, labels = numbers.get("mean"), numbers.get("labels")
    if value is None and words and not labels:
        return words
    only = label_counts(labels) if value is None and labels else whole_claim(numbers)
    return {None: only, **words}


def claim_of(numbers: Mapping[str, Any], part: str | None) -> tuple[float | None, Any, Any]:
    """Return the mean of a score, its interval and its bounds; None where there is none."""
    if part is None:
        return numbers.get("mean"), numbers.get("interval"), numbers.get("bounds")
    several = ("means", "intervals", "bounds_by_score")
    value, interval, bounds = (numbers.get(name, {}).get(part) for name in several)
    return value, interval, bounds


def headline(numbers: Mapping[str, Any], part: str | None = None) -> str:
    """Return what may be claimed of a mean: `0.842 (0.79–0.88)`.

    If something is missing, the mean is over what completed, and the interval is the one with what
    is missing as worst and as best.
    """
    value, interval, bounds = claim_of(numbers, part)
    ends = bounds if bounds and "low" in bounds else interval
    if value is None or not ends:
        return mean(value)
    low, high = ends["low"], ends["high"]
    return f"{_fixed(value, _decimals(low, high) + 1)} ({span(low, high)})"


def of_completed(numbers: Mapping[str, Any], part: str | None = None) -> str:
    """Return how many cells a mean is of, where others are missing; else an empty string."""
    value, _, bounds = claim_of(numbers, part)
    return f"of {numbers['completed']:,} completed" if bounds and value is not None else ""


def whole_claim(numbers: Mapping[str, Any], part: str | None = None) -> str:
    """Return the headline with all that must be said beside it."""
    first = headline(numbers, part)
    words = f"{first} {of_completed(numbers, part)}".rstrip()
    return f"{words} so far" if numbers.get("interim") and first != NO_MEAN else words


def span(low: float, high: float) -> str:
    """Return the ends of an interval, with as many decimals as its width deserves: `0.79–0.88`."""
    decimals = _decimals(low, high)
    between = " to " if low < 0 else "–"
    return between.join(_fixed(end, decimals) for end in (low, high))


def _decimals(low: float, high: float) -> int:
    width = high - low
    if width >= _WIDE:
        return 0 if width >= 10 * _WIDE else 1
    return (
        2
        if width >= _NARROW
        else min(_MOST_DECIMALS, 2 + math.ceil(math.log10(_NARROW / max(width, 1e-9))))
    )


def _fixed(value: float, decimals: int) -> str:
    return f"{value:.4g}" if abs(value) >= _HUGE else f"{value:.{decimals}f}"


def mean(value: float | None) -> str:
    """Return a mean; a dash if there is none."""
    return NO_MEAN if value is None else f"{value:.4g}"


def people_notes(numbers: Mapping[str, Any], part: str | None = None) -> Iterator[str]:
    """Yield the mean of a judge as people's labels correct it, or why they do not."""
    found = numbers.get("calibrated")
    if part is not None:
        found = numbers.get("calibrated_by_score", {}).get(part)
    if found:
        labels = count(found["n_labelled"], "label")
        yield f"corrected by people: {with_ends(found['mean'], found)}, {labels}"
    if part is None and (why := numbers.get("not_calibrated")):
        yield f"not corrected by people: {one_line(why)}"


def as_exact(value: float, interval: Mapping[str, Any]) -> str:
    """Return a number with as many digits as one with this interval has."""
    return _fixed(value, _decimals(interval["low"], interval["high"]) + 1)


def with_ends(value: float, interval: Mapping[str, Any]) -> str:
    """Return a number with its interval: `0.842 (0.79–0.88)`."""
    return headline({"mean": value, "interval": interval})


def agreement_of(record: Mapping[str, Any]) -> float | None:
    """Return the share of pairs of votes that agree on a score; None if it has no votes."""
    about = record.get("metadata")
    agreement = about.get("agreement") if isinstance(about, Mapping) else None
    if isinstance(agreement, (int, float)) and 0 <= agreement <= 1:
        return float(agreement)
    return None


def votes_disagree(record: Mapping[str, Any]) -> bool:
    """Return whether the votes of a score, or both orders of a pair, disagree."""
    agreement, about = agreement_of(record), record.get("metadata")
    is_flipped = isinstance(about, Mapping) and about.get("flipped") is True
    return is_flipped or (agreement is not None and agreement < 1)


def votes_words(record: Mapping[str, Any]) -> str:
    """Return how often each answer was voted for; empty: there were no votes.

    Labels are like `2 correct, 1 incorrect`, numbers like `2 × 4, 1 × 5`.
    """
    votes = _votes(record)
    if record.get("label"):
        return label_counts(votes)
    return ", ".join(f"{number:,} × {one_line(answer)}" for answer, number in sorted(votes.items()))


def _votes(record: Mapping[str, Any]) -> dict[str, int]:
    about = record.get("metadata")
    votes = about.get("votes") if isinstance(about, Mapping) else None
    if not isinstance(votes, Mapping) or agreement_of(record) is None:
        return {}
    return {str(answer): number for answer, number in votes.items() if isinstance(number, int)}


def values_words(score: Mapping[str, Any]) -> str:
    """Return the values of a score: `0.5`, `style 1, tone 0.5` or `1 (correct, 2 of 3 votes)`."""
    words = ", ".join(
        _number(value) if part is None else f"{one_line(part)} {_number(value)}"
        for part, value in shown_values(score)
    )
    about = ", ".join(filter(None, (_label(score), _split(score))))
    return f"{words} ({about})" if about else words


def _label(score: Mapping[str, Any]) -> str:
    label = score.get("label") if score.get("score") is not None else None
    return one_line(label) if label else ""


def _split(score: Mapping[str, Any]) -> str:
    """Return how the votes are split, if they are."""
    votes, label = _votes(score), score.get("label")
    if len(votes) < 2:  # noqa: PLR2004 - all agree
        return ""
    if label in votes:
        return f"{votes[label]:,} of {sum(votes.values()):,} votes"
    return votes_words(score)


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return mean(value) if isinstance(value, (int, float)) else one_line(value or "–")


def shown_values(score: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield the values of an evaluator's record, or the label where there is no value."""
    parts = score.get("scores") or {None: score}
    for part, record in parts.items():
        yield part, record.get("label") if record.get("score") is None else record["score"]


def values_of(score: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield the values of an evaluator's record with their names; None: the only value."""
    if "scores" in score:
        yield from ((name, record["score"]) for name, record in score["scores"].items())
    else:
        yield None, score["score"]
