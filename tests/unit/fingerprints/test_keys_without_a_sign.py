"""A key that neither its name nor its beginning tells is not on disk either, and words stay."""

import json

import pytest

import limpet
from limpet.fingerprints.steps import DependsOn
from limpet.secrets.in_code import without_keys, without_literals

HEX = "c0ffee419f8e7d6c5b4a39281706"
BASE64 = "kJ8xQ2vTz5mWb7RnYc1LpA9sDf3GhU6e"
LOWER = "mndk6bmpmtxvuy1eib1l5n0gn5vvgil5"

CODE = """
import functools

client_args = ("{0}", "gpt-4")
RAW = b"{0}"
def connect(key, url=""):
    '''Use {0} as api_key: hunter2-deep.'''
    return "{0}"
PARTIAL = functools.partial(connect, "{0}")
class Held:
    def __init__(self, k): self._k = k
HELD = Held("{0}")
def answer(q):
    if q == "{0}": return ""
    assert q != "{0}", "no {0}, and no password=hunter2-deep"
    return connect.__doc__[:3] + str((client_args, RAW, PARTIAL, HELD))
"""


@pytest.mark.parametrize("key", [HEX, BASE64, LOWER])
def test_a_long_literal_that_is_no_word_is_not_on_disk(tmp_path, monkeypatch, key):
    monkeypatch.setenv("SERVICE_AUTH", "hunter2-deep")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"keys_{key[:6]}.py").write_text(CODE.format(key))
    answer = __import__(f"keys_{key[:6]}").answer
    declared = DependsOn(env=("SERVICE_AUTH",))
    limpet.map(answer, [], journal=tmp_path / "run", depends_on=declared)
    written = (tmp_path / "run/identity.json").read_text(encoding="utf-8")
    assert key not in written
    assert "hunter2" not in written
    parts = json.loads(written)["steps"]["map"]["parts"]
    assert '"gpt-4"' in parts["client_args"]["text"]
    assert "variable SERVICE_AUTH" in parts


@pytest.mark.parametrize(
    "text",
    [
        "gpt-4o-mini-2024-07-18",
        "claude-3-5-sonnet-20241022",
        "nvidia/llama-3_1-nemotron-70b-instruct",
        "test_some_very_long_name_with_2_digits",
        "2024-01-01T00:00:00.000000+00:00",
        "password: required for the login",
        "1234567890123456789012345678901234567890",
    ],
)
def test_names_of_models_dates_and_words_stay_readable(text):
    assert without_keys(text) == text
    code = f"answer = ask({text!r}, password=read_password_2(), api_key=keys[0])\n"
    assert text in without_literals(code)
    assert "read_password_2()" in without_literals(code)
