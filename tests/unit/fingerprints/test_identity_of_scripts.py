"""A script that starts a run: what it does with the results has no part in them."""

import sys
import textwrap

import pytest
from e2e import ready_limpet

SCRIPT = """
    import decimal
    from limpet.fingerprints.identity import identity_of

    decimal.getcontext().prec = 5

    def answer(question):
        return str(decimal.Decimal(1) / 3) + question

    def main(rows):
        print(identity_of(answer).fingerprint)

    main(10)
    decimal.getcontext().prec = 9
"""


def digest(folder, script):
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    return ready_limpet.python_says([sys.executable, str(file)])


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        ("main(10)", "main(20)", False),
        ("print(identity", "print(end='')\n        print(identity", False),
        ("prec = 9", "prec = 10", False),
        ("prec = 5", "prec = 6", True),
    ],
)
def test_only_what_was_done_before_the_run_counts(tmp_path, old, new, seen):
    assert old in SCRIPT
    before = digest(tmp_path, SCRIPT)
    assert (digest(tmp_path, SCRIPT.replace(old, new)) != before) is seen


TWICE = """
    import decimal
    import limpet

    def answer(question):
        return str(decimal.Decimal(1) / 3) + question

    def report(result):
        print(limpet.map(answer, ["a"]) and result)

    rows = ["a", "b"]
    limpet.map(answer, rows, journal="answers.jsonl")
    rows.append("c")
    report("done")
    decimal.getcontext().prec = 28
    print(limpet.map(answer, rows, journal="answers.jsonl"))
"""


def run(folder, script):
    (folder / "script.py").write_text(script)
    return ready_limpet.run_python(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_script_may_make_two_runs_and_what_lies_between_counts_for_the_second(tmp_path):
    between = textwrap.dedent(TWICE)
    plain = between.replace("decimal.getcontext().prec = 28\n", "")
    assert "3 inputs, 2 kept" in run(tmp_path, plain).stdout
    assert "3 inputs, 3 kept" in run(tmp_path, plain).stdout
    assert "FunctionChangedError" in run(tmp_path, between).stderr
