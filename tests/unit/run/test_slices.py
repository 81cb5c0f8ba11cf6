"""Which slices differ from the rest: items that belong together count together."""

import pytest

import limpet
from limpet.evaluators import as_evaluator
from limpet.report.items import difference_lines

# 12 documents of 10 questions each, all of a document answered alike. Topic "a" is right on five of
# its six documents, "b" on two.
ROWS = [
    {
        "id": f"q{document}-{n}",
        "question": "yes" if document in {0, 1, 2, 3, 4, 6, 7} else "no",
        "answer": "yes",
        "topic": "a" if document < 6 else "b",
        "document": f"d{document}",
    }
    for document in range(12)
    for n in range(10)
]


def from_rest(tmp_path, rows=ROWS, trials=1, **scale):
    @limpet.evaluator(**scale)
    def right(output, expected):
        return output == expected

    result = limpet.evaluate(
        rows, lambda question: question, [right], run=tmp_path, trials=trials, show=False
    )
    return result.by("topic")[0]["scores"]["right"].get("from_rest")


@pytest.mark.quick(2)
@pytest.mark.parametrize("trials", [1, 2])
def test_a_slice_made_of_whole_groups_is_compared_by_groups(tmp_path, trials):
    alone = from_rest(tmp_path / "alone", trials=trials)
    together = from_rest(tmp_path / "together", trials=trials, group="document")
    assert alone["difference"] == together["difference"] == pytest.approx(0.5)
    assert alone["p_adjusted"] < 0.0001
    assert 0.05 < together["p_adjusted"] < 0.3


def test_fewer_than_five_groups_say_nothing_about_a_slice(tmp_path):
    few = [row for row in ROWS if row["document"] in {"d0", "d1", "d2", "d6", "d7", "d8"}]
    assert from_rest(tmp_path, few, group="document") is None


def test_it_is_said_that_items_of_a_group_count_together(tmp_path):
    exact = limpet.exact_match()
    right = as_evaluator(limpet.exact_match(), "right", scale=limpet.types.Scale(group="document"))
    result = limpet.evaluate(ROWS, lambda question: question, [exact, right], tmp_path, show=False)
    lines = difference_lines(result.by("topic"))
    assert "a: exact_match is 0.5 above the rest (p < 0.0001)" in lines
    assert [line for line in lines if "count as one group" in line] == [
        "right: items with the same document count as one group"
    ]
