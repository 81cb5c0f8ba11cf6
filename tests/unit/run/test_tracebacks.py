"""A failure says where in the user's own code it was raised, whatever the exception is like."""

import asyncio
import json
import re
import runpy
import sys

import pytest

import limpet
from limpet.engines.tracebacks import user_traceback
from tests.exported import exported


def caught(function, *arguments):
    try:
        function(*arguments)
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def failures(run):
    lines = (run / "failures.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["error"] for line in lines]


def parse(text):
    return json.loads(text)["choices"]


ROWS = [{"id": "q1", "question": "{}", "answer": "a"}]


@pytest.mark.parametrize("in_thread", [True, False])
def test_a_failure_on_disk_has_the_users_frames_and_no_others(tmp_path, in_thread):
    def workflow(question):
        return parse(question)

    async def in_loop(question):
        return parse(question)

    run = tmp_path / "run"
    result = limpet.evaluate(ROWS, workflow if in_thread else in_loop, run=run, version="1")
    (error,) = failures(run)
    name = "workflow" if in_thread else "in_loop"
    assert (error["type"], error["message"], error["class"]) == ("KeyError", "'choices'", "mistake")
    files = set(re.findall(r'File "([^"]+)"', error["traceback"]))
    assert {one.rpartition("/")[2] for one in files} == {"test_tracebacks.py"}
    lines = error["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert (
        f"in test_a_failure_on_disk_has_the_users_frames_and_no_others.<locals>.{name}" in lines[1]
    )
    assert lines[2:] == [
        "    return parse(question)",
        lines[3],
        '    return json.loads(text)["choices"]',
        "KeyError: 'choices'",
    ]
    assert result.items[0].error["traceback"] == error["traceback"]
    whole = exported(run)
    assert "traceback" not in whole[0]["_limpet"]["error"]


def test_an_evaluators_failure_and_a_maps_have_theirs(tmp_path):
    def judge(output):
        return parse(output)

    limpet.evaluate(ROWS, lambda question: question, [judge], run=tmp_path / "run", version="1")
    limpet.map(parse, ["{}"], journal=tmp_path / "map")
    for error in (*failures(tmp_path / "run"), *failures(tmp_path / "map")):
        assert error["traceback"].endswith("[\"choices\"]\nKeyError: 'choices'")


def test_code_that_wants_to_end_the_process_is_shown_where_it_does(tmp_path):
    def workflow(question):
        sys.exit("I am done")

    limpet.evaluate(ROWS, workflow, run=tmp_path / "run", version="1")
    (error,) = failures(tmp_path / "run")
    assert 'sys.exit("I am done")\nSystemExit: I am done' in error["traceback"]


def test_a_secret_in_message_or_source_is_masked_in_the_traceback(tmp_path, monkeypatch):
    monkeypatch.setenv("BOT_API_KEY", "k-1234567890abcdefXYZ")

    def workflow(question):
        raise ValueError("refused for k-1234567890abcdefXYZ")

    limpet.evaluate(ROWS, workflow, run=tmp_path / "run", version="1", retry=0)
    assert "k-1234567890abcdefXYZ" not in (tmp_path / "run" / "failures.jsonl").read_text()


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ('api_key="sk-one"; 1 / 0', 'api_key="…"; 1 / 0'),
        ('h = {}; h["Authorization"] = "Bearer two"; 1 / 0', 'h["Authorization"] = "…"; 1 / 0'),
        ("(1 / 0)('password', 'it is \\'three')", "(1 / 0)('password', '…')"),
        ("url = 'https://me:four@host/x'; 1 / 0", "url = 'https://me:[redacted]@host/x'; 1 / 0"),
        ("x = 'sk-proj-0123456789abcdef'; 1 / 0", "x = '[redacted]'; 1 / 0"),
    ],
)
def test_a_key_written_into_the_code_is_left_out(tmp_path, source, shown):
    (tmp_path / "app.py").write_text(source + "\n", encoding="utf-8")
    text = user_traceback(caught(runpy.run_path, str(tmp_path / "app.py")))
    assert shown in text


def test_a_library_is_shown_only_where_nothing_else_is():
    with_mine = user_traceback(caught(parse, "{"))
    assert "json/decoder.py" not in with_mine
    alone = caught(json.loads, "{")
    alone.__traceback__ = alone.__traceback__.tb_next
    assert "json/decoder.py" in user_traceback(alone)


def test_an_error_of_ours_without_a_line_of_the_users_has_no_traceback():
    def raise_it():
        raise limpet.PermanentError("status 404")

    error = caught(raise_it)
    error.__traceback__ = None
    assert user_traceback(error) == ""


# ---- chains and groups ---------------------------------------------------------------------------


def test_causes_contexts_and_notes_are_told_in_order():
    def work():
        try:
            try:
                parse("{}")
            except KeyError as missing:
                raise ValueError("no answer") from missing
        except ValueError as error:
            error.add_note("asked: q1")
            raise TypeError("so no score")  # noqa: B904 - a context

    said = [line for line in user_traceback(caught(work)).splitlines() if not line.startswith(" ")]
    assert [line for line in said if line and not line.startswith("Traceback")] == [
        "KeyError: 'choices'",
        "The above exception was the direct cause of the following exception:",
        "ValueError: no answer",
        "asked: q1",
        "During handling of the above exception, another exception occurred:",
        "TypeError: so no score",
    ]


def test_what_was_raised_from_none_is_told_alone():
    def work():
        try:
            parse("{}")
        except KeyError:
            raise ValueError("no answer") from None

    assert "KeyError" not in user_traceback(caught(work))


def test_each_of_a_group_is_shown_and_not_too_many():
    async def work():
        async with asyncio.TaskGroup() as group:
            for _ in range(30):
                group.create_task(asyncio.to_thread(parse, "{}"))

    text = user_traceback(caught(asyncio.run, work()))
    assert "---- 1 of " in text
    assert "  KeyError: 'choices'" in text
    assert "---- 6 of " not in text


# ---- hostile ones --------------------------------------------------------------------------------


def test_ten_thousand_frames_are_a_dozen_lines():
    def deeper(n):
        return 1 / n if n == 0 else deeper(n - 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        text = user_traceback(caught(deeper, 9_000))
    finally:
        sys.setrecursionlimit(limit)
    assert re.search(r"^  … 8,9\d\d more frames$", text, re.M)
    assert text.count("File ") == 12
    assert text.endswith("ZeroDivisionError: division by zero")


def test_a_huge_message_is_cut_between_words():
    def work():
        raise ValueError("begin " + "x" * 10_000_000 + " end")

    text = user_traceback(caught(work))
    assert len(text) < 7_000
    assert "ValueError: begin …" in text


def test_a_long_chain_of_long_messages_is_bounded():
    def work(n=50):
        try:
            if n:
                work(n - 1)
        finally:
            raise ValueError("word " * 1_000)

    assert len(user_traceback(caught(work))) < 7_000


def refuse(*_):
    raise RuntimeError


class Hostile(Exception):
    __traceback__ = property(refuse, lambda *_: None)
    __cause__ = property(refuse, lambda *_: None)
    __notes__ = property(refuse)

    def __str__(self):
        raise RuntimeError

    def __repr__(self):
        raise RuntimeError

    def __getattr__(self, name):
        raise RuntimeError


def test_an_exception_that_misbehaves_fails_only_its_cell_and_keeps_its_frames(tmp_path):
    def workflow(question):
        raise Hostile

    limpet.evaluate(ROWS, workflow, run=tmp_path / "run", version="1", retry=0)
    (error,) = failures(tmp_path / "run")
    assert "Hostile, which cannot be inspected" in error["message"]
    assert "    raise Hostile\n" in error["traceback"]


def test_a_circle_of_causes_ends():
    one, other = caught(parse, "{}"), caught(parse, "{")
    one.__cause__, other.__cause__ = other, one
    text = user_traceback(one)
    assert text.count("Traceback") == 2


def test_control_characters_are_kept_as_json_and_escaped_on_the_screen(tmp_path, monkeypatch):
    def workflow(question):
        raise ValueError("red \x1b[31m")

    limpet.evaluate(ROWS, workflow, run=tmp_path / "run", version="1", retry=0)
    raw = (tmp_path / "run" / "failures.jsonl").read_bytes()
    assert b"\x1b" not in raw
    assert "\x1b[31m" in failures(tmp_path / "run")[0]["traceback"]
