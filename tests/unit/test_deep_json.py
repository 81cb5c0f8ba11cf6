"""JSON of any depth, from anybody: the same answer on every version of Python, and no crash.

Python's own parser takes about 900 levels in 3.11, 10,000 in 3.13, and later what the stack holds.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import limpet
from limpet.datasets import Dataset
from limpet.evaluators import json_match
from limpet.evaluators.protocol import Scored
from limpet.journal.lines import LineKind, kind_of
from limpet.json_values import MOST_LEVELS, is_deep_text
from limpet.models.schema import parse_reply
from limpet.run.record_fields import ToolkitNames
from limpet.run.results.output_files import AnswerRows
from limpet.transport.parsing import parse_json
from limpet.view.server import _json as parse_label

LEVELS = [MOST_LEVELS + 1, 5_000, 20_000, 200_000]
FORMS = {
    "closed": lambda levels: "[" * levels + "]" * levels,
    "not closed": lambda levels: "[" * levels,
    "objects": lambda levels: '{"a":' * levels + "1" + "}" * levels,
    "a wide number": lambda levels: "[" * levels + "9" * 30 + "]" * levels,
    "half a character": lambda levels: "[" * levels + '"\\ud83d"' + "]" * levels,
}
every_depth = pytest.mark.parametrize("levels", LEVELS)
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))


@every_depth
@every_form
def test_an_answer_of_a_server_and_a_reply_of_a_model_are_refused(form, levels):
    for parse in (lambda text: parse_json(text.encode()), parse_reply):
        with pytest.raises(ValueError, match="nested too deep"):
            parse(form(levels))


@every_depth
@every_form
@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_a_row_of_a_dataset_is_refused_with_its_line(tmp_path, suffix, form, levels):
    file = tmp_path / f"q.{suffix}"
    row = '{"id":"b","question":' + form(levels)
    row += "}" if row.endswith(("]", "}")) else ""
    rows = ['{"id":"a","question":"x"}', row]
    file.write_text("[\n" + ",\n".join(rows) + "]" if suffix == "json" else "\n".join(rows))
    line = 3 if suffix == "json" else 2
    with pytest.raises(limpet.errors.DatasetError, match=rf"line {line}\b.*: it is nested too"):
        Dataset(file).load()


@every_depth
def test_a_row_that_is_too_deep_can_be_skipped_where_rows_are_lines(tmp_path, levels):
    deep = FORMS["closed"](levels)
    file = tmp_path / "q.jsonl"
    file.write_text(f'{{"id":"a","question":"x"}}\n{{"id":"b","question":{deep}}}\n')
    loaded = Dataset(file, on_bad_row="skip").load()
    assert [item.id for item in loaded.items] == ["a"]
    assert [bad.reason for bad in loaded.bad_rows] == ["it is nested too deep"]


@every_depth
def test_a_line_of_a_journal_is_damaged_and_the_results_around_it_count(tmp_path, levels):
    asked = []

    def answer(question):
        asked.append(question)
        return question

    rows = [{"id": id_, "question": id_} for id_ in "abc"]
    limpet.evaluate(rows, answer, [], tmp_path / "run", version="1")
    column = tmp_path / "run" / "workflow_output.jsonl"
    first, *others = column.read_bytes().splitlines(keepends=True)
    bad = [form(levels).encode() + b"\n" for form in FORMS.values()]
    assert {kind_of(line) for line in bad} == {LineKind.BAD}
    column.write_bytes(b"".join([first, *bad, *others]))
    again = limpet.evaluate(rows, answer, [], tmp_path / "run", version="1")
    assert [item.output.value for item in again.items] == ["a", "b", "c"]
    assert len(asked) == 3


@every_depth
@every_form
def test_an_output_that_is_too_deep_does_not_match_and_an_expected_value_is_a_mistake(form, levels):
    score = json_match().score(Scored(form(levels), '{"a": 1}'))
    assert score.value is False
    assert score.explanation == "the output is not JSON: it is nested deeper than 250 levels"
    with pytest.raises(limpet.PermanentError, match="nested deeper than 250 levels"):
        json_match().score(Scored(form(levels), form(levels)))


@every_depth
@every_form
def test_an_output_that_the_toolkit_would_parse_stays_a_string(form, levels):
    rows = AnswerRows(ToolkitNames(), bare=True, as_toolkit=True)
    outputs = [{"output": output} for output in ('{"a": 1}', form(levels))]
    assert [rows.of_answer(one, "a", 0) for one in outputs] == [{"a": 1}, form(levels)]


@every_form
@pytest.mark.parametrize("levels", [5_000, 20_000, 200_000])
def test_a_label_is_refused(form, levels):
    with pytest.raises(limpet.LimpetError, match="the request is no JSON object"):
        parse_label(form(levels).encode())


# ---- counting levels ----------------------------------------------------------------------------

TEXTS = st.text(alphabet='[]{}"\\,:a\n\u2028\ud83d') | st.integers() | st.none()
VALUES = st.recursive(
    TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='[{"\\'), inner),
    max_leaves=20,
)


def depth_of(value):
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)


@given(VALUES, st.integers(1, 6), st.booleans(), st.sampled_from([None, 2]))
def test_levels_are_counted_as_they_are_parsed(value, most, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    is_deeper = depth_of(value) > most
    assert is_deep_text(text, most) == is_deeper
    assert is_deep_text(text.encode(errors="surrogatepass"), most) == is_deeper


@given(st.text(alphabet='[]{}"\\a'))
def test_levels_of_anything_can_be_counted(text):
    assert not is_deep_text(text, len(text))


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 500_000, '\\"' * 500_000, "[" * 300 + '"' * 999_999]
)
def test_levels_of_a_hostile_text_are_counted_in_one_pass(text):
    is_deep_text("[" * 300 + "]" * 300 + text)
