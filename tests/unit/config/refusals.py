"""A folder with an invalid configuration, and its error messages."""

import pytest

from limpet.config import load_config
from limpet.errors import ConfigError

GOOD = "dataset: questions.jsonl\nworkflow: app:answer\n"


@pytest.fixture(autouse=True, name="folder")
def a_folder(tmp_path, monkeypatch):
    """A folder with a dataset, to stand in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOT_SET", raising=False)
    (tmp_path / "questions.jsonl").write_text('{"id": "1", "question": "x"}\n')
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "long.csv").write_text("id,question\n1,x\n")
    return tmp_path


def refusal(text, *overrides):
    with open("eval.yml", "wb") as file:  # noqa: PTH123 - bytes as they are
        file.write(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config("eval.yml", overrides)
    assert "pydantic" not in str(caught.value).lower()
    return str(caught.value), caught.value.hint
