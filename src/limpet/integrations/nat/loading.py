"""How does a configuration of the toolkit become an evaluation?

Only `eval:` is ours to read. The other blocks, `workflow`, `llms`, `functions`, belong to the
toolkit: they are left as they are, and count in the fingerprint of the answers.
"""

from pathlib import Path

from limpet.config.environment import substitute
from limpet.config.errors import Findings
from limpet.config.overrides import override
from limpet.config.yaml_file import KeyPath, read_text
from limpet.integrations.nat.config import NatConfig
from limpet.integrations.nat.flags import Flags
from limpet.integrations.nat.inheritance import read_with_base
from limpet.integrations.nat.overriding import apply_override
from limpet.integrations.nat.reading import read_eval
from limpet.text import one_line


def load_nat_config(path: str | Path, flags: Flags | None = None) -> NatConfig:
    """Read a configuration of the toolkit and check it. Nothing that it names is imported yet.

    Args:
        path: The file.
        flags: What the command line says.

    Raises:
        ConfigError: It cannot be used as it is. The message names each fault with its line.
    """
    flags = flags or Flags()
    file = Path(path)
    name = one_line(str(path))
    original = read_text(file, name)
    tree = read_with_base(file, name, original)
    for where, value in flags.overrides:
        apply_override(tree, where, value)
    for text in flags.settings:
        override(tree, text)
    findings = Findings(tree)

    def say(path: KeyPath, text: str, hint: str) -> None:
        findings.add(("eval", *path), text, hint, final=True)

    data = substitute(tree.data.get("eval"), say)
    wanted, notes = read_eval(data, findings, flags.dataset)
    findings.raise_any()
    return NatConfig(file.parent.resolve() / file.name, tree, wanted, flags, notes, original)
