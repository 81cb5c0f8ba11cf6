"""Whose configuration is this file: one of ours, or one of the NeMo Agent Toolkit?"""

from pathlib import Path

from limpet.config.source import read_text
from limpet.config.tree import read_tree
from limpet.text import one_line


def is_nat_file(path: str | Path) -> bool:
    """Tell whether a file is a configuration of the toolkit: it has `eval` at its top level.

    Raises:
        ConfigError: It cannot be read, or is no YAML.
    """
    shown = one_line(str(path))
    data = read_tree(read_text(Path(path), shown), shown).data
    if not isinstance(data, dict) or "dataset" in data:
        return False
    return "eval" in data or ("base" in data and "evaluators" not in data)
