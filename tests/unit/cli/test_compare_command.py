"""`limpet compare` and `limpet run --against`: every option, every exit code, hostile texts."""

import io
import json
import os
import shutil
import threading
import time
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console
from scored_runs import command, make, rows, scored_by

import limpet
from limpet.report import terminal as live_display

SAME = "1" * 80 + "0" * 20
HOSTILE = (
    '</code></details> | @all www.x.y ![x](http://x.y/z) `` <script> \x1b[2J\u202e\x00 "&\n# H'
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs that are made once: base, equal to it, worse, a little worse."""
    folder = tmp_path_factory.mktemp("runs")
    dataset = rows(100, topic=lambda n: "abcdef"[n % 6])
    made = {"base": SAME, "same": SAME, "worse": "0" * 100, "less": "0" * 6 + SAME[6:]}
    return {name: make(folder / name, answers, dataset=dataset) for name, answers in made.items()}


def compare(*words, **options):
    done = command("compare", *words, **options)
    assert "Traceback" not in done.out + done.err
    return done


# ---- exit codes ---------------------------------------------------------------------------------


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("new", "words", "code"),
    [
        ("worse", (), 0),
        ("same", ("--fail-if-worse", "correct=0.05"), 0),
        ("worse", ("--fail-if-worse", "correct=0.05"), 1),
        ("less", ("--fail-if-worse", "correct=0.05"), 4),
        ("less", ("--fail-if-worse", "correct=0.05", "--inconclusive", "pass"), 0),
        ("less", ("--fail-if-worse", "correct=0.05", "--inconclusive", "fail"), 1),
        ("worse", ("--fail-if-worse", "correct=0.05", "--inconclusive", "pass"), 1),
    ],
)
def test_the_exit_code_is_the_verdict(runs, new, words, code):
    done = compare(runs["base"], runs[new], *words)
    assert done.code == code, done
    if words and "--inconclusive" not in words:
        assert {0: "not worse", 1: "correct: worse", 4: "inconclusive"}[code] in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{base}",), "new"),
        (("{base}", "runs/nothing"), "runs/nothing"),
        (("{base}", "{same}", "--allow", "rows,all"), "'all'"),
        (("{base}", "{same}", "--by", "topics"), "topics"),
        (("{base}", "{same}", "--group", "doc"), "doc"),
        (("{base}", "{same}", "--evaluator", "corect"), "correct"),
        (("{base}", "{same}", "--fail-if-worse", "correct"), "NAME=MARGIN"),
        (("{base}", "{same}", "--fail-if-worse", "correct=-1"), "NAME=MARGIN"),
        (("{base}", "{same}", "--fail-if-worse", "correct=nan"), "NAME=MARGIN"),
        (("{base}", "{same}", "--fail-if-worse", "corect=0.1"), "corect"),
        (("{base}", "{same}", *(2 * ("--fail-if-worse", "correct=0"))), "already"),
        (("{base}", "{same}", "--inconclusive", "pass"), "--fail-if-worse"),
        (("{base}", "{same}", "--junit", "x.xml"), "--fail-if-worse"),
        (("{base}", "{same}", "--flips", "-1"), "flips"),
        (("{base}", "{same}", "--these-questions"), "trials"),
        (("{base}", "{same}", "--markdown", "no/where/x.md"), "x.md: cannot be written"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_exit_code_2(runs, tmp_path, words, said):
    words = [word.format(**runs) for word in words]
    done = compare(*words, cwd=tmp_path)
    assert done.code == 2, done
    assert said.lower() in done.err.lower()
    assert done.err.startswith("error: ")


def test_a_file_that_is_a_link_or_a_pipe_is_written_to_and_not_replaced(runs, tmp_path):
    target, link, pipe = (tmp_path / name for name in ("target.md", "link.md", "pipe.md"))
    target.write_text("old")
    link.symlink_to(target)
    os.mkfifo(pipe)
    assert compare(runs["base"], runs["same"], "--markdown", link).code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("### limpet compare")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert compare(runs["base"], runs["same"], "--markdown", pipe).code == 0
    assert "### limpet compare" in compare(runs["base"], runs["same"], "--markdown", "-").out
    assert os.read(reader, 100_000).decode() == target.read_text()
    os.close(reader)
    assert pipe.is_fifo()


def test_a_map_is_no_evaluation(runs, tmp_path):
    limpet.map(str, [1, 2], journal=tmp_path / "map.jsonl")
    done = compare(runs["base"], tmp_path / "map.jsonl")
    assert (done.code, "journal of a map" in done.err) == (2, True)


def test_with_json_a_refusal_is_an_event(runs):
    done = compare(runs["base"], "nothing", "--json")
    assert (done.code, json.loads(done.out)["exit_code"]) == (2, 2)


# ---- what is shown ------------------------------------------------------------------------------


def test_the_screen_has_what_a_decision_needs(runs):
    out = compare(runs["base"], runs["less"], "--flips", 2).out
    numbers = ("0.800", "0.740", "-0.060", "Tango")
    for words in (*numbers, "better", "biggest changes", "q0 is True", "q0 is False", "latency"):
        assert words in out
    assert "q2 is" not in out
    assert "only differences of" in compare(runs["base"], runs["same"]).out


def test_a_score_that_changed_in_every_item_does_not_hide_the_others(tmp_path):
    evaluators = [scored_by(), scored_by(lambda output: 7.0 + float(output["score"]), "length")]
    base = make(tmp_path / "a", "1" * 8, evaluators=evaluators)
    new = make(tmp_path / "b", "0" * 8, evaluators=evaluators)
    out = compare(base, new).out
    assert "\nbiggest changes in correct\n" in out
    assert "biggest changes in length: all 8 items changed; --evaluator length shows them\n" in out
    only = compare(base, new, "--evaluator", "length").out
    assert "\nbiggest changes in length\n" in only


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare", "{base}", "{same}"), "comparing …"),
        (("show", "{base}", "--by", "topic"), "reading the items …"),
    ],
)
def test_a_terminal_sees_that_it_takes_time(runs, monkeypatch, words, said):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(live_display, "stderr_console", lambda: console)
    monkeypatch.setattr(live_display, "_SHOW_AFTER_S", 0)
    assert command(*(word.format(**runs) for word in words)).code == 0
    assert said in screen.getvalue()


def test_json_is_one_object(runs):
    found = compare(runs["base"], runs["less"], runs["worse"], "--json", "--by", "topic",
                    "--fail-if-worse", "correct=0.01").json  # fmt: skip
    assert found["base"]["run"] == str(runs["base"])
    assert [run["run"] for run in found["new"]] == [str(runs["less"]), str(runs["worse"])]
    score = found["new"][0]["scores"]["correct"]
    assert set(score) >= {
        "n", "base_mean", "new_mean", "delta", "low", "high", "p", "mid_p", "p_holm", "method",
        "better", "same", "worse", "smallest_seen", "bounds", "verdict", "items_to_decide",
    }  # fmt: skip
    assert [one["value"] for one in score["slices"]] == list("abcdef")
    assert [gate["verdict"] for gate in found["gates"]] == ["worse", "worse"]
    assert found["new"][0]["flips"][0]["base"]["output"]["say"] == "q0 is True"
    assert found["new"][0]["latency"]["n"] == 100
    assert found["new"][0]["cost"] is None


def test_an_interval_without_ends_is_null_and_not_infinity(tmp_path):
    base, new = make(tmp_path / "a", [10.0]), make(tmp_path / "b", [11.0])
    score = compare(base, new, "--json").json["new"][0]["scores"]["correct"]
    assert (score["delta"], score["low"], score["high"]) == (1, None, None)
    assert compare(base, new).code == 0


def test_groups_and_these_questions_change_the_method(tmp_path, runs):
    grouped = compare(runs["base"], runs["less"], "--group", "topic", "--json").json
    assert "groups" in grouped["new"][0]["scores"]["correct"]["method"]
    base, new = (
        make(tmp_path / name, words, trials=2) for name, words in (("a", "11 10"), ("b", "11 11"))
    )
    done = compare(base, new, "--these-questions")
    assert "these very questions" in done.out
    assert "t over trials" in done.out


def test_too_few_groups_are_refused(tmp_path):
    dataset = rows(4, topic=lambda n: n // 2)
    base = make(tmp_path / "a", "1111", dataset=dataset)
    done = compare(base, base, "--group", "topic")
    assert (done.code, "group" in done.err) == (2, True)


def test_what_is_left_out_is_said_with_how_to_allow_it(tmp_path):
    base = make(tmp_path / "a", "1111", evaluators=[scored_by(version="1"), scored_by(name="b")])
    new = make(tmp_path / "b", "11 11 11 11", trials=2,
               evaluators=[scored_by(version="2"), scored_by(name="b")])  # fmt: skip
    out = compare(base, new).out
    assert "--allow evaluators" in out
    assert "--allow trials" in out
    done = compare(base, new, "--allow", "evaluators,trials", "--json").json
    assert set(done["new"][0]["scores"]) == {"correct", "b"}


def test_a_run_with_itself_is_said_to_be_that(runs):
    done = compare(runs["base"], runs["base"])
    assert (done.code, "with itself" in done.out) == (0, True)


def test_a_running_run_is_interim(tmp_path):
    go, reached = threading.Event(), threading.Event()

    def answer(item):
        if item.id == "q3":
            reached.set()
            go.wait(60)
        return {"say": "x", "score": True}

    def work():
        limpet.evaluate(rows(4), answer, [scored_by()], run=tmp_path / "b", version="1", pace=1,
                        show=False)  # fmt: skip

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert reached.wait(60)
        base = make(tmp_path / "a", "1111", evaluators=[scored_by()])
        # A busy machine starts the last answer before it has written the first score.
        while not any(item.scores for item in limpet.load_run(tmp_path / "b").items):
            time.sleep(0.01)
        done = compare(base, tmp_path / "b")
        found = compare(base, tmp_path / "b", "--json").json["new"][0]
    finally:
        go.set()
        thread.join()
    assert "interim" in done.out
    assert found["interim"]
    assert found["scores"]["correct"]["missing"] >= 1


# ---- files --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    dataset = [row | {"id": f"{row['id']} {HOSTILE}", "topic": HOSTILE} for row in rows(6)]
    both = {"dataset": dataset, "say": lambda *_: HOSTILE}
    labels = [scored_by(), scored_by(lambda output: f"{output['score']} {HOSTILE}", "label")]
    return [
        make(folder / name, answer * 6, evaluators=labels, **both)
        for name, answer in (("a", "1"), ("b", "0"))
    ]


def test_hostile_texts_do_nothing_on_the_screen_and_in_markdown(hostile, tmp_path):
    done = compare(*hostile, "--by", "topic", "--markdown", tmp_path / "x.md")
    page = (tmp_path / "x.md").read_text()
    for character in "\x1b\x00\u202e":
        assert character not in done.out + page
    for words in ("<script>", "</code></details> |", "@all", "www.x", "](http", "\n# H"):
        assert words not in page
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in tables} <= {5, 6, 8, 9}
    assert page.count("<details>") == page.count("</details>")


def test_markdown_stays_under_a_megabyte(hostile, tmp_path, monkeypatch):
    monkeypatch.setattr("limpet.report.markdown._MOST_BYTES", 2_000)
    compare(*hostile, "--markdown", tmp_path / "x.md")
    page = (tmp_path / "x.md").read_bytes()
    assert len(page) <= 2_000
    assert "and more" in page.decode()


def test_junit_has_a_case_for_each_gate_whatever_a_run_is_called(runs, tmp_path):
    odd = tmp_path / 'a&b<c>"d\x01\x1b[31m'
    shutil.copytree(runs["base"], odd)
    done = compare(odd, runs["same"], runs["worse"], runs["less"], "--fail-if-worse",
                   "correct=0.05", "--junit", tmp_path / "x.xml")  # fmt: skip
    assert done.code == 1
    suite = ET.fromstring((tmp_path / "x.xml").read_bytes()).find("testsuite")  # noqa: S314
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    assert [[part.tag for part in case] for case in suite] == [[], ["failure"], ["skipped"]]
    assert "worse" in suite.find("testcase/failure").get("message")


# ---- limpet run --against -----------------------------------------------------------------------

APP = """
import pathlib
HERE = pathlib.Path(__file__).parent

def answer(item):
    with (HERE / "calls").open("a") as file:
        file.write("x")
    return (HERE / "letters").read_text()[int(item.id[1:])]

def correct(output):
    return output == "1"
"""


def project(folder, letters, name, more=""):
    folder.mkdir()
    (folder / f"{name}.py").write_text(APP)
    (folder / "letters").write_text(letters)
    lines = [json.dumps(row) for row in rows(len(letters))]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    (folder / "eval.yml").write_text(
        "name: bot\ndataset: rows.jsonl\nretry: 0\n"
        f"workflow: {{python: '{name}:answer', version: '1'}}\n"
        f"evaluators:\n  correct: {{python: '{name}:correct', version: '1'}}\n{more}"
    )
    return folder


def run(folder, *words):
    done = command("run", *words, cwd=folder)
    assert "Traceback" not in done.out + done.err
    return done


def test_against_compares_at_the_end_and_gates(tmp_path, capfd):
    base = project(tmp_path / "base", "1" * 30, "against_base")
    assert run(base).code == 0
    new = project(tmp_path / "new", "1" * 30, "against_new")
    gate = ("--against", base / "runs/bot", "--fail-if-worse", "correct=0.2")
    done = run(new, *gate)
    assert (done.code, "not worse" in done.out) == (0, True)
    assert "\nnew   runs/bot · 30 items\n" in done.out  # from here, as the base may be
    (new / "letters").write_text("0" * 30)
    assert (run(new, "--redo", *gate[:2]).code) == 0
    capfd.readouterr()
    done = run(new, *gate, "--json")
    events = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert (done.code, events[-1]["exit_code"], events[-1]["event"]) == (1, 1, "ended")
    assert "worse" in events[-1]["why"]
    (compared,) = [event for event in events if event["event"] == "compared"]
    assert compared["gates"][0]["verdict"] == "worse"
    done = run(new, *gate, "--quiet")
    assert (done.code, done.out, "worse" in done.err) == (1, "", True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--against", "nothing"), "nothing"),
        (("--fail-if-worse", "correct=0.1"), "--against"),
        (("--against", "{base}", "--fail-if-worse", "corect=0.1"), "correct"),
        (("--against", "{base}", "--inconclusive", "pass"), "--fail-if-worse"),
    ],
)
def test_a_mistake_about_the_base_costs_no_call(runs, tmp_path, words, said):
    folder = project(tmp_path / "p", "11", f"against_{len(said)}_{len(words)}")
    done = run(folder, *(word.format(**runs) for word in words))
    assert (done.code, said in done.err) == (2, True), done
    assert not (folder / "calls").exists()


def test_a_base_that_cannot_be_compared_keeps_the_results(tmp_path):
    other = make(
        tmp_path / "other", "11", dataset=[{**row, "id": f"x{row['id']}"} for row in rows(2)]
    )
    folder = project(tmp_path / "p", "11", "against_other")
    done = run(folder, "--against", other)
    assert (done.code, "no item in common" in done.err) == (2, True)
    assert (folder / "runs/bot/summary.json").exists()
    done = run(folder, "--against", folder / "runs/bot")
    assert (done.code, "itself" in done.err) == (2, True)


def test_a_matrix_is_not_compared_with_one_run(runs, tmp_path):
    folder = project(tmp_path / "p", "11", "against_matrix", "matrix: {timeout: [60, 90]}\n")
    done = run(folder, "--against", runs["base"])
    assert (done.code, "matrix" in done.err) == (2, True)
