"""A score is made again when something changes that its evaluator reads, and else it is kept."""

import shutil

import pytest

import limpet
from limpet import Output, Score

ROW = {"id": "a", "question": "q", "answer": "x", "topic": ["x"], "note": "-"}
EVERYTHING = {"note", "topic", "answer", "id", "trace", "output"}


def answering(value="x", trace=({"name": "x"},)):
    def answer(question):
        return Output(value, trace=list(trace))

    return answer


def of_output(output):
    return 1


def of_expected(output, expected):
    return 1


def of_expected_alone(expected):
    return 1


def of_trace(trace):
    return 1


def of_item(item):
    return len(item.row)


def of_all(**everything):
    return len(everything)


@limpet.evaluator(reads=["output", "row.topic"])
def of_topic(output, item):
    return len(item.row["topic"])


@limpet.evaluator(reads=["id"])
def of_id(item):
    return len(item.id)


@limpet.evaluator(reads=["output", "trace"])
def of_some(**some):
    return len(some)


def of_column(output, topic):
    return len(topic)


class Own(limpet.Evaluator):
    name, fingerprint = "own", {"x": "1"}

    async def call(self, scored):
        return {"score": Score(len(scored.item.row))}


class Narrow(Own):
    reads = ("output",)

    async def call(self, scored):
        return {"score": Score(len(scored.output))}


KINDS = [
    (limpet.exact_match(), {"answer", "output"}),
    (limpet.contains(), {"answer", "output"}),
    (limpet.one_of(), {"answer", "output"}),
    (limpet.one_of(["x"]), {"output"}),
    (limpet.regex(), {"answer", "output"}),
    (limpet.regex("x"), {"output"}),
    (
        limpet.trajectory(expected_column="topic", kinds=None),
        {"topic", "answer", "trace", "output"},
    ),
    (limpet.similarity(), {"answer", "output"}),
    (of_output, {"output"}),
    (of_expected, {"answer", "output"}),
    (of_expected_alone, {"answer", "output"}),
    (of_trace, {"trace", "output"}),
    (of_item, EVERYTHING - {"trace"}),
    (of_all, EVERYTHING),
    (of_topic, {"topic", "output"}),
    (of_column, {"topic", "output"}),
    (of_id, {"id", "output"}),
    (of_some, {"trace", "output"}),
    (Own(), EVERYTHING),
    (Narrow(), {"output"}),
]


def scores(run):
    (column,) = set(run.glob("*_output.jsonl")) - {run / "workflow_output.jsonl"}
    failures = run / "failures.jsonl"
    return [*column.read_bytes().splitlines(), *failures.read_bytes().splitlines()]


def asked(rows):
    return limpet.Dataset(rows, input="question", expected="answer")


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("evaluator", "read"), KINDS, ids=lambda one: getattr(one, "name", getattr(one, "__name__", ""))
)
def test_it_runs_again_after_an_edit_of_what_it_reads_and_only_then(tmp_path, evaluator, read):
    first = tmp_path / "first"
    rows = [ROW, {**ROW, "id": "b", "question": "r"}]
    options = {"version": "1"}
    limpet.evaluate(asked(rows), answering(), [evaluator], first, **options)
    assert len(scores(first)) == 2
    for edit in EVERYTHING:
        run = shutil.copytree(first, tmp_path / edit)
        if edit in ROW:
            edited = [{**ROW, edit: ["x", "x"] if edit == "topic" else "xx"}, rows[1]]
            limpet.evaluate(asked(edited), answering(), [evaluator], run, **options)
            again = 1
        else:
            changed = {"trace": {"trace": [{"name": "y"}]}, "output": {"value": "y"}}[edit]
            flow = answering(**changed)
            limpet.evaluate(asked(rows), flow, [evaluator], run, redo=["workflow"], **options)
            again = 2
        assert len(scores(run)) - 2 == (again if edit in read else 0), edit


def test_two_items_of_which_it_reads_the_same_have_a_score_each(tmp_path):
    asked = []

    def judge(output):
        asked.append(output)
        return len(asked)

    rows = [{"question": f"q{n}", "answer": "x"} for n in range(5)]
    result = limpet.evaluate(rows, answering(), [judge], tmp_path / "run", pace=1)
    assert sorted(one.scores["judge"].value for one in result.items) == [1, 2, 3, 4, 5]


def test_a_row_without_an_id_keeps_its_score_when_a_comment_is_edited(tmp_path):
    rows = [{"question": f"q{n}", "answer": "x", "note": "-"} for n in range(5)]
    options = {"run": tmp_path / "run", "version": "1"}
    limpet.evaluate(asked(rows), answering(), [of_expected], **options)
    rows[2]["note"] = "edited"
    result = limpet.evaluate(asked(rows), answering(), [of_expected], **options)
    assert result.plan.calls == 0
    assert result.summary["evaluators"]["of_expected"]["completed"] == 5
    assert [one.id for one in result.items][2] not in ("", None)


def test_another_declaration_is_another_key(tmp_path):
    def judge(item):
        return 1

    kinds = [["row.topic"], ["row.note"], ["row"]]
    for reads in kinds:
        evaluator = limpet.evaluator(reads=reads, version="1")(judge)
        plan = limpet.evaluate([ROW], answering(), [evaluator], tmp_path / "run", version="1").plan
        assert plan.evaluators[0].calls == 1


# ---- a wrong declaration ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda item: len(item.id), "does not declare that it reads 'id'"),
        (lambda item: len(item.input), "does not declare that it reads 'input'"),
        (lambda item: len(item.row["note"]), "does not declare that it reads 'row.note'"),
        (lambda item: len(item.row.get("note", "")), "does not declare that it reads 'row.note'"),
        (lambda item: "note" in item.row, "does not declare that it reads 'row.note'"),
    ],
)
def test_what_is_not_declared_is_not_given(tmp_path, function, message):
    evaluator = limpet.evaluator(name="judge", reads=["row.topic"], version="1")(function)
    result = limpet.evaluate([ROW], answering(), [evaluator], tmp_path / "run", version="1")
    assert message in result.items[0].score_errors["judge"]["message"]


def test_a_class_of_ones_own_is_given_what_it_declares(tmp_path):
    class Liar(Own):
        reads = ("output",)

        async def call(self, scored):
            return {"score": Score(scored.output == scored.expected)}

    result = limpet.evaluate([ROW], answering(), [Liar()], tmp_path / "run", version="1")
    assert (
        "does not declare that it reads 'expected'"
        in (result.items[0].score_errors["own"]["message"])
    )


@pytest.mark.parametrize(
    ("reads", "error", "message"),
    [
        (["output"], TypeError, "judge takes 'expected', but reads=.'output'. leaves it out"),
        (["output", "expect"], ValueError, "reads contains 'expect'; known: input, expected"),
        (["output", "row."], ValueError, "reads contains 'row.'"),
        (["output", 3], ValueError, "reads contains 3"),
        ("output", TypeError, "must be a list"),
        (None, None, ""),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_at_once(reads, error, message):
    def judge(output, expected):
        return 1

    if error is None:
        assert limpet.evaluator(judge).reads == {"output", "expected"}
        return
    with pytest.raises(error, match=message):
        limpet.evaluator(reads=reads)(judge)


def test_a_decorated_function_is_still_a_function():
    @limpet.evaluator
    def same(output, expected):
        return output == expected

    assert same(1, 1) is True
    assert (same.name, same.endpoint) == ("same", "same")
    assert isinstance(same, limpet.Evaluator)
