"""Which kinds of configurations exist besides eval.yml, and what does each add to commands?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from limpet.integrations import nat

if TYPE_CHECKING:
    import click

    from limpet.config.configuration import Configuration
    from limpet.config.errors import Tree
    from limpet.run.reading import RunReader


class Kind(Protocol):
    """Another tool's configurations and files: a package with these names.

    Attributes:
        WHAT: The name of a configuration, with its article.
        TOOL: The command that writes files which `limpet import` reads.
        FORM: The form of `limpet export` that writes such files, into a directory.
        RECORDED: The flags that results depend on, by the names of their values.
    """

    WHAT: str
    TOOL: str
    FORM: str
    RECORDED: list[str]

    def options(self, command: str) -> "Sequence[click.Option]":
        """Return the flags that a command takes for such a file."""

    def refuse(self, given: Mapping[str, Any]) -> None:
        """Raise a `click.UsageError` if one of its flags is given with another kind of file."""

    def owns(self, tree: "Tree") -> bool:
        """Return whether a file is such a configuration; raise `ConfigError` if it is invalid."""

    def load(self, file: Path, given: Mapping[str, Any]) -> "Configuration":
        """Read such a file.

        Args:
            file: The file.
            given: The values of its flags by name, of `--trials`, of `--set` as "settings", and of
                "keep": whether to continue the existing run, even if it is finished. None: not
                given.

        Raises:
            ConfigError: The file is invalid.
            click.UsageError: A flag does not work with this file, or with another one.
        """

    def exported(self, reader: "RunReader") -> list[str]:
        """Return the names of the files that `export` writes."""

    def export(self, reader: "RunReader", directory: Path) -> None:
        """Write the results of a run."""


KINDS: tuple[Kind, ...] = (nat,)
