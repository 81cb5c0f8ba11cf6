"""The list of changed answers: whole, each answer once, and the numbers of `limpet compare`.

What would make it lie, as somebody would try it who decides by this page:

| promise | what would break it | tested by |
|---|---|---|
| the whole list | a cut, so that all that is seen is worse; a page that skips or repeats an answer | `test_every_change_is_listed_once…`, `test_both_directions_come_first` |
| the numbers of the terminal | other rounding, lower is better, other order of items, items that only one run has, edited rows | `test_totals_are_those_of_limpet_compare` |
| each answer once | two scores, trials | `test_every_change_is_listed_once…`, `test_with_trials…` |
| failures are changes | a failed answer, a failed evaluator, both failed | `test_failures_are_told_from_worse_scores` |
| labels | the same label under another number | `test_labels_change_and_are_not_better` |
| search | only one of the runs has the text; a row of the base alone | `test_texts_of_both_runs_are_searched` |
| hidden scores stay hidden | filter, order, totals, search | test_labels.py |
| bounded | a thirteenth run | `test_a_thirteenth_run_is_refused` |
| a matrix | variants without a run, or of an older matrix | `test_a_matrix_is_listed…` |
"""  # noqa: E501 - a table

import json

import pytest
from label_pages import on_page
from multidict import MultiDict
from scored_runs import make, rows, scored_by

import limpet
from limpet.errors import LimpetError
from limpet.view.compare_answers import Compared
from limpet.view.viewed_runs import ViewedRuns

DIRECTIONS = ("better", "worse", "same", "failed", "recovered", "changed", "none")


@pytest.fixture
def runs(tmp_path):
    opened = ViewedRuns(tmp_path)
    yield opened
    opened.close()


def asked(runs, base="base", new="new", **query):
    found = Compared(runs, base, [new]).changes.answer(MultiDict(query))
    return found | {"ids": [row["id"] for row in found.get("rows", [])]}


def totals(found, score="correct"):
    return {name: many for name, many in found["scores"][score].items() if many}


def loss(output):
    return -float(output["score"])


NUMBERS = [0.1, 0.2, 0.3, 0.3, 0.9, 0.5, 0.1 + 0.2]
LATER = [0.2, 0.1, 0.3, 0.8, 0.0, 0.5, 0.3]


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_totals_are_those_of_limpet_compare(tmp_path, runs, higher_is_better):
    evaluators = [
        scored_by(higher_is_better=higher_is_better), scored_by(loss, "loss", range=(-1, 0)),
    ]  # fmt: skip
    first, later = rows(7), rows(8)[::-1]
    later[1]["answer"] = "edited: another item"
    make(tmp_path / "base", NUMBERS, dataset=first, evaluators=evaluators)
    make(tmp_path / "new", [9.0, *LATER[::-1]], dataset=later, evaluators=evaluators[1:], trials=1)
    with pytest.raises(LimpetError, match="loss"):
        asked(runs)  # -9 is outside of its range, and nothing else is in both
    make(tmp_path / "two", [0.5, *LATER[::-1]], dataset=later, evaluators=evaluators, trials=1)
    compared = limpet.compare(tmp_path / "base", tmp_path / "two").new[0]
    found = asked(runs, new="two")
    for name in ("correct", "loss"):
        score, counted = compared.scores[name], found["scores"][name]
        assert [counted[one] for one in ("better", "same", "worse")] == [
            score.better, score.same, score.worse,
        ]  # fmt: skip
        assert score.n == 6
        assert counted["none"] == 2  # the edited item, and the one that only the new run has
    for direction in ("better", "same", "worse"):
        listed = asked(runs, new="two", score="correct", direction=direction)
        assert listed["matching"] == len(listed["ids"]) == found["scores"]["correct"][direction]


def test_every_change_is_listed_once_over_all_pages(tmp_path, runs):
    evaluators = [scored_by(), scored_by(loss, "loss")]
    make(tmp_path / "base", "10" * 150, evaluators=evaluators)
    make(tmp_path / "new", "100" * 100, evaluators=evaluators)
    for sort in ("", "change", "-change", "position", "-position"):
        pages = [
            asked(runs, sort=sort, **{"from": str(at), "count": "40"}) for at in (0, 40, 80, 120)
        ]
        ids = [id_ for page in pages for id_ in page["ids"]]
        assert len(ids) == len(set(ids)) == pages[0]["matching"] == pages[0]["changed"]
    by_both = asked(runs)
    assert len(by_both["rows"][0]["scores"]) == 2


def test_both_directions_come_first(tmp_path, runs):
    make(tmp_path / "base", [0.5] * 9)
    make(tmp_path / "new", [0.6, 0.1, 0.4, 0.9, 0.3, 0.5, 0.45, 0.49, 0.48])
    assert asked(runs)["ids"] == ["q3", "q1", "q0", "q4", "q2", "q6", "q8", "q7"]
    assert asked(runs, sort="change")["ids"] == ["q1", "q4", "q2", "q6", "q8", "q7", "q0", "q3"]
    assert asked(runs, sort="-change")["ids"] == ["q3", "q0", "q7", "q8", "q6", "q2", "q4", "q1"]
    assert asked(runs, direction="better", sort="change")["ids"] == ["q0", "q3"]
    near = asked(runs, id="q0", trial="0")
    assert (near["at"], near["before"]["id"], near["after"]["id"]) == (2, "q1", "q4")
    assert asked(runs, id="q5")["at"] is None


def test_failures_are_told_from_worse_scores(tmp_path, runs):
    make(tmp_path / "base", "10fef1")
    make(tmp_path / "new", "fe10f1")
    found = asked(runs)
    assert totals(found) == {"failed": 2, "recovered": 2, "none": 1, "same": 1}
    first = found["rows"][0]
    assert first["scores"] == [
        {"name": "correct", "direction": "recovered", "base": None, "new": 1.0}
    ]
    assert "the model refused" in first["base"]["error"]
    assert asked(runs, direction="failed")["ids"] == ["q0", "q1"]


def test_with_trials_each_answer_has_its_place(tmp_path, runs):
    make(tmp_path / "base", "111 000 101", trials=3)
    make(tmp_path / "new", "11 01 10", trials=2)
    found = asked(runs, sort="position")
    assert [(row["id"], row["trial"]) for row in found["rows"]] == [("q1", 1)]
    assert (found["total"], totals(found)) == (6, {"better": 1, "same": 5})


def test_labels_change_and_are_not_better(tmp_path, runs):
    @limpet.evaluator
    def tone(output):
        return limpet.Score(None, output["score"])

    make(tmp_path / "base", ["kind", "rude", "kind", "odd"], evaluators=[tone])
    make(tmp_path / "new", ["rude", "kind", "kind", "odd"], evaluators=[tone])
    found = asked(runs)
    assert totals(found, "tone") == {"changed": 2, "same": 2}
    changes = limpet.compare(tmp_path / "base", tmp_path / "new").new[0].scores["tone"].changes
    assert sum(changes.values()) == 2
    assert found["rows"][0]["scores"] == [
        {"name": "tone", "direction": "changed", "base": "kind", "new": "rude"}
    ]


def test_texts_of_both_runs_are_searched(tmp_path, runs):
    make(tmp_path / "base", "1100", say=lambda id_, score: f"{id_} spoke of whales")
    make(tmp_path / "new", "0011", say=lambda id_, score: "squids" if id_ == "q2" else "fish")
    assert asked(runs, text="WHALES", sort="position")["ids"] == ["q0", "q1", "q2", "q3"]
    assert asked(runs, text="squid")["ids"] == ["q2"]
    assert asked(runs, text="q3")["ids"] == ["q3"]
    assert asked(runs, text="nothing such")["matching"] == 0


@pytest.mark.parametrize(
    "query", [{"score": "none"}, {"direction": "up"}, {"direction": "none"}, {"sort": "size"}]
)
def test_a_wrong_query_is_said(tmp_path, runs, query):
    for name in ("base", "new"):
        make(tmp_path / name, "10")
    with pytest.raises(LimpetError):
        asked(runs, **query)


def test_a_run_is_compared_with_itself(tmp_path, runs):
    make(tmp_path / "base", "10")
    assert totals(asked(runs, new="base")) == {"same": 2}
    assert totals(asked(runs, new='"base"')) == {"same": 2}


def test_several_runs_are_compared_as_limpet_compare_does(tmp_path):
    for name, answers in (("base", "0001" * 20), ("one", "1101" * 20), ("two", "0011" * 20)):
        make(tmp_path / name, answers)

    @on_page(tmp_path)
    async def found(client):
        assert (await client.get("changes?base=base&new=one&new=two"))[0] == 400
        return await client.data("compare?base=base&new=one&new=two")

    compared = limpet.compare(tmp_path / "base", tmp_path / "one", tmp_path / "two")
    for run, expected in zip(found["new"], compared.new, strict=True):
        score = expected.scores["correct"]
        there = run["scores"]["correct"]
        assert (there["p_holm"], there["verdict"]) == (score.p_holm, score.verdict)
    assert [run["run"] for run in found["new"]] == ["one", "two"]


def test_a_thirteenth_run_is_refused(tmp_path, runs):
    make(tmp_path / "base", "10")
    with pytest.raises(LimpetError, match="13 runs are too many: at most 12"):
        Compared(runs, "base", ["base"] * 12)
    assert len(Compared(runs, "base", ["base"] * 11).data["new"]) == 11


def test_a_matrix_is_listed_with_what_its_runs_vary(tmp_path):
    folder = tmp_path / "m"
    for name in ("a", "b", "older"):
        make(folder / name, "10")
    make(tmp_path / "alone", "10")
    variants = [{"name": name, "values": {"model.name": name}} for name in ("a", "b", "not begun")]
    matrix = {"labels": {"model.name": "model"}, "variants": variants}
    (folder / "matrix.json").write_text(json.dumps(matrix))

    def listed(directory):
        @on_page(directory)
        async def found(client):
            return (await client.data("matrices"))["matrices"]

        return found

    inside, of_all = listed(folder), listed(tmp_path)
    assert inside[0]["variants"] == [
        {"run": "a", "values": {"model": "a"}}, {"run": "b", "values": {"model": "b"}},
    ]  # fmt: skip
    assert [one["run"] for one in of_all[0]["variants"]] == ["m/a", "m/b"]
    assert len(of_all) == 1


def test_a_damaged_matrix_hides_no_other(tmp_path):
    for name in ("a", "b"):
        make(tmp_path / "m" / name, "10")
    (tmp_path / "m" / "matrix.json").write_text("{")

    @on_page(tmp_path)
    async def found(client):
        return await client.data("matrices")

    assert found == {"matrices": []}
