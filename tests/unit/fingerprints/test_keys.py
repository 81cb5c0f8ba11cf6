"""A key changes with what the result depends on, and with nothing else."""

from limpet.fingerprints.keys import Occurrences, digest, output_key, score_key


def test_a_key_is_32_hex_digits_and_the_same_in_every_process():
    # Pinned: if this changes, every journal in the world is worthless.
    assert digest({"b": 1, "a": [None, "ü", 2.5]}) == "3a5e8b2b9593e2b892f36c22586e1b75"


def test_an_output_depends_on_input_workflow_trial_and_occurrence():
    base = output_key({"q": "1"}, "w1", 0)
    others = [
        output_key({"q": "2"}, "w1", 0),
        output_key({"q": "1"}, "w2", 0),
        output_key({"q": "1"}, "w1", 1),
        output_key({"q": "1"}, "w1", 0, occurrence=1),
    ]
    assert len({base, *others}) == 5
    assert base == output_key({"q": "1"}, "w1", 0)


def test_a_score_depends_on_the_output_and_not_on_how_it_came_about():
    base = score_key(digest("Paris"), "Paris", "exact", 0, "q1")
    assert base == score_key(digest("Paris"), "Paris", "exact", 0, "q1")
    others = [
        score_key(digest("Rome"), "Paris", "exact", 0, "q1"),
        score_key(digest("Paris"), "Rome", "exact", 0, "q1"),
        score_key(digest("Paris"), "Paris", "exact-2", 0, "q1"),
        score_key(digest("Paris"), "Paris", "exact", 1, "q1"),
        score_key(digest("Paris"), "Paris", "exact", 0, "q2"),
    ]
    assert len({base, *others}) == 6


def test_equal_inputs_are_told_apart_by_their_order():
    occurrences = Occurrences()
    assert [occurrences.number(one) for one in ("a", "b", "a", "a")] == [0, 0, 1, 2]


def test_values_that_only_look_alike_have_different_digests():
    values = [1, 1.0, "1", True, [1], {"a": 1}, None, "null", 0, False, "", [], {}]
    assert len({digest(value) for value in values}) == len(values)
