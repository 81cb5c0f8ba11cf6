"""A key changes with what the result depends on, and with nothing else."""

from limpet.fingerprints.keys import Occurrences, digest, item_identity, output_key, score_key


def test_a_key_is_32_hex_digits_and_the_same_in_every_process():
    # Pinned: if this changes, every journal in the world is worthless.
    assert digest({"b": 1, "a": [None, "ü", 2.5]}) == "3a5e8b2b9593e2b892f36c22586e1b75"


def test_an_output_depends_on_input_workflow_trial_and_occurrence():
    first, second = digest({"q": "1"}), digest({"q": "2"})
    base = output_key(first, "w1", 0)
    others = [
        output_key(second, "w1", 0),
        output_key(first, "w2", 0),
        output_key(first, "w1", 1),
        output_key(first, "w1", 0, occurrence=1),
    ]
    assert len({base, *others}) == 5
    assert base == output_key(first, "w1", 0)


def test_a_score_depends_on_the_output_and_not_on_how_it_came_about():
    paris, rome = digest("Paris"), digest("Rome")
    item, other = item_identity(digest("q1")), item_identity(digest("q2"))
    base = score_key(paris, paris, "exact", 0, item)
    assert base == score_key(paris, paris, "exact", 0, item)
    others = [
        score_key(rome, paris, "exact", 0, item),
        score_key(paris, rome, "exact", 0, item),
        score_key(paris, paris, "exact-2", 0, item),
        score_key(paris, paris, "exact", 1, item),
        score_key(paris, paris, "exact", 0, other),
        score_key(paris, paris, "exact", 0, item_identity(digest("q1"), 1)),
        output_key(paris, "exact", 0),
    ]
    assert len({base, *others}) == 8


def test_equal_inputs_are_told_apart_by_their_order():
    occurrences = Occurrences()
    assert [occurrences.number(one) for one in ("a", "b", "a", "a")] == [0, 0, 1, 2]


def test_values_that_only_look_alike_have_different_digests():
    values = [1, 1.0, "1", True, [1], {"a": 1}, None, "null", 0, False, "", [], {}]
    assert len({digest(value) for value in values}) == len(values)
