"""How much of a value, and what about each score of a summary, is sent to a page?"""

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from limpet.run.results.score_words import headline, of_completed, people_notes
from limpet.text import one_line

# ---- How much of a value is sent to a page? -----------------------------------------------------
#
# A value from a dataset or a model may have any size, depth and type. A page gets it as JSON up to
# a limit, otherwise the beginning of its text.

PART, WHOLE = 64 * 1024, 256 * 1024
"""How many characters of a value are sent, and how many on request: a browser takes minutes to
wrap a megabyte without spaces."""
_LINE, _HEAD = 200, 2_000
_EXACT = 2**53
_LONG_NUMBER = re.compile(rb"[:\[,]-?[0-9]{16}")
"""A page would round such a whole number: the value is sent as text."""
IMAGES = 12 * 1024 * 1024
"""How many characters of images in `data:` URLs are sent beside that: they are no text to wrap."""
_IMAGE = re.compile(rb'"data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/=]*"')


class Shortener:
    """Shortens values, and counts the characters left out.

    Args:
        limit: The most characters of a value.
        images: The most characters of images, in all values together.

    Attributes:
        shortened: How many characters were left out.
    """

    def __init__(self, limit: int = PART, images: int = 0) -> None:
        self._limit, self._images = limit, images
        self.shortened = 0

    def __call__(self, value: Any) -> Any:
        """Return the value as JSON data, shortened to the limit."""
        if value is None or isinstance(value, (bool, float)):
            return value
        if isinstance(value, int):
            return value if abs(value) <= _EXACT else self._part(as_text(value))
        if isinstance(value, str) and not value.startswith("data:image/"):
            return self._part(value)
        try:
            text = orjson.dumps(value, default=one_line)
        except (TypeError, ValueError, RecursionError):  # too deep, or a number too large
            return self._part(as_text(value))
        if _LONG_NUMBER.search(text):
            return self._part(as_text(value))
        images = sum(len(one[0]) for one in _IMAGE.finditer(text)) if self._images else 0
        if len(text) <= self._limit + min(images, self._images):
            self._images -= min(images, self._images)
            return orjson.loads(text)
        return self._part(as_text(value))

    def _part(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent
        self.shortened += max(0, len(text) - self._limit)
        return text[: self._limit]


def as_text(value: Any) -> str:
    """Return a value as text: a string as it is, the rest as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=1, default=one_line)
    except (TypeError, ValueError, RecursionError):
        return "nested too deeply to be shown"


def line_of(value: Any) -> str | None:
    """Return the beginning of a value on one line, for a table."""
    if value is None:
        return None
    if not isinstance(value, str):
        with_commas = value[:20] if isinstance(value, list) else value
        try:
            text = orjson.dumps(with_commas, default=one_line).decode()
        except (TypeError, ValueError, RecursionError):
            text = as_text(value)
    else:
        text = value
    text = " ".join(text[:_HEAD].split())
    return text[:_LINE].encode("utf-8", "replace").decode()


# ---- What does a page show about each score of a summary? ---------------------------------------


def score_claims(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each score of a summary: its mean, its interval and remarks on them."""
    scores, evaluators = summary.get("scores", {}), summary.get("evaluators", {})
    return [_claim(name, score, evaluators[score["evaluator"]]) for name, score in scores.items()]


def _claim(name: str, score: Mapping[str, Any], evaluator: Mapping[str, Any]) -> dict[str, Any]:
    bounds = score.get("bounds") or {}
    interval = score.get("interval") or {}
    is_bounded = "low" in bounds
    ends = bounds if is_bounded else interval
    waiting = bounds.get("in_flight", 0)
    return {
        "name": name,
        "mean": score.get("mean"),
        "low": ends.get("low"),
        "high": ends.get("high"),
        "words": headline(score),
        "beside": of_completed(score),
        "bounded": is_bounded,
        "missing": bounds.get("missing", 0) - waiting,
        "waiting": waiting,
        "method": interval.get("method"),
        "range": score.get("range"),
        "higher_is_better": score.get("higher_is_better", True),
        "interim": bool(score.get("interim")),
        "n": score.get("completed", 0),
        "failed": sum(evaluator.get("failed", {}).values()),
        "notes": [*filter(None, [score.get("interval_note")]), *people_notes(score)],
        "labels": score.get("labels") or {},
    }
