"""Whatever the scores: a summary is the same however it is added up, and claims what it can."""

import json
import math
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import limpet
from limpet.run.reading import RunReader
from limpet.run.results.summary import Numbers
from limpet.types import Scale

FAILS = st.just("fails")
UNFIT = st.just("has no score")
LABEL = st.sampled_from(["kind", "rude"])
scores = st.one_of(
    st.booleans(),
    st.booleans(),
    st.floats(0, 1),
    st.floats(-1e300, 1e300),
    LABEL,
    st.fixed_dictionaries({"tone": st.floats(0, 1)}, optional={"style": st.integers(1, 5)}),
)
answers = st.one_of(scores, scores, scores, FAILS, UNFIT)
scales = st.builds(
    Scale,
    range=st.sampled_from([None, (0, 1), (1, 5)]),
    group=st.sampled_from([None, "topic"]),
    higher_is_better=st.booleans(),
)


@st.composite
def runs(draw):
    trials = draw(st.integers(1, 3))
    items = draw(st.lists(st.lists(answers, min_size=trials, max_size=trials), max_size=9))
    topics = [draw(st.sampled_from(["a", "b", "c", "d", "e", "f", None])) for _ in items]
    return items, topics, trials, draw(scales)


@given(runs())
@settings(max_examples=4 if settings.default.derandomize else 25)
def test_a_summary_read_from_columns_is_that_of_the_items_one_by_one(run):
    items, topics, trials, scale = run
    calls = [0] * len(items)

    def workflow(question):
        given, calls[question] = items[question][calls[question]], calls[question] + 1
        if given == "fails":
            raise ValueError("no answer")
        return given

    def judged(output):
        if output == "has no score":
            raise ValueError("no score")
        return output

    rows = [
        {"id": str(at), "question": at, **({} if topic is None else {"topic": topic})}
        for at, topic in enumerate(topics)
    ]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "run"
        result = limpet.evaluate(
            [{"id": "more", "question": len(rows), "topic": "z"}, *rows],
            lambda question: 1 if question == len(rows) else workflow(question),
            [limpet.evaluators.as_evaluator(judged, scale=scale)],
            run=path,
            trials=trials,
            version="1",
            fail_fast=False,
            retry=limpet.Retry(max_retries=0),
            show=False,
        )
        (path / "index" / "numbers").unlink()
        with RunReader(path) as reader:
            totals = reader.summary()
            numbers = Numbers(reader.evaluators, reader.trials, reader.run_file.scales)
            for item in reader.items():
                numbers.add(item)
            assert totals == numbers.summary()
        written = json.loads((path / "summary.json").read_text(), parse_constant=_refuse)
    assert totals == {name: written[name] for name in totals}
    assert totals == {name: result.summary[name] for name in totals}
    for score in totals["scores"].values():
        assert score["evaluator"] == "judged"
        _check({name: score.get(name) for name in ("mean", "interval", "bounds")}, scale)


def _refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def _check(claimed, scale):
    mean, interval, bounds = claimed["mean"], claimed["interval"], claimed["bounds"]
    ends = [one for one in (interval, bounds) if one and "low" in one]
    for one in ends:
        assert one["low"] <= one["high"]
        assert one["low"] <= mean or math.isclose(one["low"], mean, abs_tol=1e-9)
        assert one["high"] >= mean or math.isclose(one["high"], mean, abs_tol=1e-9)
        if scale.range is not None:
            assert scale.range[0] <= one["low"]
            assert one["high"] <= scale.range[1]
    if len(ends) == 2:  # failures never make it look surer
        assert bounds["low"] <= interval["low"]
        assert bounds["high"] >= interval["high"]
    if bounds:
        assert bounds["missing"] > 0
        lowest, highest = sorted([bounds["worst"], bounds["best"]])
        assert lowest <= mean + 1e-9
        assert highest >= mean - 1e-9
        assert (bounds["worst"] <= bounds["best"]) == scale.higher_is_better
