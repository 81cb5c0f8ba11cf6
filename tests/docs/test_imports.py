"""No files of Limpet import each other in a circle.

Imports for types and imports within functions count: each says that one file cannot be read without
the other.
"""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"


def module_at(path):
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree, known):
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=module, names=names, level=0):
                for each in names:
                    name = f"{module}.{each.name}"
                    yield name if name in known else module
            case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str() as name)]):
                yield name


def graph(sources):
    known = {module_at(path.relative_to(sources)): path for path in sources.rglob("*.py")}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in known.items()}
    return {name: {*imported(tree, known)} & known.keys() - {name} for name, tree in trees.items()}


def test_no_files_import_each_other_in_a_circle():
    files = graph(SOURCES)
    assert len(files) > 300
    TopologicalSorter(files).prepare()  # its error names the circle


@pytest.mark.parametrize("room", ["cli", "run"])
def test_neither_the_command_line_nor_a_run_knows_the_toolkit(room):
    paths = [*(SOURCES / "limpet" / room).rglob("*.py")]
    assert len(paths) > 20
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    assert [name for name, text in texts.items() if re.search(r"(?i)\bnat\b", text)] == []


def test_a_circle_would_be_found(tmp_path):
    (tmp_path / "one.py").write_text("def f():\n    from two import g\n")
    (tmp_path / "two.py").write_text("if TYPE_CHECKING:\n    from three import h\n")
    (tmp_path / "three.py").write_text("from importlib import import_module as x\nimport one\n")
    with pytest.raises(CycleError) as raised:
        TopologicalSorter(graph(tmp_path)).prepare()
    assert {*raised.value.args[1]} == {"one", "two", "three"}
