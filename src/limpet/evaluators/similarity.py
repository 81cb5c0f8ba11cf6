"""How similar is the output to the expected string?

The measures come from rapidfuzz and sacrebleu, in the extra `metrics`. They are imported when the
evaluator is created: a missing one is an error at once, not a thousand failures later.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal

from limpet import arguments
from limpet.errors import LimpetError
from limpet.evaluators.builtin import BuiltIn, as_string, check_choice, why_no_string
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.shapes import Score

Method = Literal["ratio", "token_sort", "token_set", "levenshtein", "bleu", "chrf"]
Measure = Callable[[str, str], float]
"""Returns how similar output and expected string are: 0 (nothing in common) to 1 (equal)."""


def similarity(
    *, method: Method = "ratio", threshold: float | None = None, name: str = "similarity"
) -> Evaluator:
    """Score how similar the output is to the expected string, from 0 to 1 (equal).

    If the item expects a list of strings, the closest is used.

    Args:
        method: "ratio" (edits), "token_sort" (words in any order), "token_set" (words in common),
            "levenshtein" (edits, as a share of the longer string), "bleu" or "chrf".
        threshold: Score True at or above this similarity, else False; None: score the similarity.
        name: Its name.

    Raises:
        LimpetError: The extra `metrics` is not installed.
        TypeError: The threshold is not a number.
        ValueError: The method is unknown, or the threshold is not from 0 to 1.
    """
    check_choice(tuple(_MEASURES), method=method)
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
        expected = self._expected_strings(scored)
        output = as_string(scored.output)
        if output is None:
            value, why = 0.0, why_no_string(scored.output)
        else:
            value, why = max(self._similarity(output, string) for string in expected), None
        if self.threshold is None:
            return Score(value, explanation=why)
        why = why or f"similarity {value:.3f}, threshold {self.threshold:g}"
        return Score(value >= self.threshold, explanation=why, metadata={"similarity": value})

    def _similarity(self, output: str, expected: str) -> float:
        if output == expected:
            return 1.0  # some measures differ for empty and very short strings
        return min(max(_measure(self.method)(output, expected), 0.0), 1.0)


def _rapidfuzz(module: str, function: str, scale: float) -> Measure:
    measure = getattr(_imported(f"rapidfuzz.{module}"), function)
    return lambda output, expected: float(measure(output, expected)) / scale


def _sacrebleu(metric: str, **options: Any) -> Measure:
    measure = getattr(_imported("sacrebleu.metrics"), metric)(**options)
    return lambda output, expected: float(measure.sentence_score(output, [expected]).score) / 100


_MEASURES: dict[str, Callable[[], Measure]] = {
    "ratio": lambda: _rapidfuzz("fuzz", "ratio", 100),
    "token_sort": lambda: _rapidfuzz("fuzz", "token_sort_ratio", 100),
    "token_set": lambda: _rapidfuzz("fuzz", "token_set_ratio", 100),
    "levenshtein": lambda: _rapidfuzz("distance.Levenshtein", "normalized_similarity", 1),
    # Without it, any string of fewer than four words is 0.
    "bleu": lambda: _sacrebleu("BLEU", effective_order=True),
    "chrf": lambda: _sacrebleu("CHRF"),
}


@functools.cache
def _measure(method: str) -> Measure:
    return _MEASURES[method]()


def _imported(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise LimpetError(
            f"similarity needs {module.partition('.')[0]}, which cannot be imported: {error}",
            hint="pip install 'limpet[metrics]'",
        ) from error
