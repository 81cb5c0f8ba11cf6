"""Where an extra is missing, the error names it."""

import asyncio
import importlib.util
import os
import sys
import tomllib
from pathlib import Path
from unittest.mock import patch

import pytest

import limpet
from limpet.cli.commands import cli
from limpet.evaluators.similarity import _measure
from limpet.integrations.nat import load_nat_config
from limpet.models.provider import provider

ROOT = Path(__file__).parents[2]
ROW = {"id": "q1", "question": "a", "answer": "a"}
NAT = """
workflow: {_type: react_agent, llm_name: big}
llms: {big: {_type: nim}}
eval:
  general: {dataset: {_type: json, file_path: rows.json}}
"""


def answer(question):
    return question


def exported(name):
    limpet.evaluate([ROW], answer, run="run", show=False)
    cli(["export", "run", "--output", name], standalone_mode=False)


def similar(method):
    evaluator = limpet.similarity(method=method)
    limpet.evaluate([ROW], answer, [evaluator], run="run", show=False)


def rows_of(name):
    Path(name).write_bytes(b"x")
    limpet.evaluate(name, answer, run="run", show=False)


def toolkit_config():
    Path("rows.json").write_text('[{"id": 1, "question": "a", "answer": "a"}]')
    Path("config.yml").write_text(NAT)
    load_nat_config("config.yml").prepare()


def signed():
    with patch.dict(os.environ, AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret"):  # noqa: S106
        asyncio.run(provider("bedrock").get_ready("http://127.0.0.1:9"))


# The module that is missing, the extra that has it, and what needs it.
CASES = [
    ("rapidfuzz", "metrics", lambda: similar("levenshtein")),
    ("sacrebleu.metrics", "metrics", lambda: similar("bleu")),
    ("duckdb", "data", lambda: rows_of("rows.parquet")),
    ("openpyxl", "data", lambda: rows_of("rows.xlsx")),
    ("duckdb", "data", lambda: exported("rows.parquet")),
    ("openpyxl", "data", lambda: exported("rows.xlsx")),
    ("ray", "ray", lambda: limpet.evaluate([ROW], answer, run="run", engine="ray")),
    ("nat", "nat", toolkit_config),
    ("botocore", "bedrock", signed),
]


@pytest.mark.parametrize(("module", "extra", "use"), CASES)
def test_an_error_names_the_extra_that_is_missing(module, extra, use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == module else find(name)
    )
    for loaded in [module, *(name for name in sys.modules if name.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, loaded, None)
    _measure.cache_clear()
    with pytest.raises(limpet.LimpetError) as raised:
        use()
    assert f"limpet[{extra}]" in str(raised.value.hint)


def test_every_extra_for_users_is_one_that_an_error_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = {*project["project"]["optional-dependencies"]} - {"demo", "dev", "docs"}
    assert extras == {extra for _, extra, _ in CASES}
