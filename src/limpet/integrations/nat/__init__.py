"""What does a configuration of the NeMo Agent Toolkit describe?

These are the names of a `limpet.integrations.kinds.Kind`, and the functions for scripts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.integrations.nat.finishing import export, exported
    from limpet.integrations.nat.flags import FORM, RECORDED, TOOL, WHAT, Flags, options, refuse
    from limpet.integrations.nat.loading import load, load_nat_config
    from limpet.integrations.nat.owning import owns

__all__ = [
    "FORM", "RECORDED", "TOOL", "WHAT", "Flags", "export", "exported", "load", "load_nat_config",
    "options", "owns", "refuse",
]  # fmt: skip


def __getattr__(name: str) -> object:
    # Imported on first use: `limpet --help` needs only the flags, an eval.yml only `owns`.
    for module in ("flags", "owning", "loading", "finishing") if name in __all__ else ():
        found = import_module(f"limpet.integrations.nat.{module}")
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(f"module 'limpet.integrations.nat' has no attribute {name!r}")
