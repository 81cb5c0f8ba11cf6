"""Messages are written, whatever happens to their stream."""

import io

import pytest

from limpet.report.terminal import say, stderr_console


class Interrupted(io.FileIO):
    """A file during whose first write a signal comes, whose handler says something."""

    handlers = [lambda: say("stopping now")]  # noqa: RUF012 - one for the whole test

    def write(self, data):
        if self.handlers:
            self.handlers.pop()()
        return super().write(data)


@pytest.fixture
def fresh_console():
    stderr_console.cache_clear()
    yield
    stderr_console.cache_clear()


@pytest.mark.usefixtures("fresh_console")
def test_a_signal_in_the_middle_of_a_message_may_say_something_too(tmp_path, monkeypatch):
    file = io.BufferedWriter(Interrupted(tmp_path / "said", "w"))
    with io.TextIOWrapper(file, line_buffering=True) as stream:  # as Python's own
        monkeypatch.setattr("sys.stderr", stream)
        say("stopping")
    assert {*(tmp_path / "said").read_text().splitlines()} == {"stopping", "stopping now"}
