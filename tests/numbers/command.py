"""The `limpet` command, run in this process: a new one would import for a second."""

import contextlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from limpet.cli.commands import cli
from limpet.cli.error_exit import report_error
from limpet.report.terminal import stderr_console, stdout_console


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def said(self):
        return self.out + self.err

    @property
    def json(self):
        """The one object on stdout. Python's NaN is no JSON."""
        return strict_json(self.out)


def strict_json(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON, and a number that means nothing")

    return json.loads(text, parse_constant=refuse)


def limpet(*words, cwd=None):
    """Run `limpet` with these words, not in a terminal."""
    words = [str(word) for word in words]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
        streams = [stack.enter_context(_redirected(1 + n, file)) for n, file in enumerate(files)]
        stack.enter_context(contextlib.chdir(cwd or Path.cwd()))
        out, err = streams
        stack.enter_context(
            mock.patch.multiple(sys, argv=["limpet", *words], stdout=out, stderr=err)
        )
        for console in (stdout_console, stderr_console):  # of an earlier test's streams
            console.cache_clear()
            stack.callback(console.cache_clear)
        try:
            code = cli(words, standalone_mode=False, prog_name="limpet")
        except (Exception, SystemExit) as error:
            code = report_error(error)
        said = []
        for stream, file in zip(streams, files, strict=True):
            stream.flush()
            file.seek(0)
            said.append(file.read().decode())
    return Done(code if isinstance(code, int) else 0, *said)


@contextlib.contextmanager
def _redirected(number, file):
    """Let a file stand for stdout or stderr: some commands write below Python's streams."""
    kept = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    finally:
        os.dup2(kept, number)
        os.close(kept)


def refused(done, *words, code=2):
    """Assert that it ended with a plain sentence that has all of these words, and no traceback."""
    assert done.code == code, done.said
    assert "Traceback" not in done.said
    assert "unknown command" not in done.err.lower()
    assert "no such option" not in done.err.lower()
    assert "error: " in done.err
    for word in words:
        assert str(word).lower() in done.err.lower(), (word, done.err)
