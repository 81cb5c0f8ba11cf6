"""Any row arrives at a program exactly as it was, and any text comes back exactly."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from limpet.shapes import Item
from limpet.workflows import command

any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False, allow_infinity=False),
    any_text,
)
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
answers = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)

few = settings(
    max_examples=6 if settings.default.derandomize else 60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(workflow, row):
    async def call():
        await workflow.open()
        try:
            return (await workflow.call(Item("a", None, None, row))).value
        finally:
            await workflow.close()

    return asyncio.run(call())


@given(st.dictionaries(any_text, values, max_size=4))
@example({"a": "\ud800", "b": 10**30, "c": -0.0, "": "\0\n\x85\u2028", "{{a}}": "{{a}}"})
@few
def test_any_row_arrives_exactly(row):
    arrived = answer(command("cat", answer="json"), row)
    assert json.dumps(arrived) == json.dumps(row)


@given(answers)
@example("\n")
@example("\r\n\n")
@example("\ufeff\0\x1b[31m")
@few
def test_any_text_comes_back_exactly(text):
    Path("answer.txt").write_bytes(text.encode() + b"\n")
    assert answer(command("cat answer.txt"), {}) == text


@given(answers.filter(lambda text: "\0" not in text))
@example("$(exit 1)")
@example("--version")
@example("")
@few
def test_any_value_is_one_argument(text):
    assert answer(command(["printf", "%s|", "{{value}}", "x"]), {"value": text}) == f"{text}|x|"
