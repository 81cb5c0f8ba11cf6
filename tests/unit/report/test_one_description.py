"""One description of a run, three renderings: the terminal, `--json` and the page say the same."""

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import limpet
from limpet.report.runs import RunsTable, line_data
from limpet.report.status import StatusScreen, status_data
from limpet.run.reading import RunReader
from limpet.run.reading.description import Description, describe, described_at
from limpet.run.watcher import Snapshot, StepSnapshot
from limpet.text import money
from limpet.view import run_answers

NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=1, max_size=4, unique=True)
STATES = ["running", "finished", "enough", "limited", "stopped", "cut off"]


def drawn(thing, width=400):
    console = Console(file=io.StringIO(), width=width)
    console.print(thing)
    return console.file.getvalue()


@st.composite
def descriptions(draw):
    def step(name):
        total = draw(st.integers(1, 10**7))
        kept = draw(st.integers(0, total))
        done = draw(st.integers(0, total - kept))
        failed = draw(st.integers(0, total - kept - done))
        kinds = {"error": failed} if failed else {}
        retries = draw(st.integers(0, 10**6))
        return StepSnapshot(name, total, kept, done, kinds, retries, errors=kinds)

    names = draw(NAMES)
    steps = (step("workflow"), *map(step, names))
    scores = {}
    for name in names:
        mean = draw(st.floats(0, 1))
        ends = sorted([draw(st.floats(0, 1)), draw(st.floats(0, 1))])
        interval = {"low": ends[0], "high": ends[1], "method": "wilson"}
        scores[name] = {"mean": mean, "interval": interval, "completed": draw(st.integers(1, 99)),
                        "failed": {}, "range": [0, 1]}  # fmt: skip
    usage = {"cost": draw(st.floats(0, 99)), "total_tokens": draw(st.integers(0, 10**9))}
    summary = {"n": steps[0].total, "workflow": {"usage": usage}, "evaluators": scores}
    return Description(
        "runs/one",
        draw(st.sampled_from(STATES)),
        progress=Snapshot(steps, draw(st.floats(0, 1e6))),
        summary=summary,
        sessions=draw(st.integers(1, 9)),
        retries={step.name: step.retries for step in steps},
        selected=draw(st.none() | st.tuples(st.integers(0, 99), st.integers(100, 999))),
        by_current_version=draw(st.none() | st.tuples(st.integers(0, 9), st.integers(10, 99))),
        earlier_on_disk=draw(st.integers(0, 99)),
        remarks=draw(st.just(()) | st.just(("a line is torn",))),
    )


@given(descriptions())
def test_the_terminal_json_and_the_page_show_the_same_numbers(run):
    text, data, page = drawn(StatusScreen(run)), status_data(run), run_answers.run_data(run)
    assert run.state in text
    assert data["state"] == page["state"] == run.state
    for step, in_json, on_page in zip(
        run.progress.steps, data["steps"], page["steps"], strict=True
    ):
        done, failed = step.kept + step.done, sum(step.failed.values())
        row = re.search(rf"^{step.name} .*$", text, re.MULTILINE)[0]
        assert f"{done:,}/{step.total:,}" in row
        assert not failed or f"{failed:,}" in row
        assert not step.retries or f"{step.retries:,}" in row
        assert (in_json["kept"] + in_json["done"], in_json["total"]) == (done, step.total)
        assert (on_page["done"], on_page["asked"]) == (done, step.total)
        assert sum(in_json["failed"].values()) == on_page["failed"] == failed
        assert in_json["retries"] == on_page["retries"] == step.retries
    for claim in page["scores"]:
        numbers = data["scores"][claim["name"]]
        assert claim["mean"] == numbers["mean"]
        assert (claim["low"], claim["high"]) == tuple(
            numbers["interval"][e] for e in ("low", "high")
        )
        assert f"{claim['name']} {claim['words']}" in " ".join(text.split())
    cost, tokens = data["used"]["cost"], data["used"]["tokens"]
    assert (sum(step["cost"] for step in page["used"] if step["cost"] is not None)) == cost
    assert not tokens or f"all results used {tokens:,} token" in text
    assert not cost or f"${money(cost)}" in text
    for line in (line for line in page["remarks"] if line not in run.remarks):
        assert line in data["remarks"]
        assert line in " ".join(text.split())


@given(descriptions())
def test_so_do_the_lists_of_runs(run):
    text, data, page = drawn(RunsTable([run])), line_data(run), run_answers._line("one", run)
    assert f"{run.done:,}/{run.total:,}" in text
    assert (data["done"], data["total"]) == (page["done"], page["asked"]) == (run.done, run.total)
    assert data["failed"] == page["failed"] == run.failed
    assert {claim["name"]: claim["mean"] for claim in page["scores"]} == data["means"]
    assert data["used"] == {"cost": page["cost"], "tokens": page["tokens"]}
    for claim in page["scores"]:
        assert f"{claim['name']} {claim['words']}" in " ".join(text.split())


def test_a_description_has_the_numbers_of_summary_json_and_of_load_run(tmp_path):
    rows = [{"id": f"q{n}", "question": str(n), "answer": "1"} for n in range(4)]
    limpet.evaluate(rows, lambda question: question, [limpet.exact_match()], run=tmp_path / "run")
    written = json.loads((tmp_path / "run" / "summary.json").read_text())
    with RunReader(tmp_path / "run") as reader:
        assert describe(reader).summary == written
        assert describe(reader, numbers=reader.summary()).summary == written
    assert limpet.load_run(tmp_path / "run").summary == written
    assert described_at(tmp_path / "run").scores["exact_match"]["mean"] == 0.25


@pytest.mark.parametrize(
    "damaged",
    [
        '{"n": 4, "work',
        "[]",
        '{"n": "x", "workflow": [], "evaluators": {"exact": 5}}',
        '{"workflow": {}, "evaluators": {}, "bad_rows": 5}',
    ],
)
def test_a_damaged_summary_changes_no_number(tmp_path, damaged):
    rows = [{"id": f"q{n}", "question": str(n), "answer": "1"} for n in range(4)]
    limpet.evaluate(rows, lambda question: question, [limpet.exact_match()], run=tmp_path / "run")
    before = line_data(described_at(tmp_path / "run"))
    (tmp_path / "run" / "summary.json").write_text(damaged)
    now = described_at(tmp_path / "run")
    assert line_data(now) == before
    assert "exact_match 0.250" in " ".join(drawn(StatusScreen(now)).split())


def test_labels_and_remarks_are_in_the_json(tmp_path):
    rows = [{"id": f"q{n}", "question": str(n)} for n in range(4)]
    limpet.evaluate(
        limpet.Dataset(rows, limit=3),
        lambda question: question,
        {"mood": lambda output: "good"},
        run=tmp_path / "run",
    )
    run = described_at(tmp_path / "run")
    assert status_data(run)["scores"]["mood"]["labels"] == {"good": 3}
    [remark] = line_data(run)["remarks"]
    assert remark == "the last session selected 3 of 4 items"
    assert status_data(run)["remarks"] == [remark]
