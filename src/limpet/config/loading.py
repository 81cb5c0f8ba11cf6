"""How does a file become a configuration?

Read the YAML, put in what the command line says, put in what the environment says, write out the
short forms, check: each step sees what the one before has made, and nothing is imported.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limpet.config.checking import check_shape
from limpet.config.config import Config
from limpet.config.credentials import Literals
from limpet.config.environment import substitute
from limpet.config.evaluators import check_evaluators
from limpet.config.file_checks import check_dataset, check_run
from limpet.config.filters import check_filter
from limpet.config.findings import Findings, shown
from limpet.config.overrides import override
from limpet.config.problems import Place, refuse
from limpet.config.short_forms import expanded
from limpet.config.source import read_text
from limpet.config.tree import Tree, read_tree
from limpet.text import one_line


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read an `eval.yml` and check it. Nothing that it names is imported yet.

    Args:
        path: The file.
        overrides: What stands in place of values of the file, each as "path=value".

    Raises:
        ConfigError: It cannot be used as it is. The message names each fault with its line.
    """
    file = Path(path)
    tree = read_tree(read_text(file, one_line(str(path))), one_line(str(path)))
    _check_whole(tree)
    for text in overrides:
        override(tree, text)
    # The folder may be `..`, and has a name all the same. A link to a file stays where it is.
    file = file.parent.resolve() / file.name
    findings = Findings(tree)

    def say(path: tuple[str | int, ...], text: str, hint: str) -> None:
        findings.add(path, text, hint, final=True)

    data = expanded(substitute(tree.data, say))
    shape = check_shape(data, findings)
    keep = check_filter(data.get("dataset"), findings)
    scorers = check_evaluators(data.get("evaluators"), findings)
    check_dataset(data.get("dataset"), file.parent, findings)
    check_run(data.get("run"), file.parent, findings)
    findings.raise_any()
    assert shape is not None
    return Config(file, shape, tree, keep, scorers, _keys_in(data))


def _keys_in(data: dict[str, Any]) -> list[str]:
    """Return what the file uses as a key or a header. A column may be called `token`, too."""
    return Literals(data.get("workflow"), data.get("evaluators")).keys


def _check_whole(tree: Tree) -> None:
    """Refuse what is no configuration of ours at all."""
    data: Any = tree.data
    place = Place(tree.shown, 1)
    if data is None:
        hint = "it needs at least: dataset: questions.jsonl and workflow: app:answer"
        refuse(place, "the file is empty", hint)
    if not isinstance(data, dict):
        refuse(tree.place(()), f"must be a mapping of keys to values, not {shown(data)}")
    if "eval" in data and "dataset" not in data:
        refuse(
            tree.key_place(("eval",)),
            "'eval' at the top level: this is a configuration of the NeMo Agent Toolkit",
            "limpet run reads it, and limpet.integrations.nat.load_nat_config",
        )
