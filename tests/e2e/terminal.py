"""A real terminal for the real command: a pty, and an emulator that knows what is on the screen."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pyte
from e2e import ready_limpet


class Terminal:
    """Runs a command in a terminal of its own, and reads its screen as a person would.

    `limpet` is a fork of a process that has imported it, where a fork can be it.
    """

    def __init__(self, command, *, cwd, columns=100, lines=30, env=None):
        self.screen = pyte.HistoryScreen(columns, lines, history=5000)
        self.transcript = ""
        self._stream = pyte.Stream(self.screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._master, slave = pty.openpty()
        self._resize_tty(columns, lines)
        settings = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        settings |= {"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""} | (env or {})
        settings = {name: value for name, value in settings.items() if value != ""}
        self.process = ready_limpet.start_in_terminal(
            command, cwd=cwd, env=settings, terminal=os.ttyname(slave)
        )
        if self.process is None:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=settings,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads
            )
        os.close(slave)

    def _resize_tty(self, columns, lines):
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def resize(self, columns, lines):
        self._resize_tty(columns, lines)
        self.screen.resize(lines, columns)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def press(self, keys):
        os.write(self._master, keys.encode())

    def press_ctrl_c(self):
        self.press("\x03")

    @property
    def shown(self):
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def said(self):
        """All that scrolled by and what is on the screen, as one would read it scrolling up."""
        above = [
            "".join(row[column].data for column in range(self.screen.columns)).rstrip()
            for row in self.screen.history.top
        ]
        return "\n".join([*above, self.shown])

    def wait_for(self, *patterns, timeout=100.0):
        """Return when the screen shows all of them at once.

        What is read may end in the middle of a picture: what belongs together is waited for
        together, and not looked up on the screen afterwards.
        """
        self._read_until(
            lambda: all(re.search(one, self.said) for one in patterns),
            timeout,
            f"{patterns!r} to appear",
        )

    def wait(self, timeout=100.0):
        """Return the exit code, when all has been read."""
        self._read_until(lambda: self._closed, timeout, "the end")
        return self.process.wait(timeout)

    _closed = False

    def _read_until(self, condition, timeout, what):
        deadline = time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if self._closed or left <= 0:
                raise AssertionError(f"waited for {what}; the screen:\n{self.said}")
            if select.select([self._master], [], [], left)[0]:
                try:
                    data = os.read(self._master, 65536)
                except OSError:  # EIO: nobody has the other end any more
                    data = b""
                self._closed = not data
                text = self._decoder.decode(data)
                self.transcript += text
                self._stream.feed(text)

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)
