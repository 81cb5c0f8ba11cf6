"""The worst of a run, found by the scores alone, are those found by reading every item."""

import pytest

import limpet
from limpet.run.reading import RunReader
from limpet.run.reading.run_results import worst_cells
from limpet.run.results.filters import Filter
from limpet.run.results.score_words import ScoreName


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = tmp_path_factory.mktemp("worst") / "run"

    def several(output):
        if output % 5 == 0:
            raise ValueError("no score")
        return {"low": output % 3, "high": 1 - output % 2}

    def one(output):
        return limpet.Score(None, "none") if output % 4 == 1 else (output % 4) / 4

    limpet.evaluate(
        [{"id": str(n), "question": n} for n in range(20)], lambda question: question,
        {"several": several, "one": one}, run=limpet.Run(run, durability="flush"), version="1",
        trials=2, retry=0, fail_fast=False,
    )  # fmt: skip
    return run


@pytest.mark.quick(4)
@pytest.mark.parametrize("highest", [False, True])
@pytest.mark.parametrize("most", [1, 7, 100])
@pytest.mark.parametrize("name", ["one", "several", "several.low"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_they_are_those_of_reading_all(run, name, most, highest, is_killed):
    score = ScoreName(*name.split("."))
    wanted = Filter(sort=score, descending=highest, worst=most)
    assert wanted.is_only_worst
    if is_killed:
        (run / "index" / "numbers").unlink(missing_ok=True)
    with RunReader(run) as reader:
        all_of_them = wanted.ordered(reader.items())
        found = reader.items_at(worst_cells(reader, score, most, highest=highest))
        assert [(item.id, item.trial) for item in wanted.ordered(found)] == [
            (item.id, item.trial) for item in all_of_them
        ]
