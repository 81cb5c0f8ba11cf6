"""Which rows are asked for, and in which order."""

import pytest

from limpet.datasets import Dataset
from limpet.errors import DatasetError

ROWS = [
    {"id": "a", "question": "1", "level": "easy", "n": 1, "ok": True},
    {"id": "b", "question": "2", "level": "easy-ish", "n": 2, "ok": False},
    {"id": "c", "question": "3", "level": "hard", "n": 10, "ok": None},
    {"id": "d", "question": "4", "n": [1, "ü"], "ok": 1.0},
]
MANY = [{"id": f"q{number}", "question": "x"} for number in range(200)]


def ids(rows=ROWS, **options):
    return [item.id for item in Dataset(rows, **options).load()]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({}, "abcd"),
        ({"allow": None, "deny": None}, "abcd"),
        ({"allow": {"level": ["easy"]}}, "a"),
        ({"allow": {"level": "easy"}}, "a"),
        ({"allow": {"level": ["easy*"]}}, "ab"),
        ({"allow": {"level": ["EASY*"]}}, ""),
        ({"allow": {"level": ["easy", "hard"]}}, "ac"),
        ({"allow": {"level": ["*"]}}, "abc"),
        ({"allow": {"level": ["easy*"], "n": [2]}}, "b"),
        ({"allow": {"n": ["1*"]}}, "ac"),
        ({"allow": {"n": [1]}}, "a"),
        ({"allow": {"n": 1}}, "a"),
        ({"allow": {"n": ['[[]1, "?"]']}}, "d"),
        ({"allow": {"n": ['[1, "ü"]']}}, "ad"),
        ({"allow": {"ok": [True]}}, "a"),
        ({"allow": {"ok": ["true", "false"]}}, "ab"),
        ({"allow": {"ok": [None]}}, "c"),
        ({"allow": {"ok": [1.0]}}, "d"),
        ({"deny": {"level": ["easy*"]}}, "cd"),
        ({"deny": {"level": ["hard"], "n": ["2"]}}, "ad"),
        ({"allow": {"level": ["easy*"]}, "deny": {"id": ["b"]}}, "a"),
        ({"allow": {"level": []}}, ""),
    ],
)
def test_a_filter_keeps_what_is_allowed_and_not_denied(asked, kept):
    if not kept:
        with pytest.raises(DatasetError, match=r"^rows: the filter matches none of its 4 rows$"):
            Dataset(ROWS, filter=asked).load()
        return
    dataset = Dataset(ROWS, filter=asked).load()
    assert "".join(item.id for item in dataset) == kept
    assert (dataset.filtered, dataset.bad_rows) == (4 - len(kept), [])


def test_a_value_with_brackets_matches_itself():
    rows = [{"question": "x", "tag": "[draft]"}, {"question": "y", "tag": "d"}]
    assert [
        item.input for item in Dataset(rows, filter={"allow": {"tag": ["[draft]"]}}).load()
    ] == ["x", "y"]
    assert [
        item.input for item in Dataset(rows, filter={"allow": {"tag": ["[[]draft]"]}}).load()
    ] == ["x"]


@pytest.mark.parametrize("side", ["allow", "deny"])
def test_an_unknown_column_in_a_filter_is_named_with_the_nearest(side):
    with pytest.raises(DatasetError) as raised:
        Dataset(ROWS, filter={side: {"levels": ["easy"]}}).load()
    assert str(raised.value) == (
        f"rows: filter: {side}: there is no column 'levels'; "
        "the columns are 'id', 'question', 'level', 'n', 'ok'"
    )
    assert raised.value.hint == "did you mean 'level'?"


def test_what_the_filter_leaves_out_is_looked_at_no_further():
    rows = [*ROWS, {"id": "a", "question": None, "level": "draft"}]
    dataset = Dataset(rows, filter={"deny": {"level": "draft"}}).load()
    assert (len(dataset), dataset.filtered) == (4, 1)


def test_a_limit_takes_the_first():
    assert ids(limit=2) == ["a", "b"]
    assert ids(limit=9) == ["a", "b", "c", "d"]


def test_a_shuffle_is_the_same_for_the_same_seed_and_loses_nothing():
    first = ids(MANY, shuffle=True)
    assert first == ids(MANY, shuffle=True) == ids(MANY, shuffle=True, seed=0)
    assert first != ids(MANY, shuffle=True, seed=1)
    assert first != ids(MANY)
    assert sorted(first) == sorted(ids(MANY))


def test_a_shuffle_is_the_same_on_every_machine():
    assert ids(MANY, shuffle=True, limit=3) == SHUFFLED


def test_a_sample_keeps_the_order_of_the_dataset_unless_shuffled():
    sample = ids(MANY, sample=20, seed=3)
    assert len(set(sample)) == 20
    assert sample == [name for name in ids(MANY) if name in sample]
    mixed = ids(MANY, sample=20, seed=3, shuffle=True)
    assert mixed != sample
    assert sorted(mixed) == sorted(sample)
    assert sample != ids(MANY, sample=20, seed=4)


def test_a_sample_of_more_than_there_is_is_all():
    assert ids(sample=100) == ["a", "b", "c", "d"]


def test_a_larger_sample_holds_the_smaller_and_a_new_row_takes_at_most_one_position():
    small = set(ids(MANY, sample=20))
    assert small < set(ids(MANY, sample=21))
    assert len(small - set(ids([{"id": "new", "question": "x"}, *MANY], sample=20))) <= 1


def test_the_filter_comes_first_then_the_sample_then_the_limit():
    evens = {"allow": {"id": ["*[02468]"]}}
    sample = ids(MANY, filter=evens, sample=10)
    assert len(sample) == 10
    assert all(int(name[1:]) % 2 == 0 for name in sample)
    assert ids(MANY, filter=evens, sample=10, limit=3) == sample[:3]


def test_samples_are_fair():
    counts = dict.fromkeys(ids(MANY), 0)
    for seed in range(200):
        for name in ids(MANY, sample=50, seed=seed):
            counts[name] += 1
    # Fifty of two hundred, two hundred times: 50 each, with a standard deviation of 6.
    assert min(counts.values()) > 20
    assert max(counts.values()) < 80


SHUFFLED = ["q164", "q197", "q167"]
