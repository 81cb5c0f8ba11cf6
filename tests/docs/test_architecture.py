"""The page on the architecture names files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/architecture.md"


def test_every_file_that_the_page_names_is_there():
    text = PAGE.read_text(encoding="utf-8")
    named = {*re.findall(r"`((?:\w+/)+\w+\.py)`", text)}
    named |= {f"{path}.py" for path in re.findall(r"\|((?:datasets|run)/[\w/]+)\|", text)}
    named |= {f"{path}.py" for path in re.findall(r"\[((?:executors|pacing|run)/\w+/\w+)\]", text)}
    assert len(named) > 15
    missing = sorted(path for path in named if not (ROOT / "src/limpet" / path).is_file())
    assert missing == []


def test_every_package_is_on_the_page():
    packages = {path.parent.name for path in (ROOT / "src/limpet").glob("*/__init__.py")}
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(package for package in packages if not re.search(rf"\b{package}\b", text)) == []
