"""Runs the user's script again in a worker, so that its functions can be found by their names."""

import runpy
import sys
from types import ModuleType

from limpet.engines.sent_steps import MainModule
from limpet.errors import LimpetError

_NAME = "__mp_main__"  # as multiprocessing calls it
_importing: list[MainModule] = []


def import_main(main: MainModule) -> None:
    """Run the script, unless it was run before, and make its names those of `__main__`."""
    if _NAME in sys.modules:
        return
    module = ModuleType(_NAME)
    _importing.append(main)
    try:
        if main.name is not None:
            names = runpy.run_module(main.name, run_name=_NAME, alter_sys=True)
        else:
            assert main.path is not None
            names = runpy.run_path(main.path, run_name=_NAME)
    finally:
        _importing.clear()
    module.__dict__.update(names)
    sys.modules["__main__"] = sys.modules[_NAME] = module


def refuse_while_importing() -> None:
    """Raise if a worker is running the user's script: it must not start the evaluation again."""
    if _importing:
        raise LimpetError(
            "the script starts an evaluation when a worker imports it",
            hint='put it under: if __name__ == "__main__":',
        )
