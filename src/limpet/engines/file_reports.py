"""Which files do the calls in this worker open? The driver is told, as what they read counts.

A call may use what an earlier call read and kept. So what was read is sent before any result that
ends after it.
"""

import os
import threading
from collections import deque
from typing import Any

from limpet.fingerprints.files.audit_hook import ReadElsewhere, Readers, missed
from limpet.fingerprints.files.project import ABSENT, Project
from limpet.fingerprints.walk.ownership import is_users_file

_MOST_OF_A_CALL = 1_001  # the driver lists one less, and notes that there are more


class FileReports:
    """Collects which files are opened, by which cell."""

    def __init__(self) -> None:
        self._project = Project([])
        self._new: deque[tuple[int | str, tuple[Any, ...]]] = deque()
        self._seen: dict[int | str, set[tuple[Any, ...]]] = {}

    def record(self, path: str, call: Any, *, writes: bool, by: Readers, is_module: bool) -> None:
        """Note a file that is being opened; called by the audit hook, in any thread.

        Args:
            path: The file.
            call: The number of the cell, or the name of the step that is being opened; None: it
                belongs to none, as at an import.
            writes: Whether it is opened for writing.
            by: The functions that are running; None if unknown.
            is_module: Whether a library imports it for a call.
        """
        if not is_users_file(path) or (is_module and call is None):
            return
        digest = None if os.path.isdir(path) else self._project.digest_at(path)  # noqa: PTH112
        if not writes and digest is None and not os.path.isdir(path):  # noqa: PTH112
            return
        number = call or ""
        running = None if by is None else tuple(by)
        thread = (os.getpid(), threading.get_native_id())
        kept = digest or (ABSENT if writes else digest)
        read = (path, kept, writes, running, thread, is_module)
        seen = self._seen.setdefault(number, set())
        if read not in seen and len(seen) < _MOST_OF_A_CALL:
            seen.add(read)
            self._new.append((number, read))

    def forget(self, number: int) -> None:
        """Forget a cell that ended."""
        self._seen.pop(number, None)

    def take(self) -> dict[int | str, list[tuple[Any, ...]]]:
        """Return what is new, by the cell or the step."""
        taken: dict[int | str, list[tuple[Any, ...]]] = {}
        while self._new:
            number, read = self._new.popleft()
            taken.setdefault(number, []).append(read)
        return taken

    @staticmethod
    def missed() -> list[str]:
        """Return the files that could not be noted, and why."""
        names: list[str] = []
        while missed:
            names.append(missed.popleft())
        return names


def as_reads(reported: list[Any]) -> list[ReadElsewhere]:
    """Return what a worker reported, in the driver."""
    return [ReadElsewhere(*read) for read in reported]
