"""Is an edit seen that may change an answer, and only such an edit?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from identity.cases import KEEP, RERUN
from identity.edits import Edit

PROBE = Path(__file__).with_name("probe.py")


def identity(folder: Path, edit: Edit, which: int) -> dict[str, dict[str, str]]:
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, str(PROBE), edit.entry, *edit.arguments[which]],
        cwd=folder,
        env={**known, "PYTHONDONTWRITEBYTECODE": "1", **edit.environment[which]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def looked_at(folder: Path, edit: Edit) -> tuple[dict[str, dict[str, str]], ...]:
    for file, text in edit.before.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = identity(folder, edit, 0)
    for file, text in edit.after.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    return before, identity(folder, edit, 1)


@pytest.mark.parametrize("edit", RERUN, ids=lambda one: one.name)
def test_an_edit_that_may_change_an_answer_is_seen(tmp_path, edit):
    before, after = looked_at(tmp_path, edit)
    assert before["digest"] != after["digest"]


@pytest.mark.parametrize("edit", KEEP, ids=lambda one: one.name)
def test_an_edit_that_changes_no_answer_is_none(tmp_path, edit):
    before, after = looked_at(tmp_path, edit)
    parts = {*before["parts"].items()} ^ {*after["parts"].items()}
    assert sorted({name for name, _ in parts}) == []
