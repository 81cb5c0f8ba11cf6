"""The cursor stays where it is: whoever hides it may be killed before it is shown again."""

import os
import signal
import sys

import pytest
from e2e.project import COMMAND, make
from e2e.terminal import Terminal

from tests.engines.project import stat, wait_until

HIDDEN = "\x1b[?25l"


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def run(*command):
        opened.append(Terminal(list(command), cwd=tmp_path))
        return opened[-1]

    yield run
    for one in opened:
        one.close()


def test_kill_9_leaves_the_cursor_visible(tmp_path, terminal):
    make(tmp_path, workflow="app:hang")
    running = terminal(*COMMAND, "run", "eval.yml")
    running.wait_for("in flight")
    os.killpg(running.process.pid, signal.SIGKILL)
    running.wait()
    assert not running.screen.cursor.hidden
    assert HIDDEN not in running.transcript


def test_stopped_as_by_ctrl_z_it_leaves_the_cursor_visible_and_goes_on_later(tmp_path, terminal):
    make(tmp_path, workflow="app:answer_when_told")
    running = terminal(*COMMAND, "run", "eval.yml")
    running.wait_for("in flight")
    # Not by pressing it: nobody is there to take the terminal back, and then it is not heard.
    os.killpg(running.process.pid, signal.SIGSTOP)
    wait_until(lambda: stat(running.process.pid)[0] == "T", "it to stop")
    running.wait_for("in flight")
    assert not running.screen.cursor.hidden
    (tmp_path / "go").touch()
    os.killpg(running.process.pid, signal.SIGCONT)
    assert running.wait() == 0
    assert HIDDEN not in running.transcript


def test_whoever_watches_or_exports_hides_nothing(tmp_path, terminal):
    make(tmp_path)
    for command in ("run eval.yml", "status --watch", "export --to csv --output out.csv"):
        running = terminal(*COMMAND, *command.split())
        assert running.wait() == 0
        assert HIDDEN not in running.transcript


def test_the_bar_of_a_map_hides_nothing(tmp_path, terminal):
    code = "import limpet; limpet.map(str, range(50), journal='out.jsonl', version='1')"
    running = terminal(sys.executable, "-c", code)
    assert running.wait() == 0
    assert "50/50" in running.said
    assert HIDDEN not in running.transcript
