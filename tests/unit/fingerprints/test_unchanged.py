"""A file that is edited while the process lives lends nothing to the code in memory."""

import importlib
import linecache
import os
import sys
import time
from pathlib import Path

import pytest

from limpet.fingerprints.code import source as unchanged
from limpet.fingerprints.identity import identity_of

BEFORE = "def answer(q):\n    return 'old' + q\n"
AFTER = "def answer(q):\n    return 'new' + q\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of modules that are all older than the process, as far as it knows."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = {*sys.modules}
    yield folder
    for name in {*sys.modules} - before:
        del sys.modules[name]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def begin(monkeypatch, *paths: Path) -> float:
    """Take it that the process begins now, when these files are there."""
    began = max(path.stat().st_ctime for path in paths) + 0.001
    monkeypatch.setattr(unchanged, "_began", lambda: began)
    return began


def edit(path: Path, text: str, began: float) -> None:
    """Write a file at a time that is surely later."""
    path.write_text(text)
    while path.stat().st_ctime <= began:
        path.write_text(text)


def fresh(name: str) -> dict[str, str]:
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return dict(identity_of(importlib.import_module(name).answer).parts)


def test_an_edit_after_the_first_look_is_no_edit_of_the_code_in_memory(project, monkeypatch):
    file = written(project / "edited.py", BEFORE)
    began = begin(monkeypatch, file)
    module = importlib.import_module("edited")
    first = identity_of(module.answer).parts
    edit(file, AFTER, began)
    assert identity_of(module.answer).parts == first
    assert identity_of(module.answer).parts == first  # the file was read again in between
    assert fresh("edited") != first


def test_an_edit_before_the_first_look_is_not_believed(project, monkeypatch):
    file = written(project / "edited_early.py", BEFORE)
    began = begin(monkeypatch, file)
    module = importlib.import_module("edited_early")
    edit(file, AFTER, began)
    assert identity_of(module.answer).parts != fresh("edited_early")


def test_what_a_reload_brings_counts(project, monkeypatch):
    file = written(project / "reloaded.py", BEFORE + "class A:\n    x: int = 1\n")
    began = begin(monkeypatch, file)
    module = importlib.import_module("reloaded")
    first = identity_of(module.answer).parts
    edit(file, AFTER + "\n", began)
    importlib.reload(module)
    assert identity_of(module.answer).parts == fresh("reloaded") != first


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x: int = Field(1, description='old')", "x: int = Field(1, description='new')"),
        ("x: int = 1", "x: float = 1"),
    ],
)
def test_a_class_that_was_edited_and_not_imported_anew_is_still_the_old_one(
    project, monkeypatch, before, after
):
    code = "from pydantic import BaseModel, Field\nclass A(BaseModel):\n    {}\n"
    code += "def answer(q):\n    return A.model_json_schema()\n"
    file = written(project / "classes_edited.py", code.format(before))
    began = begin(monkeypatch, file)
    module = importlib.import_module("classes_edited")
    first = identity_of(module.answer).parts
    edit(file, code.format(after), began)
    assert identity_of(module.answer).parts == first != fresh("classes_edited")


def test_what_a_module_did_is_what_it_did_when_it_was_imported(project, monkeypatch):
    code = "import decimal\ndecimal.getcontext().prec = {}\n" + BEFORE
    file = written(project / "does.py", code.format(7))
    began = begin(monkeypatch, file)
    module = importlib.import_module("does")
    first = identity_of(module.answer).parts
    edit(file, code.format(8), began)
    assert identity_of(module.answer).parts == first != fresh("does")


def test_old_bytecode_of_an_edited_file_is_not_taken_for_the_file(project, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = written(project / "stale.py", BEFORE)
    at = file.stat().st_mtime_ns
    importlib.import_module("stale")
    file.write_text(AFTER)  # as long as before, and within the same second
    os.utime(file, ns=(at, at))
    begin(monkeypatch, file)
    sys.modules.pop("stale")
    module = importlib.import_module("stale")
    assert module.answer("") == "old"
    in_memory = identity_of(module.answer).parts
    Path(importlib.util.cache_from_source(str(file))).unlink()
    assert fresh("stale") != in_memory


def test_a_folder_that_replaces_another_is_another(project, monkeypatch):
    for name, text in (("app", BEFORE), ("next", AFTER)):
        (project / name).mkdir()
        written(project / name / "swapped.py", text)
    monkeypatch.syspath_prepend(project / "app")
    began = begin(monkeypatch, project / "app", project / "next" / "swapped.py")
    module = importlib.import_module("swapped")
    (project / "app").rename(project / "last")
    while (project / "next").stat().st_ctime <= began:
        (project / "next").rename(project / "after")
        (project / "after").rename(project / "next")
    (project / "next").rename(project / "app")
    assert identity_of(module.answer).parts != fresh("swapped")


def test_a_link_that_points_elsewhere_is_another_file(project, monkeypatch):
    for name, text in (("one", BEFORE), ("two", AFTER)):
        (project / name).mkdir()
        written(project / name / "linked.py", text)
    current = project / "current"
    current.symlink_to(project / "one")
    monkeypatch.syspath_prepend(current)
    began = begin(monkeypatch, project / "two" / "linked.py", project)
    module = importlib.import_module("linked")
    current.unlink()
    current.symlink_to(project / "two")
    while current.lstat().st_ctime <= began:
        current.unlink()
        current.symlink_to(project / "two")
    assert identity_of(module.answer).parts != fresh("linked")


@pytest.mark.parametrize(
    "text", ["", "\n", "X = 1", "# é\r\nX = 1\r\n", "\ufeffX = 1\n", "(", "\0"]
)
def test_a_file_counts_the_same_however_it_is_read(project, monkeypatch, text):
    package = project / "read_twice"
    package.mkdir()
    file = package / "__init__.py"
    file.write_bytes(text.encode())
    code = "def answer(q):\n    from read_twice import prompts\n    return prompts.ASK + q\n"
    files = [written(project / "reads.py", code), written(package / "prompts.py", "ASK = 'be'\n")]
    begin(monkeypatch, file, *files)
    module = importlib.import_module("reads")
    first = identity_of(module.answer).parts
    linecache.getlines(str(file))  # as a traceback and a debugger do
    assert identity_of(module.answer).parts == first
    linecache.clearcache()
    monkeypatch.setattr(unchanged, "_began", lambda: None)  # in a fork, and without /proc
    assert identity_of(module.answer).parts == first


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_a_process_knows_when_it_began_unless_it_was_forked_or_the_clock_was_set(monkeypatch):
    began = unchanged._began()
    assert began is None or began < time.time()
    child = os.fork()
    if child == 0:
        os._exit(0 if unchanged._began() is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    monkeypatch.setattr(unchanged, "_boot_then", (unchanged._boot_then or 0) - 60)
    assert unchanged._began() is None


def test_a_file_that_is_not_there_or_is_not_a_path_is_not_known_to_be_the_same(tmp_path):
    asked = unchanged.Unchanged()
    for name in ("<ipython-input-1>", "relative.py", str(tmp_path / "gone.py"), "\0"):
        assert name not in asked
