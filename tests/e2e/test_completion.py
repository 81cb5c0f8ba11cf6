"""`limpet completion`: what a shell does with the script."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from e2e import ready_limpet

BIN = Path(sys.executable).parent


def script_for(shell):
    done = ready_limpet.run(["completion", shell])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not (BIN / "limpet").exists(), reason="limpet is not on the PATH")
def test_bash_completes_ru_to_run_at_the_tab_key(tmp_path):
    (tmp_path / "limpet.bash").write_text(script_for("bash"))
    (tmp_path / "inputrc").write_text("set enable-bracketed-paste off\n")
    settings = {
        **os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PS1": "$ ", "TERM": "dumb",
        "INPUTRC": "inputrc", "HISTFILE": "",
    }  # fmt: skip
    main, side = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],  # noqa: S607
        cwd=tmp_path, env=settings, stdin=side, stdout=side, stderr=side, start_new_session=True,
    ) as shell:  # fmt: skip
        os.close(side)
        screen = Screen(main)
        # Before its prompt a shell does not read keys: the terminal would echo them.
        screen.reaches("$ ")
        screen.types(". ./limpet.bash\n")
        screen.reaches("$ ")
        # Ctrl-A goes to the line's start: the completed line is printed, not run.
        screen.types("limpet ru\t\x01echo completed: \n")
        screen.reaches("\ncompleted: ")
        assert screen.reaches("\r") == "limpet run"
        screen.types("exit\n")
        shell.wait()
    os.close(main)


class Screen:
    """What a terminal shows, and its keyboard."""

    def __init__(self, terminal):
        self.terminal = terminal
        self.unread = ""

    def types(self, keys):
        os.write(self.terminal, keys.encode())

    def reaches(self, text):
        while text not in self.unread:
            self.unread += os.read(self.terminal, 4096).decode()
        before, _, self.unread = self.unread.partition(text)
        return before


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_how_to_install_it(shell):
    script = script_for(shell)
    *_, said, command = script.splitlines()
    assert said == "# To install it, run this and open a new shell:"
    assert command.startswith(f"#     limpet completion {shell} > ~/")
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_an_unknown_shell_is_refused():
    done = ready_limpet.run(["completion", "tcsh"])
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr
