"""What does a look cost if the name of an imported module is computed?"""

import importlib
import sys
from collections import Counter
from importlib.machinery import PathFinder

import pytest

from limpet.fingerprints.code import statements as imports
from limpet.fingerprints.identity import identity_of

MODULES = [f"part_{number}" for number in range(8)]


@pytest.fixture
def answer(tmp_path, monkeypatch):
    package = tmp_path / "computed"
    package.mkdir()
    for module in MODULES:
        others = [f"from computed.{other} import NAME" for other in MODULES if other != module]
        text = "\n".join([*others, "from computed import late", "NAME = 1"])
        (package / f"{module}.py").write_text(text)
    text = "import importlib\ndef answer(name):\n    return importlib.import_module(name)\n"
    (tmp_path / "app_of_computed.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "app_of_computed", raising=False)
    return importlib.import_module("app_of_computed").answer


def test_each_module_is_looked_for_once_in_each_folder(answer, monkeypatch):
    asked = Counter()

    class Counting:
        @staticmethod
        def find_spec(name, places):
            asked[name, tuple(places)] += 1
            return PathFinder.find_spec(name, places)

    monkeypatch.setattr(imports, "PathFinder", Counting)
    parts = identity_of(answer).parts
    assert {f"file of computed.{module}" for module in MODULES} <= parts.keys()
    assert set(asked.values()) == {1}


def test_a_module_that_appears_after_a_look_counts_in_the_next(answer, tmp_path):
    assert "file of computed.late" not in identity_of(answer).parts
    (tmp_path / "computed" / "late.py").write_text("NAME = 2")
    importlib.invalidate_caches()
    assert "file of computed.late" in identity_of(answer).parts
