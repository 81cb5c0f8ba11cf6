"""Run commands in small projects, each in a process of its own.

A line on stdin is a command: a folder, its words, variables of the environment, where its stdout
and stderr go. The first line of the answer is the id of its process, the second one its exit code
(below zero: the signal that ended it). Each command is a fork of this process, which has imported
what is slow to import: it sees a project as a new interpreter would, in a tenth of the time.
"""

import gc
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

import jinja2  # noqa: F401 - what small projects import
import numpy as np  # noqa: F401
import yaml  # noqa: F401

from limpet.run.planning import changes

sys.path.insert(0, str(Path(__file__).parents[1]))
from e2e.ready_limpet import import_all

del sys.path[0]

# Whether a change asks is how these tables tell that it was seen: here no change is a small one.
changes.MOST_ANSWERS = 0


def main() -> None:
    import_all()
    gc.freeze()  # so that a child copies no memory by counting
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            play(json.loads(line))
        tell(child)
        _, status = os.waitpid(child, 0)
        tell(os.waitstatus_to_exitcode(status))


def tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def play(command: dict[str, Any]) -> None:
    """Do what a shell and a new interpreter would, and end the process."""
    for number, file in ((0, os.devnull), (1, command["stdout"]), (2, command["stderr"])):
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    program, *sys.argv = command["words"]
    sys.path[:0] = command["environment"]["PYTHONPATH"].split(":")
    code = 1
    try:
        if program == "limpet":
            sys.argv.insert(0, program)
            from limpet.cli.main import main as limpet_main

            sys.exit(limpet_main())
        sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))  # noqa: PTH100, PTH120
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
