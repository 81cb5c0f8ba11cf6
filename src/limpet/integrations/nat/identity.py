"""Which workflow does the configuration describe?

The toolkit's own blocks say it: which workflow, which functions, which models with which settings.
Edit one of them, and the answers on disk are those of another workflow. How the toolkit is served
and traced (`general`) changes no answer, and secrets do not count.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.config.environment import substitute
from limpet.fingerprints.keys import digest
from limpet.secrets.in_configs import without_secrets

_NOT_COUNTED = ("eval", "general", "base", "optimizer")


def blocks_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the blocks that decide what the workflow answers."""
    return {key: value for key, value in data.items() if key not in _NOT_COUNTED}


def counted_blocks(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what counts of each block, without secrets, so that a change can be shown.

    Args:
        data: The whole configuration.
        folder: Where it lies: `file://` starts there.
    """
    blocks = substitute(without_secrets(blocks_of(data)), lambda *_: None)
    return {key: _with_files(value, folder) for key, value in blocks.items()}


def parts_of(data: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return a fingerprint of each block, so that a change can be named."""
    return {key: digest(value) for key, value in counted_blocks(data, folder).items()}


def _with_files(value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_files(one, folder) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_files(one, folder) for one in value]
    if isinstance(value, str) and value.startswith("file://"):
        try:
            return (folder / value.removeprefix("file://")).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return str(value)  # whoever needs it will say so
    return str(value) if isinstance(value, str) else value
