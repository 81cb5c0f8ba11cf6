"""Run `limpet run` for configurations of the corpus, and print a record of each as a line of JSON.

All of them run in one process, that of the toolkit's environment: importing the toolkit takes
longer than most of them.
"""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from model_server import Server
from record import GIVEN, HERE, environment, rows_of, scores_of

from limpet.cli.main import main as limpet


def run(name: str, case: dict[str, Any], server: Server) -> dict[str, Any]:
    """Run one case in a folder of its own."""
    server.model.control = case.get("server", {})
    server.model.reset()
    os.environ |= environment(server.port, case.get("env", {}))
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):
        for folder in GIVEN:
            shutil.copytree(HERE / folder, folder)
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        sys.argv = ["limpet", "run", case["config"], *case["flags"], "--no-fail-fast"]
        for _ in range(case.get("times", 1)):
            code = _exit_code(said)
        out = Path(case.get("out", "out"))
        if "jobs" in case:
            out = max((out / "jobs").iterdir(), key=lambda path: path.stat().st_mtime)
        said.seek(0)
        return {
            "name": name,
            "exit_code": code,
            "said": said.read(),
            "calls": dict(server.model.calls),
            "files": sorted(path.name for path in out.glob("*")),
            **rows_of(out, case),
            "scores": scores_of(out),
        }


def _exit_code(said: io.TextIOWrapper) -> Any:
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            limpet()
        except SystemExit as left:
            return left.code
    return None


def main() -> None:
    cases = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    known = dict(os.environ)
    for name in sys.argv[1:]:
        sys.stdout.write(json.dumps(run(name, cases[name], server)) + "\n")
        sys.stdout.flush()
        os.environ.clear()
        os.environ |= known
    server.shutdown()


if __name__ == "__main__":
    main()
