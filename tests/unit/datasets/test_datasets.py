"""Rows in, from wherever they are, as they are."""

import json
import os
import pickle
import sys
from pathlib import Path, PurePath

import pytest

import limpet
from limpet.datasets import BadRow, Dataset, LoadedDataset
from limpet.errors import DatasetError, LimpetError
from limpet.shapes import Item

ROWS = [
    {"id": "a", "question": "1+1", "answer": "2", "level": "easy"},
    {"id": "b", "question": "2+2", "answer": "4", "level": "easy"},
    {"id": "c", "question": "3*3", "answer": "9", "level": "hard"},
]


def ids(dataset):
    return [item.id for item in dataset]


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def refused(source, **options):
    with pytest.raises(DatasetError) as raised:
        Dataset(source, **options).load()
    return str(raised.value), raised.value.hint


# What a dataset is


def test_a_dataset_can_be_iterated_any_number_of_times(tmp_path):
    dataset = Dataset(write(tmp_path / "q.jsonl", *ROWS)).load()
    assert isinstance(dataset, LoadedDataset)
    assert list(dataset) == list(dataset)
    assert next(iter(dataset)) == Item("a", "1+1", "2", ROWS[0])
    assert (len(dataset), dataset.name, dataset.filtered, dataset.bad_rows) == (3, "q.jsonl", 0, [])
    assert dataset.columns == ["id", "question", "answer", "level"]
    assert dataset.roles == ("id", "question", "answer")


def test_a_dataset_says_what_it_holds_and_what_it_does_not():
    rows = [*ROWS, {"id": "d"}]
    dataset = Dataset(rows, on_bad_row="skip", filter={"deny": {"level": "hard"}}).load()
    assert repr(dataset) == "<LoadedDataset rows: 2 items, 1 bad row skipped, 1 filtered>"
    assert repr(Dataset(ROWS, limit=1).load()) == "<LoadedDataset rows: 1 item>"


def test_bad_rows_are_in_the_order_of_the_file_and_shortened(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"id":"a"}\n' + "x" * 10_000 + '\n{"id":"b","question":"y"}\n')
    first, second = Dataset(path, on_bad_row="skip").load().bad_rows
    assert first == BadRow(f"{path}, line 1", 1, "{'id': 'a'}", "the input 'question' is missing")
    assert (second.line, len(second.value)) == (2, 301)


def test_nothing_left_after_skipping_is_an_error_with_the_first_reason(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("x\ny\n")
    message, _ = refused(path, on_bad_row="skip")
    assert message == (
        f"{path}: none of its rows can be used; 2 were skipped, the first: "
        f"{path}, line 1: not JSON (Expecting value, at character 1): x"
    )
    message, _ = refused([{"question": None}], on_bad_row="skip")
    assert message.startswith("rows: none of its rows can be used; 1 were skipped")


def test_an_error_says_what_to_do_and_survives_pickling():
    with pytest.raises(LimpetError) as raised:
        Dataset([{"question": None}]).load()
    assert raised.value.hint == (
        'fix it, or skip and list bad rows with on_bad_row: skip (in Python: on_bad_row="skip")'
    )
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.hint) == (str(raised.value), raised.value.hint)


# Columns


def test_the_usual_names_are_found_in_their_order():
    row = {"input": 1, "expected": 2}
    (item,) = Dataset([row]).load()
    assert (item.input, item.expected) == (1, 2)
    (item,) = Dataset([{**row, "question": 3, "answer": 4}]).load()
    assert (item.input, item.expected) == (3, 4)


def test_columns_are_mapped_by_name():
    (item,) = Dataset([{"k": 7, "q": "x", "a": "y"}], id="k", input="q", expected="a").load()
    assert (item.id, item.input, item.expected) == ("7", "x", "y")


def test_a_dataset_may_expect_nothing():
    (item,) = Dataset([{"question": "x"}]).load()
    assert item.expected is None
    first, second = Dataset([{"question": "x", "answer": 1}, {"question": "y"}]).load()
    assert (first.expected, second.expected) == (1, None)


def test_the_input_column_is_not_its_own_answer():
    (item,) = Dataset([{"answer": "x"}], input="answer").load()
    assert item.expected is None


@pytest.mark.parametrize("role", ["id", "input", "expected"])
def test_a_named_column_that_is_missing_is_an_error_with_the_nearest(role):
    message, hint = refused(ROWS, **{role: "Level "})
    assert message == (
        f"rows: {role}='Level ': there is no column 'Level '; "
        "the columns are 'id', 'question', 'answer', 'level'"
    )
    assert hint == "did you mean 'level'?"


def test_the_hints_on_an_input_that_is_not_there_fit_the_file(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("id;question\na;x\n")
    assert refused(path)[1].startswith("its cells seem to be separated by semicolons")
    assert refused([{"Questions": 1}])[1] == (
        "name the input column: input: Questions (in Python: input='Questions')"
    )
    assert refused([{"prompt": 1}])[1] == ("name the input column: input: … (in Python: input='…')")
    assert refused(path, input="zzz")[1].startswith("its cells seem")
    assert refused([{"a": 1, "b": 2}], input="zzz")[1] is None


def test_a_message_lists_no_more_columns_than_it_can_bear():
    message, _ = refused([{f"c{number}": 1 for number in range(1000)}])
    assert message.endswith("'c18', 'c19' and 980 more")


# Ids


def test_ids_are_texts_as_they_are():
    values = ["001", "1e5", " x ", 7, 1.5, "ü\n", "\ud800"]
    rows = [{"id": value, "question": "x"} for value in values]
    assert ids(Dataset(rows).load()) == ["001", "1e5", " x ", "7", "1.5", "ü\n", "\ud800"]


def test_without_an_id_column_equal_rows_stay_distinct():
    rows = [{"question": "x"}, {"question": "y"}, {"question": "x"}, {"question": "x"}]
    first, other, second, third = ids(Dataset(rows).load())
    assert len(first) == 16
    assert int(first, 16) >= 0
    assert (second, third) == (f"{first}-1", f"{first}-2")
    assert other not in {first, second, third}


def test_without_an_id_column_an_inserted_row_shifts_no_other():
    before = ids(Dataset([{"question": str(number)} for number in range(5)]).load())
    after = ids(Dataset([{"question": str(number)} for number in (0, 9, 1, 2, 3, 4)]).load())
    assert [name for name in after if name in before] == before


def test_the_same_rows_have_the_same_ids_from_any_format(tmp_path):
    rows = [{"question": "x", "n": "1"}, {"question": "y", "n": "2"}]
    table = tmp_path / "q.csv"
    table.write_text("n,question\n1,x\n2,y\n")
    assert (
        ids(Dataset(rows).load())
        == ids(Dataset(table).load())
        == ids(Dataset(write(tmp_path / "q.jsonl", *rows)).load())
    )


NO_JSON = {
    "a class": (object, "a class (object)"),
    "deep": (nested(254), "it is nested deeper"),
    "very deep": (nested(5_000), "it is nested deeper"),
}


@pytest.mark.parametrize("value", NO_JSON)
def test_a_row_that_has_no_json_form_is_a_bad_row(value):
    value, why = NO_JSON[value]
    message, _ = refused([{"question": "x", "kind": value}])
    assert message.startswith(f"rows, row 1: 'kind' cannot be stored as JSON: {why}")


@pytest.mark.parametrize("value", NO_JSON)
def test_a_row_with_an_id_that_has_no_json_form_is_refused(tmp_path, value):
    value, why = NO_JSON[value]
    rows = [*ROWS, {"id": "d", "question": "x", "kind": value}]
    with pytest.raises(DatasetError) as raised:
        limpet.evaluate(rows, lambda question: question, run=tmp_path / "run", version="1")
    assert str(raised.value).startswith(f"item 'd': 'kind' cannot be stored as JSON: {why}")
    assert "remove the column" in raised.value.hint


def test_the_deepest_row_that_is_taken_runs(tmp_path):
    rows = [{"id": 1, "question": "x", "tree": nested(252)}]
    result = limpet.evaluate(rows, lambda question: question, run=tmp_path / "run", version="1")
    assert result.summary["workflow"]["completed"] == 1


@pytest.mark.parametrize("value", [None, "", " \n", float("nan")])
def test_a_blank_id_is_a_bad_row(value):
    message, _ = refused([ROWS[0], {"id": value, "question": "x"}])
    assert message.startswith("rows, row 2: the id 'id' is blank or missing: ")


def test_an_id_whose_text_python_refuses_is_a_bad_row():
    message, _ = refused([{"id": 10**5000, "question": "x"}])
    assert message.startswith("rows, row 1: the id cannot be a string: ")


def test_of_two_rows_with_one_id_the_first_stays():
    rows = [{"id": 7, "question": "x"}, {"id": "7", "question": "y"}, {"id": 8, "question": "z"}]
    dataset = Dataset(rows, on_bad_row="skip").load()
    assert [(item.id, item.input) for item in dataset] == [("7", "x"), ("8", "z")]
    assert str(dataset.bad_rows[0]) == "rows, row 2: the same id as row 1: id='7'"


# Rows in memory, DataFrames, functions


def test_rows_in_memory_are_copied_and_may_be_any_iterable():
    rows = [dict(row) for row in ROWS]
    dataset = Dataset(row for row in rows).load()
    rows[0]["question"] = "changed"
    assert next(iter(dataset)).row == ROWS[0]
    assert len(dataset) == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([1], "rows, row 1: a row must be a dict, not int: 1"),
        ([ROWS[0], "x"], "rows, row 2: a row must be a dict, not str: x"),
        ([{1: 2}], "rows, row 1: a column name is not a string: {1: 2}"),
        (
            [{"_crc": 1}],
            "rows, row 1: the column name '_crc' is reserved by Limpet: ",
        ),
        ([], "rows: there are no rows"),
        ({"id": ["a"]}, "rows: dict is not a dataset: {'id': ['a']}"),
        (b"rows", "rows: bytes is not a dataset: b'rows'"),
        (None, "rows: NoneType is not a dataset: None"),
        (7, "rows: int is not a dataset: 7"),
    ],
)
def test_what_is_no_dataset_is_said(source, message):
    assert refused(source)[0].startswith(message)


def test_a_pandas_frame_keeps_its_types():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "id": [1, 2],
            "question": ["001", "1e5"],
            "score": [float("nan"), 1.5],
            "day": pandas.to_datetime(["2024-01-02", None]),
            "count": pandas.array([3, None], dtype="Int64"),
            "kind": pandas.Categorical(["u", "v"]),
            "took": pandas.to_timedelta([1.5, 2], unit="s"),
        },
        index=[10, 20],
    )
    frame["many"] = [frame["id"].to_numpy(), None]
    first, second = [item.row for item in Dataset(frame).load()]
    assert first == {
        "id": 1,
        "question": "001",
        "score": None,
        "day": "2024-01-02T00:00:00",
        "count": 3,
        "kind": "u",
        "took": 1.5,
        "many": [1, 2],
    }
    assert second["day"] is None
    assert second["count"] is None
    assert second["many"] is None
    assert {type(value) for value in first.values()} == {int, str, type(None), float, list}


def test_a_polars_frame_keeps_its_types():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"question": ["001", "x"], "score": [float("nan"), None], "deep": [{"a": [1]}, {"a": []}]}
    ).with_columns(day=polars.date(2024, 1, 2))
    dataset = Dataset(frame).load()
    assert dataset.name == "DataFrame"
    assert [item.row for item in dataset] == [
        {"question": "001", "score": None, "deep": {"a": [1]}, "day": "2024-01-02"},
        {"question": "x", "score": None, "deep": {"a": []}, "day": "2024-01-02"},
    ]


def test_a_frame_with_bad_columns_is_refused():
    pandas = pytest.importorskip("pandas")
    message, hint = refused(pandas.DataFrame([[1, 2]]))
    assert message == "DataFrame: the name of column 1 is not a string: [0, 1]"
    assert hint == "rename the columns of the DataFrame"
    message, _ = refused(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    assert message == "DataFrame: columns 1 and 2 have the same name: ['a', 'a']"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A module of the user's own: functions that return each kind of source."""
    write(tmp_path / "q.jsonl", *ROWS)
    (tmp_path / "my_rows.py").write_text(
        "import pathlib\n"
        "HERE = pathlib.Path(__file__).parent\n"
        "NUMBER = 7\n"
        "def rows(): return [{'question': 'x'}]\n"
        "def stream(): yield {'question': 'x'}\n"
        "def file(): return HERE / 'q.jsonl'\n"
        "def nothing(): return None\n"
        "def number(): return 7\n"
        "def fails(): raise KeyError('token')\n"
        "async def later(): return []\n"
        "async def stream_later():\n    yield {}\n"
        "class Maker:\n    @staticmethod\n    def rows(): return [{'question': 'y'}]\n"
    )
    (tmp_path / "my_broken.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_rows", None)


@pytest.mark.parametrize(
    ("name", "many"), [("rows", 1), ("stream", 1), ("file", 3), ("Maker.rows", 1)]
)
def test_a_function_returns_the_rows(modules, name, many):
    assert len(Dataset(f"my_rows:{name}").load()) == many


def test_a_function_may_be_given_itself():
    def my_rows():
        return ROWS

    assert ids(Dataset(my_rows).load()) == ["a", "b", "c"]
    assert Dataset(my_rows).load().name.endswith("my_rows()")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("my_rows:row", "my_rows:row: there is no 'row' in 'my_rows'"),
        ("my_rows:NUMBER", "my_rows:NUMBER: is int, not a function"),
        ("my_rows:nothing", "my_rows:nothing(): NoneType is not a dataset: None"),
        ("my_rows:number", "my_rows:number(): int is not a dataset: 7"),
        ("my_rows:later", "my_rows:later(): is async"),
        ("my_rows:stream_later", "my_rows:stream_later(): is async"),
        ("no_such:rows", "no_such:rows: the module 'no_such' cannot be imported: No module named"),
        ("my_broken:rows", "my_broken:rows: the module 'my_broken' cannot be imported: No module"),
    ],
)
def test_a_function_that_gives_no_rows_is_named(modules, source, message):
    assert refused(source)[0].startswith(message)


def test_an_error_of_the_users_function_stays_his_own(modules):
    with pytest.raises(KeyError, match="token") as raised:
        Dataset("my_rows:fails").load()
    assert raised.value.__notes__ == ["while calling my_rows:fails() for the rows of a dataset"]


def test_a_path_with_a_colon_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a:q.jsonl", *ROWS)
    assert len(Dataset("a:q.jsonl").load()) == 3
    write(tmp_path / "a:q", *ROWS)
    assert refused("a:q")[0].startswith("a:q: unsupported file type ''")


# Files


def test_a_path_may_be_text_or_path_and_start_at_home(tmp_path, monkeypatch):
    path = write(tmp_path / "q.jsonl", *ROWS)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (
        ids(Dataset(path).load())
        == ids(Dataset(str(path)).load())
        == ids(Dataset("~/q.jsonl").load())
        == ["a", "b", "c"]
    )
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "~q.jsonl", *ROWS)
    assert (
        ids(Dataset("~q.jsonl").load())
        == ids(Dataset(PurePath("~q.jsonl")).load())
        == ["a", "b", "c"]
    )


def test_a_missing_file_is_named_with_the_nearest(tmp_path, monkeypatch):
    write(tmp_path / "questions.jsonl", *ROWS)
    message, hint = refused(tmp_path / "question.jsonl")
    assert message == f"{tmp_path}/question.jsonl: file not found"
    assert hint == "did you mean 'questions.jsonl'?"
    monkeypatch.chdir(tmp_path)
    assert refused("zz.csv")[1] == f"paths start at {str(tmp_path)!r}"
    assert refused(tmp_path / "zz.csv") == ("zz.csv: file not found", "check the name")
    assert refused("no/zz.csv")[1] == "the folder 'no' cannot be read either"
    assert refused("a\0b.csv")[0] == "a\\x00b.csv: file not found"
    assert refused("questions.jsonl/q.csv")[0] == "questions.jsonl/q.csv: file not found"


def test_a_directory_is_named(tmp_path):
    assert refused(tmp_path)[0] == f"{tmp_path}: is a directory"


def test_a_name_that_is_too_long_is_named(tmp_path):
    message, _ = refused("x" * 5000 + ".jsonl")
    assert message.endswith("…: cannot be read: File name too long")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    path = write(tmp_path / "q.jsonl", *ROWS)
    path.chmod(0)
    assert refused(path)[0] == f"{path}: cannot be read: Permission denied"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that fails to read")
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_a_disk_that_fails_is_said(tmp_path, suffix):
    path = tmp_path / f"q.{suffix}"
    path.symlink_to("/proc/self/mem")
    message, hint = refused(path)
    assert message == f"{path}: cannot be read: Input/output error"
    assert hint == "check the permissions and the disk"


def test_a_text_file_is_read_line_by_line(tmp_path):
    # A bad row far behind would be met too late to matter: the first one stops the reading.
    path = tmp_path / "q.jsonl"
    with path.open("wb") as file:
        file.write(b"x\n")
        file.truncate(50 * 2**30)  # fifty gigabytes, that nobody reads
    assert refused(path)[0].startswith(f"{path}, line 1: not JSON")


# Arguments


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on_bad_row": "ignore"}, ValueError, 'on_bad_row=\'ignore\': must be "raise" or "skip"'),
        ({"limit": 0}, ValueError, "limit=0: must be a whole number, 1 or more"),
        ({"limit": "3"}, TypeError, "limit='3': must be a whole number, 1 or more"),
        ({"sample": -1}, ValueError, "sample=-1: must be a whole number, 1 or more"),
        ({"seed": None}, TypeError, "seed=None: must be a whole number"),
        ({"id": 3}, TypeError, "id=3: must be a string or None"),
        ({"sheet": 0}, TypeError, "sheet=0: must be a string or None"),
        ({"sheet": "x"}, DatasetError, "sheet='x': only a .xlsx file has sheets"),
        ({"filter": []}, TypeError, 'filter=[]: must be {"allow": '),
        ({"filter": {"allowlist": {}}}, TypeError, "filter={'allowlist': {}}: must be "),
        ({"filter": {"allow": ["x"]}}, TypeError, "filter={'allow': ['x']}: must be "),
        ({"filter": {"allow": {1: "x"}}}, TypeError, "filter={'allow': {1: 'x'}}: must be "),
    ],
)
def test_an_argument_that_is_not_allowed_is_named_before_anything_is_read(options, error, message):
    def never():
        raise AssertionError

    with pytest.raises(error) as raised:
        Dataset(ROWS if "sheet" in options else never, **options).load()
    assert str(raised.value).startswith(message)


def test_the_same_id_is_found_in_a_file_of_one_line(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('[{"id": "a", "question": "x"}, {"id": "a", "question": "y"}]')
    with pytest.raises(DatasetError, match="the same id as line 1"):
        Dataset(path).load()


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv"])
def test_a_pipe_or_a_device_is_not_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for path in (tmp_path / name, tmp_path / "zero.jsonl"):
        assert refused(path)[0] == f"{path}: is a pipe or a device, not a file"
