"""Models that workflows and judges ask."""

from importlib import import_module
from typing import TYPE_CHECKING

from limpet.models.protocol import Message, Model, Reply, as_model

if TYPE_CHECKING:
    from limpet.models.openai_model import openai_api

__all__ = ["Message", "Model", "Reply", "as_model", "openai_api"]


def __getattr__(name: str) -> object:
    # It imports an HTTP client, which a run of plain functions does not need.
    if name != "openai_api":
        raise AttributeError(f"module 'limpet.models' has no attribute {name!r}")
    value = import_module("limpet.models.openai_model").openai_api
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
