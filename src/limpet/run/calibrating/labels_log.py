"""`labels.jsonl`: what people said of answers on the live page.

One JSON object per line: `id`, `trial`, `label`, `evaluator`, `person`, `note`, `drawn` (which
answer it is about), `seen` (the scores were in view) and `at`. A label is changed by another line,
and taken back by one without a label. Nothing is ever removed from the file.

A label is kept when its line is on disk: `add` returns after the sync. The file has a lock of its
own, so that several pages can write while a session works on the run. Half a line, of a process
that was killed, counts for nothing: it gets its line end before the next one, and stays.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from limpet.datasets.sources import table_of_file
from limpet.errors import DiskFullError, JournalError, RunLockedError
from limpet.journal.files import (
    NO_SPACE,
    open_for_append,
    open_to_read,
    sync_file,
    write_all,
)
from limpet.journal.layout import Layout
from limpet.journal.lock import Lock
from limpet.json_values import dumps
from limpet.run.calibrating.label_files import Said, said_in
from limpet.text import count, one_line

_PATIENCE_S, _AGAIN_S = 10.0, 0.01
"""How long a label waits for another process to write one."""


class LabelsLog:
    """The file of one run. One thread at a time uses it.

    Args:
        layout: Where the run's files are.

    Attributes:
        said: What its lines say, oldest first.
        remark: What could not be read; empty: nothing.
        state: What changes with the file.
    """

    def __init__(self, layout: Layout) -> None:
        self._path, self._lock = layout.labels, layout.labels_lock
        self.state: object = ()
        self.said: list[Said] = []
        self.remark = ""

    def refresh(self) -> bool:
        """Read the file if it changed; return whether it did.

        Raises:
            LimpetError: It cannot be read.
        """
        state = self._now()
        if state == self.state:
            return False
        said: list[Said] = []
        remark = ""
        if state is not None:
            table = table_of_file(self._path)
            said, flaws = said_in(table, strict=False)
            if flaws:
                lines, where = count(len(flaws), "line"), table.at(flaws[0].number)
                remark = f"{lines} of {self._path.name} cannot be read: {where}"
        self.state, self.said, self.remark = state, said, remark
        return True

    def _now(self) -> object:
        try:
            with open_to_read(self._path) as file:  # a pipe would be waited for
                about = os.fstat(file.fileno())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"{self._shown}: cannot be read: {error.strerror}") from error
        return about.st_ino, about.st_size, about.st_mtime_ns

    def add(self, make: Callable[[], Mapping[str, Any] | None]) -> None:
        """Add a line, and return when it is on disk.

        Args:
            make: Returns the line, by what is in the file when nobody else can write to it; None:
                there is nothing to add.

        Raises:
            JournalError: It could not be written, and is not in the file.
        """
        with self._locked():
            self.refresh()
            fields = make()
            if fields is None:
                return
            line = dumps(fields).encode() + b"\n"
            try:
                self._append(line)
            except OSError as error:
                raise self._unwritable(error) from error
            self.refresh()

    def _append(self, line: bytes) -> None:
        fd = open_for_append(self._path)
        try:
            end = os.fstat(fd).st_size
            if end and os.pread(fd, 1, end - 1) != b"\n":
                line = b"\n" + line
            try:
                write_all(fd, [line])
                sync_file(fd)
            except OSError:
                with suppress(OSError):  # else half a line stays, which counts for nothing
                    os.ftruncate(fd, end)
                raise
        finally:
            os.close(fd)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                lock = Lock(self._lock)
                break
            except RunLockedError as error:
                if time.monotonic() >= until:
                    raise RunLockedError(
                        f"{self._shown}: another process is writing to it",
                        hint="try again",
                        holder=error.holder,
                    ) from error
                time.sleep(_AGAIN_S)
            except OSError as error:
                raise self._unwritable(error) from error
        try:
            yield
        finally:
            lock.release()

    @property
    def _shown(self) -> str:
        return one_line(str(self._path))

    def _unwritable(self, error: OSError) -> JournalError:
        if error.errno in NO_SPACE:
            return DiskFullError(
                f"{self._shown}: {error.strerror}",
                hint="free some space on that disk, and try again",
            )
        return JournalError(f"{self._shown}: cannot be written: {error.strerror}")


def counting(said: Iterable[Said]) -> list[Said]:
    """Return which lines count: of each person, answer and evaluator, what was said last.

    But what somebody said after the scores were shown does not replace what they had said before.
    """
    found: dict[object, Said] = {}
    for one in said:
        key = (one.id, str(one.trial or 0), one.person, one.evaluator)
        before = found.get(key)
        if one.label is None:
            found.pop(key, None)
        elif before is None or before.drawn != one.drawn or before.seen or not one.seen:
            found.pop(key, None)  # so that it comes last
            found[key] = one
    # Of what was said of an evaluator and of one of its scores, the later counts.
    return list({(one.id, str(one.trial or 0), one.person): one for one in found.values()}.values())
