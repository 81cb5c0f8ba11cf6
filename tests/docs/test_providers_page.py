"""The page of providers says what the code can do, and its configurations load."""

import re
from pathlib import Path

import pytest

from limpet.config import load_config
from limpet.models.provider import ABILITIES, PROVIDERS, provider

PAGE = (Path(__file__).parents[2] / "docs/how-to/providers.md").read_text(encoding="utf-8")
WORDS = {
    "n": "several replies at once (`n`)",
    "documents": "documents",
    "caching": "caching on request (`cache`)",
    "stream": "streaming",
    "schema": "schemas",
    "seed": "`seed`",
    "logprobs": "`logprobs`",
}


def test_the_table_of_abilities_is_what_the_code_says():
    head, _, *rows = re.findall(r"^\|.*\|$", PAGE, re.MULTILINE)
    assert [cell.strip() for cell in head.split("|")[2:-1]] == list(PROVIDERS)
    expected = [
        f"| {WORDS.get(ability, ability)} | "
        + " | ".join("yes" if ability in provider(name).can else "–" for name in PROVIDERS)
        + " |"
        for ability in ABILITIES
    ]
    assert rows == expected


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_every_configuration_loads(block, tmp_path, monkeypatch):
    for variable in re.findall(r"\$\{(\w+)\}", block):
        monkeypatch.setenv(variable, f"key-of-{variable}")
    (tmp_path / "q.jsonl").write_text('{"id": "a", "question": "?"}\n')
    name = re.search(r"^  (\w+):", block, re.MULTILINE)[1]
    file = tmp_path / "eval.yml"
    file.write_text(
        f"{block}dataset: q.jsonl\nworkflow: {{model: {name}, prompt: '{{{{question}}}}'}}\n"
    )
    assert load_config(file).prepare().workflow.endpoint
