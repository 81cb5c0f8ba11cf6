"""What are the values of an evaluator's scores, and what do they look like in a few words?"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from limpet.errors import LimpetError, OtherFormatError
from limpet.shapes import Scale
from limpet.text import count, hint_near, one_line, quoted

# ---- What is declared about an evaluator's scores, in a summary and in words? -------------------

_UNIT = (0.0, 1.0)
_NEAR = 1e-6
"""A score outside its range by this share of its width is a rounding error."""


def scale_data(scale: Scale) -> dict[str, Any]:
    """Return what is declared about scores, as JSON data."""
    declared = {
        "range": None if scale.range is None else [*scale.range],
        "group": scale.group,
        "higher_is_better": None if scale.higher_is_better else False,
    }
    return {name: value for name, value in declared.items() if value is not None}


def scale_in(numbers: Mapping[str, Any]) -> Scale:
    """Return the scale of an evaluator's scores, from its summary."""
    among = numbers.get("range")
    return Scale(
        None if among is None else (among[0], among[1]),
        numbers.get("group"),
        numbers.get("higher_is_better", True),
    )


def range_words(scale: Scale) -> str:
    """Return a declared range: `1–5`."""
    assert scale.range is not None
    low, high = scale.range
    return f"{low:g} to {high:g}" if low < 0 else f"{low:g}–{high:g}"


def counted(value: float, scale: Scale) -> float:
    """Return a score for adding up: one just outside its range (or 0 to 1) becomes its end."""
    low, high = scale.range or _UNIT
    near = _NEAR * (high - low)
    return low if low - near <= value < low else high if high < value <= high + near else value


# ---- Which score does a name like `judge.quality` mean, and where is it in an item? -------------


class ScoreName(NamedTuple):
    """A name like `judge`, for all scores of an evaluator, or `judge.quality`, for one of several.

    Attributes:
        evaluator: The evaluator.
        part: Which of its scores; None: all.
    """

    evaluator: str
    part: str | None = None

    def __str__(self) -> str:
        return self.evaluator if self.part is None else f"{self.evaluator}.{self.part}"

    def records(self, scores: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the records of these scores among those of an item."""
        parts = parts_of(scores.get(self.evaluator, {}))
        return [record for part, record in parts if self.part in (None, part)]

    def lowest(self, scores: Mapping[str, Mapping[str, Any]]) -> float | None:
        """Return the lowest value among the scores of an item; None if it has none."""
        values = (record.get("value") for record in self.records(scores))
        numbers = [float(value) for value in values if isinstance(value, (int, float))]
        return min((number for number in numbers if not math.isnan(number)), default=None)


def split_name(name: str, evaluators: Iterable[str]) -> ScoreName | None:
    """Return the evaluator and the part of a name; None: no evaluator matches."""
    # Both may contain dots: the longest matching evaluator wins.
    for evaluator in sorted(evaluators, key=len, reverse=True):
        if name == evaluator:
            return ScoreName(evaluator)
        if name.startswith(f"{evaluator}.") and len(name) > len(evaluator) + 1:
            return ScoreName(evaluator, name[len(evaluator) + 1 :])
    return None


def no_such_score(name: str, known: Iterable[str]) -> LimpetError:
    """Return the error for an unknown name of a score."""
    names = list(dict.fromkeys(known))
    words = ", ".join(map(one_line, names)) or "none yet"
    return LimpetError(
        f"no score is called {quoted(name)}; known: {words}", hint=hint_near(name, names)
    )


def parts_of(score: Mapping[str, Any]) -> Iterable[tuple[str | None, Mapping[str, Any]]]:
    """Return the records of an evaluator's scores by name; None: its only one."""
    if "scores" in score:
        return list(score["scores"].items())
    return [(None, score)] if score else []


def by_name(
    scores: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[ScoreName, Mapping[str, Any]]]:
    """Yield each score of an item with its name, given the records of the evaluators."""
    for evaluator, record in scores.items():
        for part, one in parts_of(record):
            yield ScoreName(evaluator, part), one


def score_data(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the scores of an item by name, as JSON data."""
    return {
        str(name): {field: value for field, value in record.items() if field != "id"}
        for name, record in by_name(scores)
    }


# ---- What are the values of an evaluator's scores, and what do they look like in a few words? ---

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


def score_words(score: Mapping[str, Any]) -> str:
    """Return the mean of a score in a summary, or the counts of its labels."""
    labels = score.get("labels")
    return label_counts(labels) if score.get("mean") is None and labels else whole_claim(score)


def scores_of(summary: Mapping[str, Any], evaluator: str) -> dict[str, Mapping[str, Any]]:
    """Return the scores of one evaluator in a summary, by name."""
    return {
        name: score for name, score in summary["scores"].items() if score["evaluator"] == evaluator
    }


_CLAIMS = ("mean", "interval", "bounds", "interim", "labels")


def claims_of(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the scores of a summary by name, as lists show them, as JSON data."""
    return {
        name: {part: score[part] for part in _CLAIMS if part in score}
        for name, score in scores.items()
    }


def headline(score: Mapping[str, Any]) -> str:
    """Return a mean with its interval: `0.842 (0.79–0.88)`.

    If scores are missing, the mean is over what completed, and the interval has them as worst and
    as best.
    """
    value, bounds = score.get("mean"), score.get("bounds")
    ends = bounds if bounds and "low" in bounds else score.get("interval")
    if value is None or not ends:
        return mean(value)
    low, high = ends["low"], ends["high"]
    return f"{_fixed(value, _decimals(low, high) + 1)} ({span(low, high)})"


def of_completed(score: Mapping[str, Any]) -> str:
    """Return how many cells a mean covers; empty if none are missing."""
    has_both = score.get("bounds") and score.get("mean") is not None
    return f"of {score['completed']:,} completed" if has_both else ""


def whole_claim(score: Mapping[str, Any]) -> str:
    """Return the headline with its qualifications."""
    first = headline(score)
    words = f"{first} {of_completed(score)}".rstrip()
    return f"{words} so far" if score.get("interim") and first != NO_MEAN else words


def span(low: float, high: float) -> str:
    """Return the ends of an interval, with decimals that fit its width: `0.79–0.88`."""
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


def people_notes(score: Mapping[str, Any]) -> Iterator[str]:
    """Yield the mean of a judge corrected by people's labels, or why it is not."""
    if found := score.get("calibrated"):
        labels = count(found["n_labelled"], "label")
        yield f"corrected by people: {with_ends(found['mean'], found)}, {labels}"
    if why := score.get("not_calibrated"):
        yield f"not corrected by people: {one_line(why)}"


def as_exact(value: float, interval: Mapping[str, Any]) -> str:
    """Return a number with as many digits as its interval warrants."""
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
    label = score.get("label") if score.get("value") is not None else None
    return one_line(label) if label else ""


def _split(score: Mapping[str, Any]) -> str:
    """Return how the votes are split, if they disagree."""
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
        yield part, record.get("label") if record.get("value") is None else record["value"]


def values_of(score: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield the values of an evaluator's record with their names; None: the only value.

    Raises:
        OtherFormatError: The record has neither a value nor scores.
    """
    if "scores" in score:
        yield from ((name, record["value"]) for name, record in score["scores"].items())
    elif "value" in score:
        yield None, score["value"]
    else:
        raise OtherFormatError(
            "a score was written by another version of Limpet",
            hint="nothing was changed: use that version of Limpet, or another directory",
        )


# ---- Did a run reach its `stop_when`, in words? -------------------------------------------------


def stop_when_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return lines that say whether `stop_when` was reached; empty if there was none."""
    said = summary.get("stop_when")
    if not said:
        return []
    scores = said["scores"].items()
    widths = ", ".join(
        f"{one_line(name)} ± {score['half_width']:.3g}"
        for name, score in scores
        if score["half_width"] is not None
    )
    both = ", ".join(
        f"{one_line(name)} ± {score['half_width']:.3g} (wanted ± {score['goal']:g})"
        for name, score in scores
        if score["half_width"] is not None
    )
    all_items, lines = count(said["of"], "item"), []
    if said["reached"] and said["items"] < said["of"]:
        lines.append(f"stopped at {said['items']:,} of {all_items}: {both}")
    elif said["reached"]:
        lines.append(f"stop_when was reached only with all {all_items}: {both}")
    else:
        goals = ", ".join(f"{one_line(name)} ± {score['goal']:g}" for name, score in scores)
        so_far = f", only {widths}" if widths else ""
        lines.append(f"{all_items} did not reach {goals}{so_far}")
    lines += [f"stop_when: {score['problem']}" for _, score in scores if "problem" in score]
    unselected = said.get("unselected", 0)
    for number, why in (
        (unselected, "this session does not select"),
        (said.get("outside", 0) - unselected, "an earlier session did not take in this order"),
    ):
        if number:
            items = count(number, "item")
            lines.append(f"{items} with results that {why} {_be(number)} not among these")
    return lines


def _be(number: int) -> str:
    return "is" if number == 1 else "are"
