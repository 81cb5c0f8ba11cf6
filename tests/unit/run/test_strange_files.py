"""Links, pipes and directories in the place of a run's own files: refused, and never waited for."""

import contextlib
import os
import socket
import subprocess
import sys

import pytest

import limpet
from limpet.errors import JournalError
from limpet.journal import Journal, verify
from limpet.journal.files import replace_file
from limpet.run.reading import open_run

ROWS = [{"id": "a", "input": "a"}, {"id": "b", "input": "b"}]
APPENDED = ["LOCK", "workflow_output.jsonl", "good_output.jsonl", "failures.jsonl", "events.jsonl"]
REPLACED = ["run.json", "summary.json", "items.jsonl"]
KINDS = ["link", "dangling link", "loop", "hard link", "pipe", "directory", "socket", "device"]


def answer(question):
    return question


def good(output):
    return 1


def evaluate(run):
    return limpet.evaluate(ROWS, answer, [good], run, version="1")


def put(kind, path, outside):
    """Put something else in the place of a file; return what is said of it."""
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(outside)
        return "a symbolic link"
    if kind == "dangling link":
        path.symlink_to(outside.with_name("nowhere"))
        return "a symbolic link"
    if kind == "loop":
        path.symlink_to(path.name)
        return "a symbolic link"
    if kind == "hard link":
        path.hardlink_to(outside)
        return r"a file with 2 names \(hard links\)"
    if kind == "pipe":
        os.mkfifo(path)
        return "a named pipe"
    if kind == "directory":
        path.mkdir()
        return "a directory"
    if kind == "device":
        path.symlink_to(os.devnull)
        return "a symbolic link"
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)  # the whole path may be too long for a socket
    return "a socket"


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", APPENDED)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written_through_what_is_not_a_file_of_its_own(kind, name, tmp_path):
    outside = tmp_path / "precious.txt"
    outside.write_bytes(b"precious\n")
    evaluate(tmp_path / "run")
    said = put(kind, tmp_path / "run" / name, outside)
    with pytest.raises(JournalError, match=f"{name}: this is {said}") as refused:
        evaluate(tmp_path / "run")
    assert "replace it" in refused.value.hint
    assert outside.read_bytes() == b"precious\n"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", REPLACED)
@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link"])
def test_what_is_replaced_whole_takes_the_place_of_a_link(kind, name, tmp_path):
    evaluate(tmp_path / "run")
    outside = tmp_path / "precious.txt"
    outside.write_bytes((tmp_path / "run" / name).read_bytes())
    before = outside.read_bytes()
    put(kind, tmp_path / "run" / name, outside)
    more = [*ROWS, {"id": "c", "input": "c"}]
    limpet.evaluate(more, answer, [good], tmp_path / "run", version="1")
    assert outside.read_bytes() == before
    assert (tmp_path / "run" / name).is_file()
    assert not (tmp_path / "run" / name).is_symlink()


def test_a_temporary_file_that_is_a_link_leads_nowhere(tmp_path):
    outside = tmp_path / "precious.txt"
    outside.write_bytes(b"precious\n")
    (tmp_path / f".run.json.{os.getpid()}.tmp").symlink_to(outside)
    replace_file(tmp_path / "run.json", [b"{}"])
    assert outside.read_bytes() == b"precious\n"
    assert (tmp_path / "run.json").read_bytes() == b"{}"


def test_an_index_that_is_a_link_is_done_without(tmp_path, caplog):
    outside = tmp_path / "precious.txt"
    outside.write_bytes(b"precious\n")
    evaluate(tmp_path / "run")
    put("link", tmp_path / "run" / "index" / "workflow_output.idx", outside)
    (tmp_path / "run" / "run.json").unlink()
    assert evaluate(tmp_path / "run").plan.workflow.kept == 2
    assert outside.read_bytes() == b"precious\n"
    assert "a symbolic link" in caplog.text


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", [*APPENDED, *REPLACED, "files.jsonl", "identity.json"])
def test_a_link_that_leads_to_itself_is_a_limpet_error_for_whoever_reads(name, tmp_path):
    evaluate(tmp_path / "run")
    put("loop", tmp_path / "run" / name, tmp_path)
    for read in (limpet.load_run, lambda run: limpet.load_run(run).report(run / "r.html"), verify):
        with contextlib.suppress(limpet.LimpetError):
            read(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*APPENDED, *REPLACED, "index/workflow_output.idx"])
def test_whoever_reads_does_not_wait_for_a_pipe(name, tmp_path):
    evaluate(tmp_path / "run")
    put("pipe", tmp_path / "run" / name, tmp_path / "outside")
    for command in ("status", "show", "export", "verify"):
        # In a process of its own: one that waits for a pipe can only be killed.
        done = subprocess.run(
            [sys.executable, "-m", "limpet", command, str(tmp_path / "run")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr


def test_the_directory_itself_may_be_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    evaluate(tmp_path / "run")
    assert evaluate(tmp_path / "run").plan.workflow.kept == 2
    with open_run(str(tmp_path / "run")) as reader:
        assert reader.state == "finished"


def test_two_names_of_one_file_are_not_two_journals(tmp_path):
    limpet.map(answer, ["a"], journal=tmp_path / "one.jsonl", version="1")
    (tmp_path / "two.jsonl").hardlink_to(tmp_path / "one.jsonl")
    before = (tmp_path / "one.jsonl").read_bytes()
    with pytest.raises(JournalError, match="hard links"):
        limpet.map(answer, ["b"], journal=tmp_path / "two.jsonl", version="1")
    assert (tmp_path / "one.jsonl").read_bytes() == before


def test_a_refused_journal_lets_go_of_its_lock(tmp_path):
    evaluate(tmp_path / "run")
    put("pipe", tmp_path / "run" / "failures.jsonl", tmp_path)
    for _ in range(2):
        with pytest.raises(JournalError, match="a named pipe"):
            Journal(tmp_path / "run")
    (tmp_path / "run" / "failures.jsonl").unlink()
    Journal(tmp_path / "run").close()
    assert verify(tmp_path / "run").is_sound
