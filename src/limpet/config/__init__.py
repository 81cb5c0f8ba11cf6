"""What does an `eval.yml` describe?"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.config.config import Config, load_config, load_matrix
    from limpet.config.schema import json_schema

__all__ = ["Config", "json_schema", "load_config", "load_matrix"]


def __getattr__(name: str) -> object:
    # Imported on first use: `limpet --help` needs none of it.
    if name not in __all__:
        raise AttributeError(f"module 'limpet.config' has no attribute {name!r}")
    module = "schema" if name == "json_schema" else "config"
    return getattr(import_module(f"limpet.config.{module}"), name)
