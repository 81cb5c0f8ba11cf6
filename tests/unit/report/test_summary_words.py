"""The remarks below a summary's table, and beside its means."""

import io

from rich.console import Console

import limpet
from limpet.report.summary import remarks, summary_table

ROWS = [
    {"id": f"q{n}", "question": str(n), "answer": str(n), "document": f"d{n % 6}"}
    for n in range(30)
]


def answer(question):
    return limpet.Output(question, usage=limpet.Usage(prompt_tokens=2, cost=0.000126))


@limpet.evaluator(group="document")
def right(output, expected):
    return output == expected and output != "7"


@limpet.evaluator(range=(1, 5))
def stars(output):
    return 1 + int(output) % 5


@limpet.evaluator(higher_is_better=False)
def length(output):
    return 10 * len(output)


def test_a_summary_says_how_to_read_its_numbers(tmp_path):
    scores = [right, stars, length]
    result = limpet.evaluate(ROWS, answer, scores, run=tmp_path / "run", trials=3, show=False)
    table = io.StringIO()
    Console(file=table, width=100).print(summary_table(result.summary))
    notes = {line.split()[0]: line.rstrip() for line in table.getvalue().splitlines() if line}
    assert notes["stars"].endswith("scale 1 to 5")
    assert notes["length"].endswith("lower is better")
    assert "scale" not in notes["right"]
    said = remarks(result.summary, 1)
    methods = next(line for line in said if line.startswith("95% intervals: "))
    assert "Wilson by 6 groups of document (right)" in methods
    assert "Student's t (length)" in methods
    passed = next(line for line in said if line.startswith("right: "))
    assert "at least one of 3 trials right (pass@3): 0.967" in passed
    assert "all 3 trials right (pass^3): 0.967" in passed
    assert said.count("for narrower intervals, more items help more than more trials") == 1
    assert not any("p50" in line for line in said)


def test_a_summary_has_one_line_about_the_seconds_of_the_workflow(tmp_path):
    result = limpet.evaluate(ROWS, answer, [right], run=tmp_path, show=False)
    seconds = {"p50": 0.0004, "p90": 0.2711, "p99": 1.24}
    result.summary["workflow"]["quantiles"]["seconds"] = seconds
    said = "workflow: median 0.4 ms, p90 0.27 s, p99 1.2 s per call"
    assert [line for line in remarks(result.summary, 1) if "p90" in line] == [said]
    result.summary["workflow"]["completed"] = 1
    assert said not in remarks(result.summary, 1)


def test_a_result_says_what_may_be_claimed_as_the_summary_does(tmp_path):
    def refuse_one(question):
        if question == "3":
            raise limpet.PermanentError("refused")
        return question

    result = limpet.evaluate(
        ROWS, refuse_one, {"correct": limpet.exact_match(), "stars": stars}, run=tmp_path,
        trials=3, show=False, retry=0,
    )  # fmt: skip
    said = (
        "<EvaluationResult: 87 of 90 completed (30 items × 3 trials); "
        "correct 1.000 (0.85–1.00) of 87 completed, stars 2.966 (2.40–3.54) of 87 completed>"
    )
    assert repr(result) == said
    assert repr(limpet.load_run(tmp_path)) == said


def test_a_single_method_needs_no_names(tmp_path):
    result = limpet.evaluate(ROWS, answer, [limpet.exact_match()], run=tmp_path, show=False)
    assert "95% intervals: Wilson" in remarks(result.summary, 1)
