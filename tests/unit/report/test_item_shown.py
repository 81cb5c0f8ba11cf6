"""`limpet show --item` shows everything about an item."""

import io

from rich.console import Console

import limpet
from limpet.report.item import item_lines
from limpet.run.reading import open_run


def test_what_an_item_used_is_shown_with_its_small_cost(tmp_path):
    usage = limpet.Usage(prompt_tokens=12_340, completion_tokens=5, cost=0.0012)
    run = tmp_path / "run"
    limpet.evaluate([{"id": "a", "input": "x"}], lambda x: limpet.Output("x", usage=usage), run=run)
    assert "12,345 tokens (12,340 prompt, 5 completion) · $0.0012" in shown(run, "a")


def shown(run, id_, **terminal):
    text = io.StringIO()
    console = Console(file=text, **{"width": 200, **terminal})
    with open_run(str(run)) as reader:
        for whole in reader.item(id_):
            console.print(*item_lines(whole))
    return text.getvalue()


def model(name, answers):
    """A model that gives these answers in turn, each with a reason."""
    left = iter(answers)

    async def ask(messages, **params):
        answer = next(left)
        kind = "label" if isinstance(answer, str) else "rating"
        return {"reason": f"because of {answer}", kind: answer}

    ask.__name__ = name
    return ask


ROWS = [{"id": "a", "question": "x", "answer": "X"}]


def evaluate(run, **judges):
    return limpet.evaluate(ROWS, lambda question: "X", judges, run=run, show=False)


def test_each_vote_of_a_judge_is_shown_with_its_reason(tmp_path):
    jury = [model("strict", ["incorrect", "correct"]), model("kind", ["correct", "correct"])]
    evaluate(tmp_path / "run", right=limpet.judge(jury, of="correctness", votes=2))
    text = shown(tmp_path / "run", "a")
    assert "right: 1 (correct, 3 of 4 votes)" in text
    assert "votes: 3 correct, 1 incorrect · 50% agree" in text
    assert "- strict: incorrect. because of incorrect\n" in text
    assert text.count("- kind: correct. because of correct\n") == 2
    assert "by_model" not in text


def test_votes_that_no_longer_count_are_not_shown(tmp_path):
    def grade(prompt, answers):
        return limpet.judge(model("m", answers), prompt, choices={"yes": 1, "no": 0}, votes=2)

    evaluate(tmp_path / "run", good=grade("Is {{output}} good?", ["no", "no"]))
    evaluate(tmp_path / "run", good=grade("Is {{output}} really good?", ["yes", "yes"]))
    text = shown(tmp_path / "run", "a")
    assert text.count("- m: yes") == 2
    assert "- m: no" not in text


def test_both_orders_of_a_pair_and_each_rating_are_shown(tmp_path):
    evaluate(
        tmp_path / "run",
        better=limpet.pairwise(model("m", ["first", "first"]), against={"a": "Y"}),
        style=limpet.rating(model("m", [4, 5]), "Rate {{output}}", votes=2),
    )
    text = shown(tmp_path / "run", "a")
    assert "- m, shown first: win. because of first" in text
    assert "- m, shown second: loss. because of first" in text
    assert "style: 4.5 (1 × 4, 1 × 5)" in text
    assert "- m: 4. because of 4" in text


def test_an_event_of_a_trace_is_shown_in_words(tmp_path):
    async def parrot(messages, **params):
        return "X"

    workflow = limpet.workflows.openai(model=parrot, prompt="Repeat \x1b[2J{{question}}")
    limpet.evaluate(ROWS, workflow, run=tmp_path / "run", show=False)
    lines = shown(tmp_path / "run", "a").splitlines()
    at = lines.index("trace")
    assert lines[at + 1].startswith("  1. model parrot · 0.0 s")
    assert lines[at + 2 : at + 4] == ["     user: Repeat \\x1b[2Jx", "     → X"]


def test_on_a_narrow_terminal_the_reason_of_a_vote_stays_under_its_dash(tmp_path):
    judge = limpet.judge(model("m", ["incorrect", "correct"]), of="correctness", votes=2)
    evaluate(tmp_path / "run", right=judge)
    lines = shown(tmp_path / "run", "a", width=30, force_terminal=True, color_system=None)
    at = lines.splitlines().index("  - m: incorrect. because of  ".rstrip().ljust(30))
    assert lines.splitlines()[at + 1].rstrip() == "    incorrect"
