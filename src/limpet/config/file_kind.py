"""Which kind of file is it: an eval.yml, or a configuration of the NeMo Agent Toolkit?"""

from pathlib import Path
from typing import Any, NoReturn

from limpet.config.environment import shown
from limpet.config.errors import Location, refuse
from limpet.config.file_text import read_text
from limpet.config.yaml_file import Tree, read_tree
from limpet.text import nearest, one_line, quoted

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
