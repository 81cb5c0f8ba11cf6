"""`limpet show` finds things, in a real terminal of 60, 80 and 200 columns."""

import json
import os
import shutil

import pytest
from e2e import ready_limpet
from e2e.project import COMMAND
from e2e.terminal import Terminal

import limpet

HOSTILE = "\x1b[2Jcleared\r\n| \x9b31m"
ROWS = [
    {
        "id": f"q{n}",
        "question": f"What is the capital of country number {n}, and since when?",
        "answer": f"City {n}",
        "lang": "de" if n % 2 else "fr",
    }
    for n in range(8)
]


def answer(question):
    number = question.split()[7].strip(",")
    if number == "7":
        raise limpet.PermanentError("the model refused")
    return f"It is the beautiful City {number}, of course"


def metric(factor):
    return lambda output: limpet.Score(int(output.split()[5][:-1]) * factor % 7 / 7)


def judge(output):
    number = int(output.split()[5][:-1])
    return {
        "quality": limpet.Score(number / 10, explanation=f"quality is {number}"),
        "tone": limpet.Score(None, label="rude" if number == 3 else "kind", explanation="polite?"),
    }


def mood(output):
    return "bad" if "City 3" in output else "good"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    runs = tmp_path_factory.mktemp("made") / "runs"
    for many in (6, 20):
        metrics = {f"metric_{n}": metric(n) for n in range(1, many + 1)}
        limpet.evaluate(ROWS, answer, metrics, run=runs / f"with{many}", version="1", retry=0)
    judged = {"judge": judge, "mood": mood}
    limpet.evaluate(ROWS, answer, judged, run=runs / "judged", version="1", retry=0)
    limpet.evaluate(ROWS[-2:], answer, judged, run=runs / "twice", version="1", retry=0, trials=2)
    return runs


@pytest.fixture
def home(tmp_path, made):
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path


def screen(home, *arguments, columns):
    terminal = Terminal([*COMMAND, *arguments], cwd=home, columns=columns, lines=150)
    try:
        assert terminal.wait() == 0, terminal.said
        return terminal.said.splitlines()
    finally:
        terminal.close()


def found(home, *arguments):
    done = ready_limpet.run(["show", *arguments, "--json"], cwd=home, env=os.environ)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ids(home, *arguments):
    return [line["id"] for line in found(home, *arguments)]


# ---- narrow terminals ---------------------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize(("run", "columns"), [("with6", 80), ("with6", 60), ("with20", 60)])
def test_on_a_narrow_terminal_the_scores_are_below_id_input_and_output(home, run, columns):
    lines = screen(home, "show", run, columns=columns)
    assert lines[0].split() == ["id", "input", "output"]
    assert lines[2].startswith("q0  What is the capital of")
    assert "It is the" in lines[2]
    below = " ".join(lines[3 : lines.index(next(x for x in lines if x.startswith("q1")))])
    names = [f"metric_{n}" for n in range(1, int(run[4:]) + 1)]
    assert below.split()[::2] == names
    assert below.split()[1::2] == ["0"] * len(names)
    failed = next(line for line in lines if line.startswith("q7"))
    assert "failed" in failed
    assert lines[-1] is failed or not lines[lines.index(failed) + 1].startswith(" ")


def test_on_a_wide_terminal_the_scores_are_columns(home):
    lines = screen(home, "show", "with6", columns=200)
    assert lines[0].split() == ["id", "input", "output", *(f"metric_{n}" for n in range(1, 7))]
    assert lines[2 + len(ROWS)].startswith("metric_1 ")  # the means of the run


@pytest.mark.quick(3)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_with_an_evaluator_input_expected_and_all_reasons_are_visible(home, columns):
    lines = screen(home, "show", "judged", "--evaluator", "judge", columns=columns)
    assert lines[0].split()[:4] == ["id", "input", "expected", "output"]
    text = "\n".join(lines)
    for part in ("What is", "City 3", "It is the", "quality is 3", "polite?", "rude"):
        assert part in text
    one_score = screen(home, "show", "judged", "--evaluator", "judge.quality", columns=columns)
    assert "quality is 3" in "\n".join(one_score)
    assert "polite?" not in "\n".join(one_score)


@pytest.mark.quick(3)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_trials_are_shown(home, columns):
    lines = screen(home, "show", "twice", columns=columns)
    assert lines[0].split()[:2] == ["id", "trial"]
    rows = [line.split()[:2] for line in lines if line.startswith("q")]
    assert rows == [["q6", "0"], ["q7", "0"], ["q6", "1"], ["q7", "1"]]
    failed = "\n".join(screen(home, "show", "twice", "--failed", columns=columns))
    assert "2 × workflow" in failed
    assert "for example q7 (trial 0); also q7 (trial 1)" in failed
    whole = screen(home, "show", "twice", "--item", "q6", columns=columns)
    assert whole[0].startswith("q6, trial 0: completed")


@pytest.mark.quick(3)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_long_id_can_be_copied(tmp_path, columns):
    rows = [{"id": f"0f8fad5b-d9cb-469f-a165-70867728950{n}", "question": "x" * 99} for n in (1, 2)]
    limpet.evaluate(rows, lambda question: question, [len], run=tmp_path / "runs/x")
    lines = screen(tmp_path, "show", columns=columns)
    assert [line.split()[0] for line in lines if line.startswith("0f")] == [r["id"] for r in rows]
    assert all(line.count("xxxx") for line in lines if line.startswith("0f"))


@pytest.mark.quick(3)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_nothing_hostile_reaches_a_narrow_terminal(tmp_path, columns):
    rows = [{"id": HOSTILE + str(n), "question": HOSTILE, HOSTILE: HOSTILE} for n in range(2)]

    def several(output):
        return {HOSTILE: limpet.Score(0.5, label=HOSTILE, explanation=HOSTILE), "漢字": 1}

    limpet.evaluate(rows, lambda question: question * 9, [several], run=tmp_path / "runs/x")
    for more in ([], ["--evaluator", "several"], ["--by", HOSTILE], ["--sort", "several"]):
        lines = screen(tmp_path, "show", *more, columns=columns)
        assert "\\x1b[2J" in "\n".join(lines)
        assert len(lines) > 2


# ---- finding ------------------------------------------------------------------------------------


def test_items_are_sorted_by_a_score_and_the_worst_are_found(home):
    assert ids(home, "judged", "--sort", "judge.quality")[:3] == ["q0", "q1", "q2"]
    assert ids(home, "judged", "--sort", "-judge.quality", "--limit", "2") == ["q6", "q5"]
    assert ids(home, "judged", "--worst", "2", "--evaluator", "judge") == ["q0", "q1"]
    lines = screen(home, "show", "judged", "--worst", "2", "--sort", "-judge.quality", columns=80)
    assert [line[:2] for line in lines if line.startswith("q")] == ["q6", "q5"]
    assert "more" not in "\n".join(lines)


def test_items_are_found_by_score_label_field_and_text(home):
    assert ids(home, "judged", "--below", "judge.quality=0.2") == ["q0", "q1"]
    assert ids(home, "judged", "--evaluator", "judge.quality", "--below", "0.2") == ["q0", "q1"]
    assert ids(home, "judged", "--label", "rude") == ["q3"]
    assert ids(home, "judged", "--label", "bad", "--evaluator", "mood") == ["q3"]
    assert ids(home, "judged", "--where", "lang=de", "--below", "judge=0.4") == ["q1", "q3"]
    assert ids(home, "judged", "--where", "id=q1", "--where", "id=q2") == ["q1", "q2"]
    assert ids(home, "judged", "--grep", "BEAUTIFUL city 4") == ["q4"]
    assert ids(home, "judged", "--grep", "refused") == ["q7"]
    groups = found(home, "judged", "--failed", "--where", "lang=de")
    assert [(group["count"], group["ids"]) for group in groups] == [(1, ["q7"])]
    assert found(home, "judged", "--failed", "--where", "lang=fr") == []


def test_what_matches_and_does_not_fit_is_counted(home):
    lines = screen(home, "show", "judged", "--where", "lang=fr", "--limit", "1", columns=80)
    assert lines[-1] == "… and 3 more: --limit 4"
    lines = screen(home, "show", "judged", "--grep", "nowhere", columns=80)
    assert lines == ["no item matches"]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--where", "lnag=de"], "did you mean 'lang'?"),
        (["--where", "lang"], "--where lang: must be FIELD=VALUE"),
        (["--by", "lnag"], "did you mean 'lang'?"),
        (["--sort", "judge.qualty"], "did you mean 'judge.quality'?"),
        (["--worst", "3"], "--worst 3: name the score with --sort, one of: judge, mood"),
        (["--below", "judge=nan"], "--below judge=nan: must be a number"),
        (["--worst", "0"], "0"),
        (["--item", "q1", "--failed"], "--item cannot be combined with --failed"),
        (["--item", "q1", "--where", "lang=de"], "--item cannot be combined with --where"),
        (["--failed", "--by", "lang"], "--failed cannot be combined with --by"),
        (["--failed", "--sort", "mood"], "--failed cannot be combined with --sort"),
    ],
)
def test_a_wrong_name_or_value_ends_with_2_and_says_what_is_known(home, arguments, said):
    done = ready_limpet.run(["show", "judged", *arguments], cwd=home, env=os.environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.quick(3)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_means_by_a_field(home, columns):
    arguments = ("show", "judged", "--by", "lang")
    assert "2 kind, 1 rude" in "\n".join(screen(home, *arguments, columns=columns))
    lines = screen(home, *arguments, "--evaluator", "judge.quality", columns=columns)
    assert lines[0].split() == ["lang", "items", "failed", "judge.quality"]
    assert lines[2].split()[:4] == ["de", "4", "1", "0.300"]
    assert lines[3].split()[:3] == ["fr", "4", "0.300"]
    assert "no group differs from the rest (p values adjusted by" in " ".join(lines)
    lines = screen(home, "show", "with20", "--by", "lang", columns=columns)
    assert "metric_20 0" in " ".join(lines)
    first, _ = found(home, "judged", "--by", "lang", "--sort", "-judge.quality")
    assert (first["field"], first["value"], first["n"]) == ("lang", "de", 4)
    assert first["scores"]["judge.quality"]["mean"] == pytest.approx(0.3)


def test_a_label_that_no_score_has_names_those_there_are(home):
    done = ready_limpet.run(["show", "judged", "--label", "rud"], cwd=home, env=os.environ)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "no item matches; labels: kind, rude, good, bad\n"


def test_fields_are_found_in_the_answers_if_the_items_are_damaged(home):
    (home / "runs/judged/items.jsonl").write_text("garbage\n")
    groups = {group["value"]: group["n"] for group in found(home, "judged", "--by", "lang")}
    assert groups == {"de": 3, "fr": 4, None: 1}  # q7 has no answer
    # without the items, the answers come in the order in which they finished
    assert sorted(ids(home, "judged", "--where", "lang=de")) == ["q1", "q3", "q5"]


def test_list_has_the_counts_of_labels_and_the_means_of_several_scores(home):
    done = ready_limpet.run(["list"], cwd=home, env=os.environ)
    line = next(line for line in done.stdout.splitlines() if line.startswith("runs/judged"))
    assert "judge.quality 0.300 (0.14–0.61)" in line
    assert "judge.tone (6 kind, 1 rude)" in line
    assert "mood (6 good, 1 bad)" in line
    done = ready_limpet.run(["list", "--json"], cwd=home, env=os.environ)
    line = next(
        line for line in map(json.loads, done.stdout.splitlines()) if "judged" in line["run"]
    )
    assert line["scores"]["judge.quality"]["mean"] == pytest.approx(0.3)
    assert line["scores"]["mood"]["labels"] == {"good": 6, "bad": 1}
