"""Workflows: functions, programs, servers, agents and prompts to evaluate."""

from importlib import import_module
from typing import TYPE_CHECKING

from limpet.workflows.protocol import Workflow
from limpet.workflows.python import as_workflow, workflow

if TYPE_CHECKING:
    from limpet.workflows.command_workflow import command
    from limpet.workflows.http_workflow import http
    from limpet.workflows.nat_workflow import nat
    from limpet.workflows.openai_workflow import openai

__all__ = ["Workflow", "as_workflow", "command", "http", "nat", "openai", "workflow"]

_LAZY = {
    "command": "command_workflow",
    "http": "http_workflow",
    "nat": "nat_workflow",
    "openai": "openai_workflow",
}


def __getattr__(name: str) -> object:
    # These import more than plain functions need.
    if name not in _LAZY:
        raise AttributeError(f"module 'limpet.workflows' has no attribute {name!r}")
    value = getattr(import_module(f"limpet.workflows.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
