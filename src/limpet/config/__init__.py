"""What does an `eval.yml` ask for?"""

from importlib import import_module
from typing import TYPE_CHECKING

from limpet.config.yaml_file import is_nat_file

if TYPE_CHECKING:
    from limpet.config.config import Config, Prepared, load_config
    from limpet.config.schema import json_schema

__all__ = ["Config", "Prepared", "is_nat_file", "json_schema", "load_config"]


def __getattr__(name: str) -> object:
    # Checking a file needs the models, and those take a while to import.
    if name not in __all__:
        raise AttributeError(f"module 'limpet.config' has no attribute {name!r}")
    module = "schema" if name == "json_schema" else "config"
    return getattr(import_module(f"limpet.config.{module}"), name)
