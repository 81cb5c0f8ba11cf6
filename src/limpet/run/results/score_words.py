"""What are the values of an evaluator's scores, and how are they written in a few words?"""

from collections.abc import Iterator, Mapping
from typing import Any

from limpet.text import one_line

_MOST_LABELS = 5


def label_counts(labels: Mapping[str, int]) -> str:
    """Return labels with their counts, the most frequent first: `12 kind, 3 rude`."""
    ranked = sorted(labels.items(), key=lambda pair: (-pair[1], pair[0]))
    words = [f"{number:,} {one_line(label)}" for label, number in ranked[:_MOST_LABELS]]
    more = len(ranked) - len(words)
    return ", ".join([*words, *([f"{more:,} more labels"] if more else [])])


def score_words(numbers: Mapping[str, Any]) -> dict[str | None, str]:
    """Return the means of an evaluator by the names of its scores; None: its only one.

    A score that has only labels has their counts.

    Args:
        numbers: What `summary.json` has of the evaluator.
    """
    words: dict[str | None, str] = {}
    for part, value in numbers.get("means", {}).items():
        words[part] = mean(value)
    for part, labels in numbers.get("labels_by_score", {}).items():
        words.setdefault(part, label_counts(labels))
    value, labels = numbers.get("mean"), numbers.get("labels")
    if value is None and words and not labels:
        return words
    return {None: label_counts(labels) if value is None and labels else mean(value), **words}


def mean(value: float | None) -> str:
    """Return a mean; a dash if there is none."""
    return "–" if value is None else f"{value:.4g}"


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
