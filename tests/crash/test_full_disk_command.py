"""`limpet run` on a disk that gets full: said once, waited for, and left in good order."""

import json
import re
import signal

import pytest
from e2e.project import COMMAND, calls, make
from e2e.terminal import Terminal

ROWS = 400


@pytest.fixture
def on_full_disk(tmp_path, small_disk):
    folder = tmp_path / "project"
    folder.mkdir()
    make(folder, rows=ROWS, seconds=0, more=f"pace: 4\nrun: {small_disk}/run\n")
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 1_950_000)
    terminal = Terminal([*COMMAND, "run", "eval.yml"], cwd=folder, columns=140, lines=40)
    terminal.wait_for(r"No\s+space\s+left\s+on\s+device:[^;]*\s+free", timeout=250)
    yield folder, terminal, filler
    terminal.close()


def test_with_room_again_the_same_process_goes_on(on_full_disk):
    folder, terminal, filler = on_full_disk
    filler.unlink()
    assert terminal.wait() == 0
    assert re.search(rf"^workflow +{ROWS}/{ROWS}", terminal.said, re.M)
    assert re.search(r"there\s+is\s+space\s+again;\s+continuing", terminal.said)
    assert "Traceback" not in terminal.said
    assert len(calls(folder)) == ROWS


@pytest.mark.slow  # one Ctrl-C, and one signal, are tested too
def test_ctrl_c_twice_ends_it_and_what_is_on_disk_counts(on_full_disk, small_disk):
    folder, terminal, filler = on_full_disk
    terminal.press_ctrl_c()
    terminal.wait_for("press again to stop now")
    terminal.press_ctrl_c()
    assert terminal.wait() == 130, terminal.said
    assert "Traceback" not in terminal.said
    assert terminal.said.splitlines()[-1].startswith("resume with: ")
    column = small_disk / "run" / "workflow_output.jsonl"
    kept = [json.loads(line)["id"] for line in column.read_bytes().split(b"\n")[:-1]]
    filler.unlink()
    again = Terminal([*COMMAND, "run", "eval.yml"], cwd=folder, columns=140)
    assert again.wait() == 0
    assert f"{len(kept)} kept, {ROWS - len(kept)} new" in again.said
    again.close()
    asked = calls(folder)
    assert [one for one in kept if asked.count(f"Repeat {one[1:]}") > 1] == []


@pytest.mark.quick(2)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_one_signal_of_a_machine_ends_it_and_what_is_on_disk_counts(
    on_full_disk, small_disk, signum
):
    folder, terminal, filler = on_full_disk
    terminal.process.send_signal(signum)
    # It would wait for ten minutes, and a machine that shuts down kills it before.
    assert terminal.wait(timeout=250) == 128 + signum
    assert "Traceback" not in terminal.said
    column = small_disk / "run" / "workflow_output.jsonl"
    kept = [json.loads(line)["id"] for line in column.read_bytes().split(b"\n")[:-1]]
    filler.unlink()
    again = Terminal([*COMMAND, "run", "eval.yml"], cwd=folder, columns=140)
    assert again.wait() == 0
    assert f"{len(kept)} kept, {ROWS - len(kept)} new" in again.said
    again.close()


def test_ctrl_c_once_says_that_it_waits_and_with_room_nothing_is_lost(on_full_disk):
    folder, terminal, filler = on_full_disk
    terminal.press_ctrl_c()
    terminal.wait_for("press again to stop now", r"waiting for disk space; free some, or stop")
    filler.unlink()
    assert terminal.wait() == 130
    asked = calls(folder)
    again = Terminal([*COMMAND, "run", "eval.yml"], cwd=folder, columns=140)
    assert again.wait() == 0
    assert f"{len(asked)} kept, {ROWS - len(asked)} new" in again.said
    again.close()
