"""Ask for the identity of something in a small project, before and after an edit."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from identity.edits import Edit

PROBE = Path(__file__).with_name("probe.py")


class Probe:
    """Two processes that answer: one before an edit and one after it.

    They differ in what chance gives (the seed of hashes, where objects lie in memory).
    """

    def __init__(self) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, str(PROBE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": seed},
            )
            for seed in ("1", "2")
        ]

    def close(self) -> None:
        for one in self._processes:
            one.communicate()

    def before_and_after(self, folder: Path, edit: Edit) -> tuple[dict[str, Any], dict[str, Any]]:
        write(folder, edit.before)
        before = self.identity(folder, edit, 0)
        write(folder, edit.after)
        return before, self.identity(folder, edit, 1)

    def identity(self, folder: Path, edit: Edit, which: int) -> dict[str, Any]:
        known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        question = {
            "folder": str(folder),
            "entry": edit.entry,
            "arguments": edit.arguments[which],
            "environment": {**known, **edit.environment[which]},
            "call": edit.inputs,
        }
        process = self._processes[which]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer


def write(folder: Path, files: dict[str, str]) -> None:
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
