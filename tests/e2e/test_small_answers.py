"""The command line says what a choice costs, what was probably meant, and each fault once."""

import json
import re

from e2e.project import make, run

JUDGE = """

def judge(output, expected):
    '''Stands for a judge that costs something.'''
    return float(output == expected)
"""
EVALUATORS = "evaluators:\n  correct: exact_match\n  judge: judging:judge\n"


def test_the_question_says_what_keeping_costs_too(tmp_path):
    make(tmp_path, rows=101)
    (tmp_path / "judging.py").write_text(JUDGE, encoding="utf-8")
    file = tmp_path / "eval.yml"
    before = "evaluators:\n  correct: exact_match\n"
    file.write_text(file.read_text().replace(before, EVALUATORS), encoding="utf-8")
    assert run(tmp_path).returncode == 0
    for name, old, new in (
        ("app.py", "await asyncio.sleep(0.01)", "await asyncio.sleep(0.02)"),
        ("judging.py", "output == expected", "expected == output"),
    ):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
    asked = run(tmp_path)
    assert asked.returncode == 2
    *_, again, keep, both = asked.stderr.splitlines()
    cells = (
        r"[\d.–]+ s \(from 101 cells of an earlier version in this run\); tokens and cost unknown"
    )
    assert re.search(
        "again: 101 calls of workflow, up to 101 of correct, up to 101 of judge: "
        f"about 101–202 calls, {cells}$",
        again,
    )
    keeps = "      --keep keeps the existing answers: 101 calls of judge: "
    assert re.fullmatch(f"{keeps}about 101 calls, {cells}", keep)
    assert both == "      --set name=NEW keeps both, as two runs for limpet compare"
    told = json.loads(run(tmp_path, "--plan", "--keep", "--json").stdout)
    assert told["calls"] == 101


def test_what_is_no_command_is_named_as_what_it_is(tmp_path):
    said = run(tmp_path, command="plan")
    assert said.returncode == 2
    assert "unknown command 'plan'; did you mean: limpet run --plan\n" in said.stderr


def test_a_fault_in_a_module_is_said_once_however_many_steps_import_it(tmp_path):
    make(tmp_path, rows=2)
    (tmp_path / "app.py").write_text("def answer(q:\n", encoding="utf-8")
    (tmp_path / "judging.py").write_text("import app\n" + JUDGE, encoding="utf-8")
    file = tmp_path / "eval.yml"
    before = "evaluators:\n  correct: exact_match\n"
    three = EVALUATORS + "  other: judging:judge\n  lost: nowhere:judge\n"
    file.write_text(file.read_text().replace(before, three), encoding="utf-8")
    said = run(tmp_path).stderr
    assert said.count("cannot be imported") == 1
    assert "app cannot be imported: app.py:1: SyntaxError" in said
    assert "(also needed at eval.yml:6, eval.yml:7)" in said
    assert "eval.yml:8: evaluators.lost: no module named 'nowhere'" in said
