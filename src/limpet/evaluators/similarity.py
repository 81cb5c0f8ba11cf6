"""How close is the output to the expected text?

The measures are those of rapidfuzz and sacrebleu, which come with the extra `metrics` and are
imported when the first evaluator asks for them: whoever lacks them hears of it at once, and not
from a thousand failures.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal

from limpet import arguments
from limpet.errors import LimpetError
from limpet.evaluators.builtin import BuiltIn, one_among
from limpet.evaluators.expectation import expected_texts, no_text, text_of
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.types import Score

Method = Literal["ratio", "token_sort", "token_set", "levenshtein", "bleu", "chrf"]
Measure = Callable[[str, str], float]
"""From output and expected text to 0 (nothing in common) … 1 (equal)."""


def similarity(
    *, method: Method = "ratio", threshold: float | None = None, name: str = "similarity"
) -> Evaluator:
    """Score how close the output is to the expected text, from 0 to 1; equal texts are 1.

    Of a list of expected texts the closest counts.

    Args:
        method: "ratio" (edits), "token_sort" (words in any order), "token_set" (words in common),
            "levenshtein" (edits, as a share of the longer text), "bleu" or "chrf".
        threshold: From which closeness on the score is True, else False; None: the score is the
            closeness itself.
        name: What to call it.

    Raises:
        LimpetError: The extra `metrics` is not installed.
        TypeError: The threshold is no number.
        ValueError: There is no such method, or the threshold is not from 0 to 1.
    """
    one_among(tuple(_MEASURES), method=method)
    least = None if threshold is None else arguments.share(threshold=threshold)
    evaluator = _Similarity(name, method, least)
    _measure(method)
    return evaluator


@dataclass(frozen=True)
class _Similarity(BuiltIn):
    kind: ClassVar[str] = "similarity"
    method: str
    threshold: float | None

    def score(self, scored: Scored) -> Score:
        wanted = expected_texts(scored)
        output = text_of(scored.output)
        if output is None:
            value, reason = 0.0, f"{no_text(scored.output)}, not a text"
        else:
            value, reason = max(self._closeness(output, one) for one in wanted), None
        if self.threshold is None:
            return Score(value, explanation=reason)
        reason = reason or f"similarity {value:.3f}, threshold {self.threshold:g}"
        return Score(value >= self.threshold, explanation=reason, metadata={"similarity": value})

    def _closeness(self, output: str, expected: str) -> float:
        if output == expected:
            return 1.0  # some measures say otherwise of empty and of very short texts
        return min(max(_measure(self.method)(output, expected), 0.0), 1.0)


def _rapid(place: str, function: str, scale: float) -> Measure:
    measure = getattr(_library(f"rapidfuzz.{place}"), function)
    return lambda output, expected: float(measure(output, expected)) / scale


def _sacre(metric: str, **options: Any) -> Measure:
    measure = getattr(_library("sacrebleu.metrics"), metric)(**options)
    return lambda output, expected: float(measure.sentence_score(output, [expected]).score) / 100


_MEASURES: dict[str, Callable[[], Measure]] = {
    "ratio": lambda: _rapid("fuzz", "ratio", 100),
    "token_sort": lambda: _rapid("fuzz", "token_sort_ratio", 100),
    "token_set": lambda: _rapid("fuzz", "token_set_ratio", 100),
    "levenshtein": lambda: _rapid("distance.Levenshtein", "normalized_similarity", 1),
    # Without it, a text of less than four words is 0 whatever it says.
    "bleu": lambda: _sacre("BLEU", effective_order=True),
    "chrf": lambda: _sacre("CHRF"),
}


@functools.cache
def _measure(method: str) -> Measure:
    return _MEASURES[method]()


def _library(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise LimpetError(
            f"similarity needs {module.partition('.')[0]}, which cannot be imported: {error}",
            hint="pip install 'limpet[metrics]'",
        ) from error
