"""Tell the identity of things in small projects, each in a process of its own.

A line on stdin is a question: a folder, `module:name`, arguments, variables of the environment. A
line on stdout is the answer. Each question is a fork of this process, which has imported what is
slow to import: it sees a project as a new interpreter would, in a tenth of the time.
"""

import gc
import importlib
import json
import os
import sys
import traceback
from types import ModuleType
from typing import Any

import jinja2  # noqa: F401 - what small projects import
import numpy as np  # noqa: F401
import pydantic  # noqa: F401
import tenacity  # noqa: F401
import wrapt  # noqa: F401

from limpet.fingerprints.identity import identity_of


def main() -> None:
    gc.freeze()  # so that a child copies no memory by counting
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            with os.fdopen(writing, "w") as answer:
                answer.write(json.dumps(told(json.loads(line))))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def told(question: dict[str, Any]) -> dict[str, Any]:
    sys.stdout = sys.stderr
    sys.stdin.close()
    sys.modules["__main__"] = ModuleType("__main__")  # this script is no part of the project
    os.chdir(question["folder"])
    os.environ.clear()
    os.environ.update(question["environment"])
    sys.argv = ["app.py", *question["arguments"]]
    sys.path[:0] = [".", *question["environment"].get("PYTHONPATH", "").split(":")]
    try:
        return looked_at(question["entry"], question.get("call", []))
    except BaseException:
        return {"error": traceback.format_exc()}


def looked_at(entry: str, inputs: list[Any]) -> dict[str, Any]:
    module, _, name = entry.partition(":")
    thing = importlib.import_module(module)
    for part in name.split("."):
        thing = getattr(thing, part)
    if name == "build":  # a factory
        thing = thing()
    found = identity_of(thing)
    return {
        "fingerprint": found.fingerprint,
        "parts": dict(found.parts),
        "left_out": dict(found.left_out),
        "outputs": [repr(thing(one)) for one in inputs],
    }


if __name__ == "__main__":
    main()
