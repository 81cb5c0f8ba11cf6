"""How is a configuration file read, and what is said if it is not one?"""

import codecs
from pathlib import Path
from typing import Any, NoReturn

from limpet.config.environment import shown
from limpet.config.errors import Location, refuse
from limpet.config.yaml_file import Tree, read_tree
from limpet.text import nearest, nearest_file, one_line, quoted

_LARGEST = 2**20
_START = "name an eval.yml, or create an example: limpet init first"
_OTHERS = {
    ".py": "is Python, not an eval.yml",
    ".ipynb": "is a notebook, not an eval.yml",
    ".csv": "is a dataset, not an eval.yml",
    ".jsonl": "is a dataset, not an eval.yml",
}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, shown: str) -> str:
    """Return the text of a configuration file.

    Args:
        path: Where it is.
        shown: Its name in messages.

    Raises:
        ConfigError: It does not exist, cannot be read, is not text, or is far too large.
    """
    raw = _bytes_of(path, Location(shown)).removeprefix(codecs.BOM_UTF8)
    if raw.startswith(_UTF16):
        refuse(Location(shown, 1), "is UTF-16, not UTF-8", "save the file as UTF-8")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        refuse(
            Location(shown, line),
            f"byte {raw[error.start]:#04x} is not UTF-8",
            "save the file as UTF-8",
        )


def _bytes_of(path: Path, location: Location) -> bytes:
    try:
        if path.is_dir():
            refuse(location, "is a directory", "name the file in it: eval.yml")
        if path.suffix in _OTHERS and path.is_file():
            refuse(location, _OTHERS[path.suffix], _wanted(path))
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        refuse(location, "file not found", _near(path) or _START)
    except OSError as error:
        refuse(location, f"cannot be read: {one_line(error.strerror or str(error))}")
    if len(raw) > _LARGEST:
        refuse(location, "is larger than 1 MB: not a configuration", "name an eval.yml")
    return raw


def _wanted(path: Path) -> str:
    """Return what to do with a file that an eval.yml can name."""
    if path.suffix == ".py":
        named = f"workflow: {one_line(path.stem)}:NAME, with the name of a function in it"
        return f"write an eval.yml with dataset: FILE and {named}; a script runs with python"
    if path.suffix == ".ipynb":
        return "call limpet.evaluate() in it, or write an eval.yml: limpet init first"
    return f"write an eval.yml with dataset: {one_line(path.name)} and workflow: app:answer"


def _near(path: Path) -> str | None:
    try:
        near = nearest_file(path)
    except (OSError, ValueError):
        return None
    return None if near is None else f"did you mean {quoted(near)}?"


_TOOLKIT_BLOCKS = frozenset({"llms", "functions", "function_groups", "embedders", "retrievers"})


def is_nat_file(path: str | Path) -> bool:
    """Return whether a file is the toolkit's: it has `eval` at its top level.

    Raises:
        ConfigError: It cannot be read, is not YAML, or has only other blocks of the toolkit.
    """
    name = one_line(str(path))
    tree = read_tree(read_text(Path(path), name), name)
    data = tree.data
    if not isinstance(data, dict) or "dataset" in data:
        return False
    if "eval" in data or ("base" in data and "evaluators" not in data):
        return True
    if _TOOLKIT_BLOCKS.intersection(data):
        _refuse_without_eval(tree)
    return False


def _refuse_without_eval(tree: Tree) -> NoReturn:
    for key in tree.data:
        if nearest(key, ["eval"]):
            refuse(tree.key_location((key,)), f"unknown key {quoted(key)}", "did you mean 'eval'?")
    refuse(
        Location(tree.shown, 1),
        "has no 'eval': this configuration of the NeMo Agent Toolkit describes no evaluation",
        "add eval: with a dataset and evaluators",
    )


def check_eval_yml(tree: Tree) -> None:
    """Raise if the file is not an eval.yml at all.

    Raises:
        ConfigError: It is empty, not a mapping, or the toolkit's.
    """
    data: Any = tree.data
    location = Location(tree.shown, 1)
    if data is None:
        hint = "it needs at least: dataset: questions.jsonl and workflow: app:answer"
        refuse(location, "the file is empty", hint)
    if not isinstance(data, dict):
        refuse(tree.location(()), f"must be a mapping of keys to values, not {shown(data)}")
    if "eval" in data and "dataset" not in data:
        refuse(
            tree.key_location(("eval",)),
            "'eval' at the top level: this is a configuration of the NeMo Agent Toolkit",
            "use limpet run, or limpet.integrations.nat.load_nat_config",
        )
