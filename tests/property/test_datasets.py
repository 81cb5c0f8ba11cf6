"""Whatever table is written as a file is the table that is loaded."""

import csv
import json
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from limpet.datasets import Dataset

any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
odd_text = st.sampled_from(
    ["\x85", "\u2028", "\0", "\ud800", "\n", "\r", "\r\n", "001", "1e5", '"']
)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False, allow_infinity=False),
    any_text,
    odd_text,
)
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
names = any_text.filter(lambda name: name not in {"id", "ask", "_limpet", "_crc"})
rows = st.dictionaries(names, values, max_size=4).flatmap(
    lambda row: values.filter(lambda asked: asked is not None).map(
        lambda asked: {**row, "ask": asked}
    )
)
tables = st.lists(rows, min_size=1, max_size=5)

cells = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    odd_text.filter(lambda text: text != "\ud800"),
)
text_tables = st.lists(
    cells.filter(lambda name: name not in {"id", "_limpet", "_crc"}),
    min_size=1,
    max_size=4,
    unique=True,
).flatmap(
    lambda header: st.tuples(
        st.just(header),
        st.lists(
            st.lists(cells, min_size=len(header), max_size=len(header)), min_size=1, max_size=5
        ),
    )
)


def same(one, other):
    """Equal, with types told apart, and -0.0 from 0.0."""
    return json.dumps(one) == json.dumps(other)


def loaded(name, content, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        return Dataset(path, **options).load()


@given(tables, st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_any_rows_written_as_jsonl_are_the_rows_loaded(table, ascii_only, end):
    def line(row):
        try:
            return json.dumps(row, ensure_ascii=ascii_only).encode()
        except UnicodeEncodeError:  # a lone surrogate has to be escaped
            return json.dumps(row).encode()

    content = end.encode().join(map(line, table))
    dataset = loaded("q.jsonl", content, input="ask")
    assert same([item.row for item in dataset], table)
    assert len({item.id for item in dataset}) == len(table)


@given(tables, st.sampled_from([None, 2]))
def test_any_rows_written_as_json_are_the_rows_loaded(table, indent):
    dataset = loaded("q.json", json.dumps(table, indent=indent).encode(), input="ask")
    assert same([item.row for item in dataset], table)


@given(tables, rows, st.data())
def test_a_row_put_in_shifts_no_other_id(table, more, data):
    at = data.draw(st.integers(0, len(table)))
    before = {item.id: item.row for item in Dataset(table, input="ask").load()}
    after = {
        item.id: item.row for item in Dataset([*table[:at], more, *table[at:]], input="ask").load()
    }
    assert same({name: after[name] for name in before}, before)
    assert len(after) == len(before) + 1


@given(text_tables, st.sampled_from([",", "\t"]), st.sampled_from(["\r\n", "\n"]), st.booleans())
@example((["a", "b"], [[" ", ""], ["", ""]]), ",", "\n", False)
@example(([""], [[""], [" "]]), ",", "\n", True)
def test_any_texts_written_as_csv_are_the_texts_loaded(table, delimiter, end, bom):
    header, lines = table
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "q.csv" if delimiter == "," else "q.tsv")
        encoding = "utf-8-sig" if bom else "utf-8"
        with path.open("w", newline="", encoding=encoding) as file:
            # Everything quoted: before Python 3.13 the writer leaves "\r" bare where lines end
            # with "\n" only, and nobody can read that back.
            csv.writer(
                file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL
            ).writerows([header, *lines])
        dataset = Dataset(path, input=header[0]).load()
    assert [item.row for item in dataset] == [
        dict(zip(header, line, strict=True)) for line in lines
    ]


@given(text_tables)
def test_any_texts_written_with_as_few_quotes_as_possible_are_loaded(table):
    header, lines = table
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "q.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *lines])
        dataset = Dataset(path, input=header[0]).load()
    assert [list(item.row.values()) for item in dataset] == lines


@given(
    st.sets(st.integers(0, 1000), min_size=1, max_size=30), st.integers(1, 30), st.integers(-5, 5)
)
def test_a_larger_sample_holds_the_smaller_one(numbers, size, seed):
    table = [{"id": number, "question": "x"} for number in sorted(numbers)]
    small = [item.id for item in Dataset(table, sample=size, seed=seed).load()]
    large = [item.id for item in Dataset(table, sample=size + 1, seed=seed).load()]
    mixed = [item.id for item in Dataset(table, sample=size, seed=seed, shuffle=True).load()]
    assert len(small) == min(size, len(table))
    assert set(small) <= set(large)
    assert sorted(small) == sorted(mixed)
    assert small == sorted(small, key=int)
