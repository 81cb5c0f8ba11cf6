"""`python -m limpet` in the toolkit's environment, in a process that has imported the toolkit.

As tests/e2e/ready_limpet.py, whose program it is: each command is a fork, which imports only the
plug-ins on its own PYTHONPATH. Importing the toolkit takes five seconds.
"""

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from e2e import ready_limpet
from nat.runtime import loader

NEEDED_LATER = (
    "nat.plugins.eval.runtime.builder",
    "nat.plugins.eval.runtime.atif_adapter",
    "nat.plugins.eval.utils.output_uploader",
    "nat.plugins.eval.dataset_handler.dataset_downloader",
    "nat.plugins.profiler.profile_runner",
    "langchain_openai",
    "langchain.agents",
    "ragas.metrics.collections",
)

as_a_new_interpreter = ready_limpet.be


def be(command):
    """Find plug-ins as a new interpreter would."""
    sys.path[1:1] = command["environment"]["PYTHONPATH"].split(os.pathsep)
    loader.discover_entrypoints.cache_clear()
    as_a_new_interpreter(command)


if __name__ == "__main__":
    loader.discover_and_register_plugins(loader.PluginTypes.CONFIG_OBJECT)
    for name in NEEDED_LATER:
        with suppress(ImportError):
            importlib.import_module(name)
    ready_limpet.be = be
    ready_limpet.main()
