"""How did the last session of a run go over time: throughput, calls in flight, refusals, latency?

A column is in the order of time, so a few thousand records, evenly spaced, tell how many ended by
when: each stands for those up to the next. So a run of a million cells is read as fast as a small
one, and a small one is drawn exactly.
"""

import time
from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from orjson import JSONDecodeError, loads

from limpet.journal.files import open_to_read
from limpet.run.reading.facts_reader import FactsReader
from limpet.run.reading.progress import seconds_of
from limpet.run.reading.reader import RunReader
from limpet.run.results.costs import is_bounded

_MOST_POINTS, _LEAST_S = 240, 0.5
_MOST_SAMPLES = 2_048
_GROUP_BYTES = 2**20
_FAILED = b'"event":"failed"'
_REFUSED = ("rate_limit", "quota")
Floats = NDArray[np.float64]


class Timeline:
    """The last session of a run over time; it grows with the run.

    Args:
        reader: Reads the run.
    """

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._session = ""
        self._samples: dict[str, _Samples] = {}
        self._refusals = _Refusals()

    def data(self, in_flight: Sequence[float] = ()) -> dict[str, list[Any]]:
        """Return times in seconds since 1970, and what happened by then since the time before.

        `per_s`: how many cells ended each second; `in_flight`: how many were worked on;
        `refused`: how many calls were refused each second; `p50_s`: how long the cells of the
        workflow that ended took, the median; None where none ended.

        Args:
            in_flight: How long the calls in flight have been running, in seconds.
        """
        reader = self._reader
        if reader.began_at != self._session:
            self._session = reader.began_at
            self._samples, self._refusals = {}, _Refusals(reader.session.events_at or 0)
        for name in (reader.step, *reader.evaluators):
            recorded = reader.session.steps.get(name)
            start = 0 if recorded is None else recorded.bytes_at
            samples = self._samples.setdefault(name, _Samples(start))
            samples.read(reader.columns[name])
        self._refusals.read(reader)
        began = seconds_of(reader.began_at)
        now = [time.time()] if in_flight else []
        ends = now + [samples.ended[-1] for samples in self._samples.values() if samples.ended]
        if began is None or not ends or max(ends) <= began:
            return {"t": [], "per_s": [], "in_flight": [], "refused": [], "p50_s": []}
        drawn = self._drawn(_steps(began, max(ends)), max(ends) - np.array(in_flight))
        # The last step is not over: what happened in it would look like a sudden end.
        return {name: values[:-1] if len(values) > 1 else values for name, values in drawn.items()}

    def _drawn(self, edges: Floats, begun: Floats) -> dict[str, list[Any]]:
        width = edges[1] - edges[0]
        per_s, in_flight = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        for samples in self._samples.values():
            ended, took = np.array(samples.ended), np.array(samples.took)
            per_s += np.histogram(ended, edges)[0] * samples.stride / width
            in_flight += _overlap(ended - took, ended, edges) * samples.stride / width
        in_flight += _overlap(begun, np.full(len(begun), edges[-1]), edges) / width
        answers = self._samples[self._reader.step]
        refused = np.histogram(np.array(self._refusals.at), edges)[0] / width
        return {
            "t": _rounded(edges[1:], 3),
            "per_s": _rounded(per_s, 3),
            "in_flight": _rounded(in_flight, 2),
            "refused": _rounded(refused, 3),
            "p50_s": _medians(np.array(answers.ended), np.array(answers.took), edges),
        }


class _Samples:
    """When some of the records of a column were written, and how long each cell took."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._seen = 0
        self.stride = 1
        self.ended, self.took = array("d"), array("d")

    def read(self, column: FactsReader) -> None:
        count = column.count_since(self._start)
        while not self._seen and count > _MOST_SAMPLES * self.stride:
            self.stride *= 2
        keys = column.since(self._start) if self._start else column.keys()
        for key in islice(keys, self._seen + -self._seen % self.stride, None, self.stride):
            facts = column.facts(key) or {}
            took = facts.get("seconds", 0.0)
            ended = seconds_of(facts.get("at"))
            latest = self.ended[-1] if self.ended else 0.0
            self.ended.append(latest if ended is None else max(latest, ended))
            self.took.append(took if isinstance(took, (int, float)) and is_bounded(took) else 0.0)
        self._seen = count
        while len(self.ended) > _MOST_SAMPLES:
            self.stride *= 2
            self.ended, self.took = self.ended[::2], self.took[::2]


class _Refusals:
    """When calls were refused."""

    def __init__(self, start: int = 0) -> None:
        self._end = start
        self.at = array("d")

    def read(self, reader: RunReader) -> None:
        with suppress(FileNotFoundError), open_to_read(reader.layout.events) as file:
            file.seek(self._end)
            rest = b""
            while text := file.read(_GROUP_BYTES):
                whole, newline, rest_of_text = text.rpartition(b"\n")
                if not newline:
                    rest += text
                    continue
                whole, rest = rest + whole, rest_of_text
                self._end += len(whole) + 1
                if _FAILED in whole:  # most of the log is not about failures
                    for line in whole.split(b"\n"):
                        if _FAILED in line:
                            self._add(line)

    def _add(self, line: bytes) -> None:
        with suppress(JSONDecodeError, AttributeError):
            event = loads(line)
            at = seconds_of(event.get("at"))
            if event.get("class") in _REFUSED and at is not None:
                self.at.append(at)


def _steps(began: float, ended: float) -> Floats:
    """Return the ends of equal steps from the beginning on: as long as a run grows, they stay."""
    width = _LEAST_S
    while (ended - began) / width > _MOST_POINTS:
        width *= 2
    count = int((ended - began) // width) + 1
    return np.arange(count + 1, dtype=np.float64) * width + began


def _overlap(begins: Floats, ends: Floats, edges: Floats) -> Floats:
    """Return for how many seconds of each step the intervals last, added up."""

    def until(times: Floats) -> Floats:
        """Return the seconds since these times, added up, at each edge."""
        times = np.sort(times)
        before = np.searchsorted(times, edges)
        sums = np.concatenate([[0.0], np.cumsum(times)])
        found: Floats = before * edges - sums[before]
        return found

    return np.diff(until(begins) - until(ends))


def _medians(ended: Floats, took: Floats, edges: Floats) -> list[float | None]:
    bounds = np.searchsorted(ended, edges)
    return [
        round(float(np.median(took[begin:end])), 4) if end > begin else None
        for begin, end in pairwise(bounds)
    ]


def _rounded(values: Floats, decimals: int) -> list[Any]:
    return [float(value) for value in np.round(np.maximum(values, 0), decimals)]
