"""The pages on how Limpet is built name files, shapes and layers that exist."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/architecture.md"


def test_every_file_that_the_page_names_is_there():
    text = PAGE.read_text(encoding="utf-8")
    named = {*re.findall(r"`((?:\w+/)+\w+\.py)`", text)}
    assert len(named) > 15
    missing = sorted(path for path in named if not (ROOT / "src/limpet" / path).is_file())
    assert missing == []


def test_every_package_is_on_the_page():
    packages = {path.parent.name for path in (ROOT / "src/limpet").glob("*/__init__.py")}
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(package for package in packages if not re.search(rf"\b{package}\b", text)) == []


LIFE = PAGE.with_name("life-of-a-cell.md").read_text(encoding="utf-8")
SHAPE = re.compile(
    r"^\| (\d) \| `(\w+)` \| [^|]+ \| (?:\[`([\w/.]+)`\]\(\S+\)|Python itself) "
    r"\| `(\w+)` in \[`([\w/.]+)`\]",
    re.MULTILINE,
)


def named_in(file, kinds):
    tree = ast.parse((ROOT / "src/limpet" / file).read_text(encoding="utf-8"))
    return {node.name: ast.unparse(node) for node in ast.walk(tree) if isinstance(node, kinds)}


def test_each_of_the_nine_shapes_is_defined_and_made_where_the_page_says():
    shapes = SHAPE.findall(LIFE)
    assert [number for number, *_ in shapes] == [str(number) for number in range(1, 10)]
    for _, name, defined, maker, made in shapes:
        assert not defined or name in named_in(defined, ast.ClassDef), name
        code = named_in(made, ast.FunctionDef)
        assert maker in code, f"{made}: {maker}"
        assert re.search(rf"\b{name}\b|\bRows\b", code[maker]), f"{made}: {maker} makes no {name}"


def test_each_link_to_a_source_file_is_named_after_it():
    links = re.findall(r"\[`([\w/.]+\.py)`\]\(\.\./\.\./src/limpet/([\w/.]+)\)", LIFE)
    assert len(links) > 20
    for text, path in links:
        assert text == path
        assert (ROOT / "src/limpet" / path).is_file(), path


def test_the_rooms_are_the_layers_that_imports_keep_to():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [
        contract["layers"]
        for contract in config["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    (drawing,) = re.findall(r"```text\n(.*?)```", LIFE, re.DOTALL)
    drawn = [re.split(r" {2,}", line)[0] for line in drawing.splitlines()]
    assert drawn == layers
    # A shape's number stands beside the room that makes it.
    for number, *_, made in SHAPE.findall(LIFE):
        room = Path(made).parts[0].removesuffix(".py")
        (line,) = [line for line in drawing.splitlines() if room in re.split(r" {2,}", line)[0]]
        assert re.search(rf" {number} ", line), f"{number}: {line}"
