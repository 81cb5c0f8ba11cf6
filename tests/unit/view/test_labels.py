"""Labels: none is lost, no score is seen before the label, and nothing else is written."""

import asyncio
import json
import os
import shutil
from dataclasses import replace

import pytest
from aiohttp import ClientSession
from label_pages import Client, lines, on_page, page

import limpet
from limpet.run.calibrating.labels import LabelsLog
from limpet.run.calibrating.sampling import PeopleFile
from limpet.run.reading import RunReader
from limpet.run.reading.items import Earlier
from limpet.view.server import serving

ROWS = [
    {"id": f"q{n}", "question": f"Say {n}", "answer": str(n), "parity": n % 2} for n in range(8)
]


def verdict(says, of):
    """Return a judge that says something else of some items."""

    @limpet.evaluator(name="right", range=(0, 1), version="1")
    def judge(output, item):
        if item.id in of:
            return says(output)
        good = int(output) % 3 > 0
        return limpet.Score(good, "good" if good else "bad", f"reason {output}")

    return judge


def good(output):
    return limpet.Score(True, "good", "a fine answer")


def bad(output):
    return limpet.Score(False, "bad", "an awful answer", {"votes": {"good": 1, "bad": 2}})


def fails(output):
    raise limpet.PermanentError("the judge gave up")


def unclear(output):
    return limpet.Score(None, "bad", "who knows")


@limpet.evaluator
def parts(output):
    n = int(output)
    return {"tone": limpet.Score(n % 2, "kind"), "facts": limpet.Score(n % 5 / 4)}


@limpet.evaluator(range=(1, 5))
def stars(output):
    return int(output) % 5 + 1


def last_word(question):
    return question.split()[-1]


DRAWN = ("q3", "q4", "q6")
"""What seed 3 draws, which a test checks."""


def evaluate(path, judge=good, of=DRAWN):
    result = limpet.evaluate(
        ROWS, last_word, [verdict(judge, of), parts, stars], version="1", show=False, retry=0,
        run=limpet.Run(path, durability="flush"), fail_fast=False, trials=2,
    )  # fmt: skip
    result.sample(3, path.parent / f"{path.name}.csv", seed=3)
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    evaluate(folder / "runs" / "one")
    return folder / "runs"


@pytest.fixture
def runs(made, tmp_path):
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


def drawn_in(runs):
    with RunReader(runs / "one") as reader:
        return [(cell.id, cell.trial) for cell in PeopleFile.load(reader.layout).draws[0].cells]


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ---- no score is seen before the label ----------------------------------------------------------

QUERIES = (
    "items?run=one", "items?run=one&sort=right", "items?run=one&sort=-right",
    "items?run=one&sort=parts.tone", "items?run=one&sort=-stars", "items?run=one&draw=1",
    "items?run=one&draw=1&sort=-right", "items?run=one&below=right:0.5",
    "items?run=one&above=right:0.5", "items?run=one&below=right:2", "items?run=one&label=right:bad",
    "items?run=one&label=right:good", "items?run=one&failed=1", "items?run=one&disagree=1",
    "items?run=one&text=awful", "items?run=one&text=fine", "items?run=one&text=gave%20up",
    "items?run=one&text=bad", "items?run=one&labelled=1", "items?run=one&labelled=0",
    *(f"near?run=one&id={id_}&sort=right" for id_ in ("q0", *DRAWN)),
    *(f"near?run=one&id={id_}&failed=1" for id_ in DRAWN),
    *(f"item?run=one&id={id_}&trial={trial}&whole=1" for id_ in DRAWN for trial in (0, 1)),
    "items?run=one&least=right:0.5", "items?run=one&most=right:0.5", "by?run=one&field=parity",
    "compare?base=other&new=one", "compare?base=one&new=other",
    "compare?base=other&new=one&new=one", "changes?base=other&new=one",
    "changes?base=one&new=other&sort=change", "changes?base=one&new=other&sort=-change",
    *(f"changes?base=other&new=one&score=right&direction={direction}&sort=change"
      for direction in ("better", "worse", "failed", "recovered", "same")),
    "changes?base=other&new=one&text=awful", "changes?base=other&new=one&text=fine",
    "changes?base=one&new=other&text=gave%20up", "changes?base=one&new=other&text=bad",
    *(f"changes?base=other&new=one&id={id_}" for id_ in DRAWN),
)  # fmt: skip
NOT_OF_ITEMS = {"columns", "can_disagree", "scores", "cost", "latency", "failed_scores", "choices"}
"""Of all items together: means, and which labels there are."""


def comparable(data, path=""):
    """Return an answer without times, and without what is said of all items together."""
    if isinstance(data, dict):
        of_all = NOT_OF_ITEMS if path in ("", "/new", "/base", "/labelling") else set()
        times = {"seconds", "at", "started_at", "ended_at", "began", "range", "kind"}
        if path.startswith("/base"):
            return None
        return {
            name: comparable(value, f"{path}/{name}")
            for name, value in data.items()
            if name not in of_all | times
        }
    if isinstance(data, list):
        return [comparable(value, path) for value in data]
    return data


@pytest.fixture(scope="module")
def with_verdicts(tmp_path_factory):
    """Return the answers of pages on runs that differ in what the judge said of drawn items."""
    folder = tmp_path_factory.mktemp("verdicts")
    evaluate(folder / "other", verdict_of_half, [row["id"] for row in ROWS])

    class Answers(dict):
        def __missing__(self, name):
            runs = folder / name
            evaluate(runs / "one", {one.__name__: one for one in (good, bad, fails, unclear)}[name])
            shutil.copytree(folder / "other", runs / "other")
            (runs / "other" / "people.json").unlink()

            @on_page(runs)
            async def found(client):
                return {query: await client.get(query) for query in QUERIES}

            self[name] = found
            return found

    return Answers()


def verdict_of_half(output):
    return limpet.Score(int(output) % 2, "good" if int(output) % 2 else "bad", "half")


def test_the_draw_is_the_one_that_these_tests_are_about(made):
    assert {id_ for id_, _ in drawn_in(made)} == set(DRAWN)


@pytest.mark.quick(4)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("says", ["bad", "fails", pytest.param("unclear", marks=pytest.mark.slow)])
def test_no_answer_depends_on_what_the_judge_said_of_a_drawn_item(with_verdicts, query, says):
    status, one = with_verdicts["good"][query]
    assert status == 200, one
    status, other = with_verdicts[says][query]
    assert status == 200
    assert comparable(one) == comparable(other)


def test_two_runs_are_compared_without_the_drawn_items(with_verdicts):
    found = with_verdicts["bad"]["compare?base=other&new=one"][1]["new"][0]
    changes = with_verdicts["bad"]["changes?base=other&new=one"][1]
    changed = {row["id"] for row in changes["rows"]}
    assert changed
    assert not changed & set(DRAWN)
    assert changes["scores"]["right"]["none"] == 6
    assert "3 items were drawn" in found["notes"][-1]
    # Beside the totals of the rest, these would tell how the drawn ones changed.
    assert [found["scores"]["right"][name] for name in ("better", "same", "worse")] == [None] * 3


def test_the_run_page_names_no_drawn_item_among_the_failures(tmp_path):
    evaluate(tmp_path / "one", fails)

    @on_page(tmp_path)
    async def found(client):
        return (await client.data("run?run=one"))["failures"]

    assert found == []


def test_no_bar_depends_on_what_the_judge_said_of_a_drawn_item(tmp_path):
    found = []
    for says in (good, bad, fails):
        evaluate(tmp_path / says.__name__ / "one", says)

        @on_page(tmp_path / says.__name__)
        async def shape(client):
            return (await client.data("run?run=one"))["shape"]["scores"]

        found.append(shape)
    assert found[0] == found[1] == found[2]
    right = next(one for one in found[0] if one["name"] == "right")
    assert (right["n"], right["hidden"]) == (10, 6)  # five of eight items, in two trials
    assert sum(right["counts"]) == 10


def test_a_label_shows_the_score_it_is_about_and_no_other(runs):
    (id_, trial), *_ = drawn_in(runs)

    @on_page(runs)
    async def main(client):
        before = await client.item(id_, trial)
        assert (before["hidden"], before["scores"], before["raw"]["scores"]) == (True, [], {})
        status, answer = await client.label(id_, "good", trial=trial)
        assert (status, set(answer)) == (200, {"id", "trial", "label", "note"})
        item = await client.item(id_, trial)
        assert [score["name"] for score in item["scores"]] == ["right"]
        await client.label(id_, 1, "parts.tone", trial)
        item = await client.item(id_, trial)
        assert [score["name"] for score in item["scores"]] == ["right", "parts.tone"]
        assert list(item["raw"]["scores"]) == ["right", "parts.tone"]
        assert item["hidden"]
        await client.label(id_, 0, "parts.facts", trial)
        await client.label(id_, 3, "stars", trial)
        item = await client.item(id_, 1 - trial)
        assert (len(item["scores"]), item["hidden"]) == (4, False)
        row = next(
            row
            for row in (await client.data("items?run=one"))["rows"]
            if (row["id"], row["trial"]) == (id_, trial)
        )
        assert (row["label"], row["hidden"]) == ("good", False)

    assert [line.get("seen", False) for line in lines(runs)] == [False] * 4


def test_a_label_of_another_trial_does_not_show_the_scores_of_the_drawn_one(runs):
    (id_, trial), *_ = drawn_in(runs)

    @on_page(runs)
    async def main(client):
        await client.label(id_, "good", trial=1 - trial)
        for each in (0, 1):
            assert (await client.item(id_, each))["scores"] == []
        assert (await client.item(id_, 1 - trial))["labelling"]["drawn_trials"] == [trial]


def test_replies_of_models_and_scores_of_earlier_answers_are_hidden(runs, monkeypatch):
    (id_, trial), *_ = drawn_in(runs)
    item = RunReader.item

    def with_more(reader, id_):
        ballots = {"right": [{"reason": "a fine ballot"}]}
        return [
            replace(
                one, ballots=ballots, earlier=(Earlier(one.item.entry, one.scores),), in_flight=()
            )
            for one in item(reader, id_)
        ]

    monkeypatch.setattr(RunReader, "item", with_more)

    @on_page(runs)
    async def main(client):
        before = json.dumps(await client.item(id_, trial))
        assert "fine" not in before
        assert '"scores": {"right"' not in before
        await client.label(id_, "good", trial=trial)
        after = await client.item(id_, trial)
        assert after["scores"][0]["replies"]
        assert list(after["raw"]["earlier"][0]["scores"]) == ["right"]


def test_a_note_alone_shows_nothing_and_voids_no_label(runs):
    (id_, trial), (other, its), *_ = drawn_in(runs)

    @on_page(runs)
    async def main(client):
        assert (await client.label(id_, None, None, trial, note="odd"))[0] == 200
        item = await client.item(id_, trial)
        assert (item["scores"], item["label"]["note"]) == ([], "odd")
        await client.label(other, "good", trial=its)
        await client.label(other, None, None, its, note="odd")
        assert len((await client.item(other, its))["scores"]) == 1

    found = limpet.load_run(runs / "one").calibrate("right")
    assert found.labelled == 1


def test_what_was_taken_back_is_hidden_again_and_the_next_label_counts_as_seen(runs):
    (id_, trial), *_ = drawn_in(runs)

    @on_page(runs)
    async def main(client):
        await client.label(id_, "good", trial=trial)
        await client.label(id_, None, trial=trial)
        assert (await client.item(id_, trial))["scores"] == []
        await client.label(id_, "bad", trial=trial)
        assert len((await client.item(id_, trial))["scores"]) == 1

    assert [line.get("seen", False) for line in lines(runs)] == [False, True, True]
    found = limpet.load_run(runs / "one").calibrate("right")
    assert (found.labelled, found.drawn, found.corrected) == (1, 0, None)
    assert any("labelled with the scores in view" in remark for remark in found.remarks)


def test_a_label_that_is_changed_after_the_scores_were_shown_leaves_the_first_one_to_count(runs):
    @on_page(runs)
    async def main(client):
        for id_, trial in drawn_in(runs):
            await client.label(id_, "good", trial=trial)
            await client.label(id_, "bad", trial=trial)
            assert (await client.item(id_, trial))["label"]["label"] == "bad"

    found = limpet.load_run(runs / "one").calibrate("right")
    assert (found.drawn, found.agreement.same) == (3, 3)


def test_labels_from_before_the_draw_do_not_count_as_of_it(made, tmp_path):
    shutil.copytree(made / "one", tmp_path / "runs" / "one")
    runs = tmp_path / "runs"
    cells = drawn_in(runs)
    (runs / "one" / "people.json").rename(tmp_path / "people.json")

    @on_page(runs)
    async def main(client):
        for id_, trial in cells:
            await client.label(id_, "good", trial=trial)
        before = await client.get("items?run=one&sort=right&text=fine")
        assert before[1]["matching"] > 0
        (tmp_path / "people.json").rename(runs / "one" / "people.json")
        assert (await client.item(*cells[0]))["scores"] == []
        assert (await client.data("items?run=one&text=fine"))["matching"] == 0
        assert (await client.data("run?run=one"))["labels"]["labelled"] == 0
        await client.label(cells[0][0], "good", trial=cells[0][1])
        assert len((await client.item(*cells[0]))["scores"]) == 1

    found = limpet.load_run(runs / "one").calibrate("right")
    assert (found.labelled, found.drawn) == (3, 1)


def test_an_answer_from_before_a_draw_or_a_label_is_not_called_unchanged(made, tmp_path):
    shutil.copytree(made / "one", tmp_path / "runs" / "one")
    runs = tmp_path / "runs"
    (id_, trial), *_ = drawn_in(runs)
    people = runs / "one" / "people.json"
    people.rename(tmp_path / "people.json")

    @on_page(runs)
    async def main(client):
        path = f"{client.base}/api/item?run=one&id={id_}&trial={trial}"
        tags = []
        for change in (lambda: None, lambda: (tmp_path / "people.json").rename(people)):
            change()
            async with client.session.get(path) as answer:
                tags.append(answer.headers["ETag"])
        await client.label(id_, "good", trial=trial)
        async with client.session.get(path) as answer:
            tags.append(answer.headers["ETag"])
        assert len(set(tags)) == 3
        async with client.session.get(path, headers={"If-None-Match": tags[2]}) as answer:
            assert answer.status == 304

    assert lines(runs)


def test_draws_that_cannot_be_read_hide_everything(runs):
    (runs / "one" / "people.json").write_text("{")

    @on_page(runs)
    async def main(client):
        for path in ("items?run=one", "item?run=one&id=q0", "near?run=one&id=q0"):
            status, answer = await client.get(path)
            assert status == 400
            assert "people.json" in answer["error"]


def test_the_draw_is_taken_in_its_random_order(runs):
    order = drawn_in(runs)

    @on_page(runs)
    async def main(client):
        rows = (await client.data("items?run=one&draw=1"))["rows"]
        assert [(row["id"], row["trial"]) for row in rows] == order
        done = []
        following = (await client.data("run?run=one"))["labels"]["unlabelled"]
        while following:
            id_, trial = following["id"], following["trial"]
            done.append((id_, trial))
            await client.label(id_, "good", trial=trial)
            near = await client.data(f"near?run=one&draw=1&id={id_}&trial={trial}")
            assert (near["labelled"], near["matching"]) == (len(done), 3)
            following = near["unlabelled"]
        assert done == order
        assert (await client.data("items?run=one&labelled=1"))["matching"] == 3
        assert (await client.data("items?run=one&labelled=0"))["matching"] == 13
        assert (await client.data("run?run=one"))["labels"] == {
            "drawn": 3, "in_file": 0, "person": "", "labelled": 3, "unlabelled": None,
        }  # fmt: skip


def test_a_second_draw_is_hidden_at_once_and_comes_after_the_first(runs, tmp_path):
    first = drawn_in(runs)

    @on_page(runs)
    async def main(client):
        assert (await client.data("items?run=one&draw=1"))["matching"] == 3
        await client.label(first[0][0], "good", trial=first[0][1])
        limpet.load_run(runs / "one").sample(2, tmp_path / "more.csv", seed=1)
        rows = (await client.data("items?run=one&draw=1"))["rows"]
        assert [(row["id"], row["trial"]) for row in rows[:3]] == first
        assert [list(row["scores"]) for row in rows] == [["right"], [], [], [], []]

    assert len(PeopleFile.load(RunReader(runs / "one").layout).draws) == 2


def test_labels_read_from_a_file_count_in_the_draw_and_show_no_score(runs, tmp_path):
    drawn = drawn_in(runs)
    result = limpet.load_run(runs / "one")
    rows = [{"id": id_, "trial": trial, "label": "good"} for id_, trial in drawn]

    def counted(person=""):
        async def use(client):
            return (await client.data("run?run=one"))["labels"], await client.item(*drawn[0])

        return on_page(runs, person=person)(use)

    assert (counted()[0]["labelled"], counted()[0]["in_file"]) == (0, 0)
    found = result.calibrate("right", rows[:2])
    labels, item = counted()
    assert (found.drawn, labels["labelled"], labels["in_file"], labels["drawn"]) == (2, 2, 2, 3)
    assert (labels["unlabelled"]["id"], labels["unlabelled"]["trial"]) == drawn[2]
    assert item["hidden"]
    # A file mostly does not say whose labels it has: they are not those of a person with a name.
    assert counted("Ann")[0]["labelled"] == 0

    async def label(client):
        await client.label(drawn[0][0], "bad", trial=drawn[0][1])
        await client.label(drawn[0][0], None, trial=drawn[0][1])

    on_page(runs)(label)
    assert counted()[0]["labelled"] == 1  # what was taken back does not count


def test_another_person_labels_unseen_too_and_sees_what_others_said_only_then(runs):
    (id_, trial), *_ = drawn_in(runs)

    @on_page(runs, person="ann")
    async def ann(client):
        await client.label(id_, "good", trial=trial, note="ann's note")

    @on_page(runs, person="bob")
    async def bob(client):
        item = await client.item(id_, trial)
        assert (item["scores"], item["label"], item["labels"]) == ([], None, [])
        for score, label in (("right", "bad"), ("parts.tone", 1), ("parts.facts", 1), ("stars", 5)):
            await client.label(id_, label, score, trial)
        item = await client.item(id_, trial)
        assert item["label"]["label"] == "bad"
        assert [(one["person"], one["label"]) for one in item["labels"]] == [("ann", "good")]

    assert [(line["person"], line.get("seen")) for line in lines(runs)[:2]] == [
        ("ann", None),
        ("bob", None),
    ]


# ---- what can be said ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "asked"),
    [
        ("right", {"kind": "choice", "choices": ["good", "bad"]}),
        ("parts.tone", {"kind": "choice", "choices": ["yes", "no"]}),
        ("parts.facts", {"kind": "number", "range": [0, 1]}),
        ("stars", {"kind": "choice", "choices": ["1", "2", "3", "4", "5"]}),
    ],
)
def test_a_label_is_one_of_the_judges_or_a_number_in_the_range(runs, score, asked):
    @on_page(runs)
    async def found(client):
        return (await client.item("q1", score=score))["labelling"]

    assert {name: found[name] for name in asked} == asked
    assert found["scores"] == ["right", "parts.tone", "parts.facts", "stars"]


def test_a_run_without_evaluators_takes_any_text(tmp_path):
    limpet.evaluate(ROWS, last_word, run=limpet.Run(tmp_path / "one", durability="flush"))

    @on_page(tmp_path)
    async def main(client):
        assert (await client.item("q1"))["labelling"]["kind"] == "text"
        assert (await client.label("q1", "off topic", None))[0] == 200
        assert (await client.item("q1"))["label"]["label"] == "off topic"

    assert lines(tmp_path)[0]["label"] == "off topic"


REFUSED = {
    "no such run": ({"run": "two"}, 404),
    "a run outside": ({"run": "../one"}, 404),
    "no run": ({"run": None}, 400),
    "no such item": ({"id": "q99"}, 404),
    "an id that is a number": ({"id": 1}, 400),
    "no such trial": ({"trial": 2}, 404),
    "a trial below 0": ({"trial": -1}, 400),
    "a huge trial": ({"trial": 10**30}, 400),
    "a trial that is true": ({"trial": True}, 400),
    "a trial in words": ({"trial": "0"}, 400),
    "no such evaluator": ({"evaluator": "left"}, 400),
    "an evaluator with several scores": ({"evaluator": "parts"}, 400),
    "no evaluator": ({"evaluator": None}, 400),
    "a list for an evaluator": ({"evaluator": ["right"]}, 400),
    "no label of the judge": ({"label": "splendid"}, 400),
    "a number outside": ({"label": 7}, 400),
    "a label with a script": ({"label": "<script>alert(1)</script>"}, 400),
    "a list": ({"label": ["good"]}, 400),
    "a long label": ({"label": "good" * 100}, 400),
    "a long note": ({"note": "x" * 10_001}, 400),
    "a note that is a number": ({"note": 1}, 400),
    "another answer": ({"answer": "0123456789abcdef-0123456789abcdef"}, 409),
    "a field that does not exist": ({"seen": False}, 400),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_label_is_refused_and_nothing_is_written(runs, name):
    change, status = REFUSED[name]
    before = content(runs)

    @on_page(runs)
    async def found(client):
        asked = {"run": "one", "id": "q1", "trial": 0, "evaluator": "right", "label": "good"}
        return await client.send({**asked, **change})

    assert found[0] == status, found
    assert found[1]["error"]
    assert content(runs) == before


BODIES = {
    "nothing": b"", "no JSON": b"label=good", "half": b'{"run": "one", "la', "a list": b"[1]",
    "NaN": b'{"run": "one", "id": "q1", "evaluator": "right", "label": NaN}',
    "deep": b'{"run": ' * 5_000 + b"1" + b"}" * 5_000, "not UTF-8": b'{"run": "\xff"}',
    "a megabyte": json.dumps({"run": "one", "id": "q1", "note": "x" * 1_000_000}).encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_label_is_refused(runs, name):
    before = content(runs)

    @on_page(runs)
    async def found(client):
        return await client.send(BODIES[name])

    assert found[0] == (413 if name == "a megabyte" else 400)
    assert content(runs) == before


OTHERS = {
    "another site": ({"Origin": "http://evil.example"}, 403),
    "a page without an origin": ({"Origin": "null"}, 403),
    "another port": ({"Origin": "http://127.0.0.1:1"}, 403),
    "no page at all": ({"Origin": None}, 403),
    "another host": ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "plain text, which needs no preflight": ({"Content-Type": "text/plain"}, 415),
    "JSON in a form": ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    "no type": ({"Content-Type": None}, 415),
    "a fetch from elsewhere": ({"Sec-Fetch-Site": "cross-site"}, 403),
}


@pytest.mark.parametrize("name", OTHERS)
def test_only_our_own_page_can_write(runs, name):
    headers, status = OTHERS[name]
    before = content(runs)

    @on_page(runs)
    async def found(client):
        body = {"run": "one", "id": "q1", "evaluator": "right", "label": "good"}
        return await client.send(body, **headers)

    assert found[0] == status
    assert content(runs) == before


def test_without_the_token_nothing_is_written(runs):
    async def main():
        async with serving(runs) as server, ClientSession() as session:
            client = Client(session, server)
            return await client.label("q1", "good")

    assert asyncio.run(main())[0] == 401
    assert lines(runs) == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_labels_are_posted_and_nothing_else_is(runs, method):
    @on_page(runs)
    async def found(client):
        statuses = []
        for path in ("label", "item"):
            method_of = method if path == "label" else "POST"
            address = f"{client.base}/api/{path}"
            headers = {"Origin": client.base, "Content-Type": "application/json"}
            async with client.session.request(
                method_of, address, headers=headers, data="{}"
            ) as answer:
                statuses.append(answer.status)
        return statuses

    assert found == [405, 405]


def test_read_only_takes_no_labels_and_hides_nothing(runs):
    (id_, trial), *_ = drawn_in(runs)
    before = content(runs)

    @on_page(runs, read_only=True)
    async def main(client):
        assert (await client.label(id_, "good", trial=trial))[0] == 405
        item = await client.item(id_, trial)
        assert (item["can_label"], item["hidden"], len(item["scores"])) == (False, False, 4)
        run = await client.data("run?run=one")
        assert (run["can_label"], run["cannot_label"]) == (False, None)

    assert content(runs) == before


def test_a_directory_that_cannot_be_written_is_said_and_still_hides(runs, monkeypatch):
    (id_, trial), *_ = drawn_in(runs)
    before = content(runs)
    monkeypatch.setattr("os.access", lambda *_, **__: False)  # root may write anywhere

    @on_page(runs)
    async def main(client):
        item = await client.item(id_, trial)
        assert (item["can_label"], item["hidden"]) == (False, True)
        assert item["cannot_label"] == "one cannot be written"
        status, answer = await client.label(id_, "good", trial=trial)
        assert (status, answer["error"]) == (400, "labels cannot be saved: one cannot be written")

    assert content(runs) == before


def test_looking_writes_nothing(runs):
    before = content(runs)

    @on_page(runs)
    async def main(client):
        for path in ("runs", "run?run=one", "items?run=one&draw=1", "item?run=one&id=q1"):
            await client.data(path)

    changed = {path for path, was in content(runs).items() if before.get(path) != was}
    assert {path.parent.name for path in changed} <= {"index"}  # notes that can be deleted
    assert set(content(runs)) - set(before) <= changed


# ---- no label is lost ---------------------------------------------------------------------------


def test_notes_of_any_kind_are_kept_as_they_are_one_line_each(runs):
    notes = [
        "<script>alert(1)</script>", "two\nlines\r\nand \u2028 more", "a\u202eb\u2066c", "nul \0",
        '"}\n{"id": "q2", "label": "bad"}', "🐚" * 5_000, "x" * 10_000,
    ]  # fmt: skip

    @on_page(runs)
    async def main(client):
        for note in notes:
            assert (await client.label("q1", "good", note=note))[0] == 200
            assert (await client.item("q1"))["label"]["note"] == note
        assert (await client.label("q1", "good", note="half \ud800 a pair"))[0] in (200, 400)
        assert (await client.data("items?run=one"))["rows"]

    kept = [line["note"] for line in lines(runs)]
    assert kept[: len(notes)] == notes


def test_the_same_label_sent_twice_is_one(runs):
    (id_, trial), *_ = drawn_in(runs)

    @on_page(runs)
    async def main(client):
        for _ in range(2):
            assert (await client.label(id_, "good", trial=trial))[0] == 200

    assert len(lines(runs)) == 1


def test_half_a_line_at_the_end_stays_alone(runs):
    (id_, trial), *_ = drawn_in(runs)
    path = runs / "one" / "labels.jsonl"
    path.write_bytes(b'{"id": "q1", "tri')

    @on_page(runs)
    async def main(client):
        assert (await client.label(id_, "good", trial=trial))[0] == 200
        assert (await client.item(id_, trial))["label"]["label"] == "good"

    torn, whole = path.read_bytes().splitlines()
    assert (torn, json.loads(whole)["id"]) == (b'{"id": "q1", "tri', id_)
    found = limpet.load_run(runs / "one").calibrate("right")
    assert found.labelled == 1
    assert found.remarks[0].startswith("1 line in labels.jsonl cannot be read")


def test_lines_that_people_wrote_by_hand_count(runs):
    (id_, trial), *_ = drawn_in(runs)
    line = json.dumps({"id": id_, "trial": trial, "label": "bad"})
    (runs / "one" / "labels.jsonl").write_text('{"id": "q1"}\n{"label": "good"}\n' + line)

    @on_page(runs)
    async def main(client):
        item = await client.item(id_, trial)
        assert (item["label"]["label"], item["hidden"]) == ("bad", False)
        assert (await client.label("q1", "good"))[0] == 200

    assert len(lines(runs)) == 4


def test_labels_are_kept_while_a_session_and_a_calibration_work(runs):
    with RunReader(runs / "one") as reader:
        layout = reader.layout
    from limpet.journal.lock import Lock

    session = Lock(layout.lock)
    try:
        with PeopleFile.changing(layout):

            @on_page(runs)
            async def found(client):
                return await client.label("q1", "good")

    finally:
        session.release()
    assert found[0] == 200


def test_many_pages_label_at_once_and_every_line_is_whole(runs):
    @on_page(runs, person="ann")
    async def main(ann):
        async with page(runs, person="bob") as bob:
            answers = await asyncio.gather(*(
                client.label(f"q{n}", label, note="n" * 2_000)
                for n in range(8)
                for client in (ann, bob)
                for label in ("good", "bad")
            ))  # fmt: skip
        return [status for status, _ in answers]

    assert main == [200] * 32
    assert len(lines(runs)) == 32


@pytest.mark.parametrize("kind", ["link", "directory", "hard link", "pipe"])
def test_a_file_that_is_not_ours_is_not_written_to(runs, tmp_path, kind):
    path, precious = runs / "one" / "labels.jsonl", tmp_path / "precious"
    precious.write_text("")
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(precious)
    else:
        path.hardlink_to(precious)

    @on_page(runs)
    async def found(client):
        return await client.label("q1", "good")

    assert found[0] >= 400
    assert precious.read_text() == ""


def test_an_answer_that_changed_since_the_page_showed_it_is_not_labelled(tmp_path):
    evaluate(tmp_path / "one")

    @on_page(tmp_path)
    async def main(client):
        seen = (await client.item("q1"))["labelling"]["answer"]
        limpet.evaluate(
            ROWS, lambda question: "9", [verdict(good, ()), parts, stars], version="2", show=False,
            run=limpet.Run(tmp_path / "one", durability="flush"), fail_fast=False, trials=2,
            on_change="redo",
        )  # fmt: skip
        status, answer = await client.label("q1", "good", answer=seen)
        assert status == 409
        assert "has changed" in answer["error"]
        (drawn, trial), *_ = drawn_in(tmp_path)
        assert (await client.item(drawn, trial))["labelling"]["has_changed"]

    assert lines(tmp_path) == []


def test_a_removed_run_leaves_no_lock(runs):
    @on_page(runs)
    async def main(client):
        assert (await client.label("q1", "good"))[0] == 200

    from limpet.run.housekeeping import contents_of

    with RunReader(runs / "one") as reader:
        assert contents_of(reader.layout).others == []
        assert LabelsLog(reader.layout).refresh()
