"""Numbers beyond what a float or 64 bits can hold: the run's files are written, and are JSON."""

import json

import pytest

import limpet
import limpet.run.watcher
from limpet.report.status import status_data
from limpet.report.summary import remarks
from limpet.run.reading import open_run
from limpet.run.reading.description import describe
from tests.exported import exported

ROWS = [{"id": str(one), "input": one} for one in range(4)]


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([1.7e308] * 4, 1.7e308),
        ([1.7e308, 1.7e308, -1.7e308, -1.7e308], 0.0),
        ([1.7976931348623157e308] * 4, 1.7976931348623157e308),
        ([1e308, 1e308, 1e308, 0.0], 7.5e307),
        ([0.1, 0.2, 0.3, 0.4], 0.25),
    ],
)
def test_scores_that_sum_beyond_a_float_have_a_mean(scores, mean, tmp_path):
    def big(output):
        return {"one": scores[output], "two": scores[output]}

    given = {"plain": lambda output: scores[output], "several": big}
    result = limpet.evaluate(ROWS, lambda question: question, given, tmp_path / "run")
    summary = strict((tmp_path / "run" / "summary.json").read_text())
    assert summary["scores"]["plain"]["mean"] == pytest.approx(mean)
    for part in ("one", "two"):
        assert summary["scores"][f"several.{part}"]["mean"] == pytest.approx(mean)
    written = exported(tmp_path / "run", "plain")
    assert written["average_score"] == pytest.approx(mean)
    assert result.stop_reason is None


FEW = {"prompt_tokens": 4, "completion_tokens": 4, "total_tokens": 8}
LOUD = {"models": {"m": {"total_tokens": 10**400}}, "times": {"llm_latency": float("inf")}}


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (limpet.Usage(1, 1, cost=1e308), FEW),
        (limpet.Usage(1, 1, cost=float("nan")), FEW),
        (limpet.Usage(1, 1, **LOUD), FEW),
        (limpet.Usage(2**70, 0, 2**70), {}),
        (limpet.Usage(10**5000, 1), {"completion_tokens": 4, "total_tokens": 4}),
        (limpet.Usage(10**308, 10**308), {}),
    ],
)
def test_what_cannot_be_added_up_is_left_out_of_the_sums_and_nothing_is_lost(usage, told, tmp_path):
    def answer(question):
        return limpet.Output(question, usage=usage)

    watcher = limpet.run.watcher.Tally()
    prices = {"m": {"prompt": 1.0}}
    result = limpet.evaluate(
        ROWS, answer, (), tmp_path / "run", prices=prices, watcher=watcher, version="1"
    )
    assert [one.status for one in result.items] == ["completed"] * 4
    summary = strict((tmp_path / "run" / "summary.json").read_text())
    used = summary["workflow"]["usage"]
    used = {name: one for name, one in used.items() if one and name != "cost"}
    assert used == told
    assert "llm_latency_p95" not in summary["workflow"]
    remarks(summary, 1.0)
    assert watcher.snapshot().steps[0].tokens.keys() >= told.keys()
    with open_run(str(tmp_path / "run")) as reader:
        strict(json.dumps(status_data(describe(reader, reader.snapshot()))))
    again = limpet.evaluate(ROWS, answer, (), tmp_path / "run", version="1")
    assert again.plan.workflow.kept == 4


def test_items_with_unlike_numbers_of_huge_scores_have_a_mean(tmp_path):
    answers = iter([1e308, 1e308, 1.0, None, None, 1.0])  # items, trial by trial

    def answer(question):
        if (score := next(answers)) is None:
            raise limpet.PermanentError("no answer")
        return score

    def size(output):
        return output

    result = limpet.evaluate(
        ROWS[:3], answer, [size], tmp_path / "run", trials=2, version="1", pace=1, retry=0,
        fail_fast=False,
    )  # fmt: skip
    assert result.summary["scores"]["size"]["mean"] == pytest.approx(1e308 / 3 * 2)
