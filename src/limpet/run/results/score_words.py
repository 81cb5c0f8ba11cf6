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
