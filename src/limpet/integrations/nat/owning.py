"""Which files are the toolkit's? Every `limpet run` asks, so this imports little."""

from typing import NoReturn

from limpet.config.errors import Location, Tree, refuse
from limpet.text import nearest, quoted

_TOOLKIT_BLOCKS = frozenset({"llms", "functions", "function_groups", "embedders", "retrievers"})


def owns(tree: Tree) -> bool:
    """Return whether a file is the toolkit's: it has `eval` at its top level.

    Raises:
        ConfigError: It has only other blocks of the toolkit.
    """
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
    text = "has no 'eval': this configuration of the NeMo Agent Toolkit describes no evaluation"
    refuse(Location(tree.shown, 1), text, "add eval: with a dataset and evaluators")
