"""What does a configuration of the NeMo Agent Toolkit ask for?"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.integrations.nat.config import NatConfig
    from limpet.integrations.nat.eval_block import Flags
    from limpet.integrations.nat.loading import load_nat_config

__all__ = ["Flags", "NatConfig", "load_nat_config"]

_MODULES = {"Flags": "eval_block", "NatConfig": "config", "load_nat_config": "loading"}


def __getattr__(name: str) -> object:
    # Imported on first use: `limpet --help` needs none of it.
    if name not in _MODULES:
        raise AttributeError(f"module 'limpet.integrations.nat' has no attribute {name!r}")
    return getattr(import_module(f"limpet.integrations.nat.{_MODULES[name]}"), name)
