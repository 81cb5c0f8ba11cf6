"""Which runs are below the directory, and which of them are open?

A run's address is its path relative to the directory, exactly as listed: no other path is ever
opened, whatever a request names.
"""

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from limpet.errors import JournalError, LimpetError
from limpet.run.calibrating.labelling import Labelling
from limpet.run.reading.find_run import is_run, runs_in
from limpet.run.reading.reader import RunReader
from limpet.run.reading.run_table import Positions, Search
from limpet.run.reading.timeline import Timeline
from limpet.run.run_file import RunFile
from limpet.text import one_line
from limpet.view.hiding_table import HidingTable

_MOST_OPEN = 4
_MOST_SEARCHES = 4


class NoSuchRunError(LimpetError):
    """No run has this address."""


class Labeller(NamedTuple):
    """The person who labels.

    Attributes:
        person: The name; empty: none.
        read_only: Nobody labels: no label is saved, and no score is hidden.
    """

    person: str = ""
    read_only: bool = False


NOBODY = Labeller(read_only=True)


class ViewedRun:
    """An open run and what was read from it. One thread at a time uses it.

    Attributes:
        path: Where it is.
        reader: Reads it.
        run_table: Its items; read on first use.
        timeline: Its course over time.
        searches: The latest searches through its items, by their conditions.
        chosen: The latest requested rows, with their conditions and version.
        questions: The possible labels of each score, for one version.
        fields: The fields of the dataset, by its number of rows.
        failures: The failures grouped by cause, of one version.
        shape: The distributions of the scores, of one version.
        by_field: The numbers by a field, by its name.
        few_valued: The fields with few values, by the number of rows.
    """

    def __init__(self, path: Path, labeller: Labeller = NOBODY) -> None:
        self.path = path
        self.reader = RunReader(path)
        labelling = Labelling(self.reader.layout, labeller.person)
        self.run_table = HidingTable(self.reader, labelling, hides=not labeller.read_only)
        self.timeline = Timeline(self.reader)
        self.searches: OrderedDict[str, Search] = OrderedDict()
        self.chosen: tuple[object, int, Positions] | None = None
        self.questions: tuple[int, dict[Any, Any]] = (-1, {})
        self.fields: tuple[int, list[str]] = (-1, [])
        self.failures: tuple[int, list[dict[str, Any]]] = (-1, [])
        self.shape: tuple[int, dict[str, Any]] = (-1, {})
        self.by_field: dict[str, Any] = {}
        self.few_valued: tuple[int, list[str]] = (-1, [])
        self.lock = threading.Lock()
        self._about: object = None
        self._first_session = ""
        self.is_replaced()

    def is_replaced(self) -> bool:
        """Return whether another run has replaced it: then its files cannot be read further."""
        layout = self.reader.layout
        try:
            about = layout.run_json.stat()
            now = (about.st_ino, about.st_mtime_ns, about.st_size)
            if now == self._about:
                return False
            sessions = RunFile.load(layout, lambda _: None).sessions
        except (OSError, JournalError):
            return False
        before, self._about = self._first_session, now
        self._first_session = sessions[0].began if sessions else before
        return before not in ("", self._first_session)

    @property
    def can_label(self) -> bool:
        """Whether labels are saved at all."""
        return self.run_table.hides

    def why_no_labels(self) -> str:
        """Return why no label can be saved; empty: one can."""
        layout = self.reader.layout
        target = layout.labels if layout.labels.exists() else layout.home
        if os.access(target, os.W_OK) and os.access(layout.home, os.W_OK):
            return ""
        return f"{one_line(target.name)} cannot be written"

    def keep_search(self, name: str, search: Search) -> None:
        """Remember a search, and forget the oldest ones."""
        self.searches[name] = search
        while len(self.searches) > _MOST_SEARCHES:
            self.searches.popitem(last=False)


def unspelled(text: str) -> str:
    """Return the text in an address.

    An address cannot hold half characters, which ids and names of directories may contain: pages
    send such a text as a JSON string.
    """
    if text.startswith('"'):
        with suppress(ValueError, RecursionError):
            named = json.loads(text)
            return named if isinstance(named, str) else text
    return text


class ViewedRuns:
    """The runs below a directory.

    Args:
        directory: The directory, or a single run.
        labeller: Who labels.
    """

    def __init__(self, directory: Path, labeller: Labeller = NOBODY) -> None:
        self.directory = directory
        self.labeller = labeller
        self._opened: OrderedDict[str, ViewedRun] = OrderedDict()
        self._lock = threading.Lock()

    def paths(self) -> dict[str, Path]:
        """Return the runs by their addresses, the latest first."""
        if is_run(self.directory):
            return {self.directory.resolve().name: self.directory}
        inside = self.directory.resolve()
        found = {}
        for path in runs_in(self.directory):
            with suppress(OSError):
                if path.resolve().is_relative_to(inside):  # a link may point elsewhere
                    found[path.relative_to(self.directory).as_posix()] = path
        return found

    def path(self, address: str) -> Path:
        """Return the path of a run.

        Raises:
            NoSuchRunError: It is not one of the runs.
        """
        paths = self.paths()
        path = paths.get(address) or paths.get(unspelled(address))
        if path is None:
            raise NoSuchRunError(f"there is no run {one_line(address)}")
        return path

    @contextmanager
    def use(self, address: str) -> Iterator[ViewedRun]:
        """Open a run, or reuse the open one, for this thread alone.

        Raises:
            NoSuchRunError: It is not one of the runs.
        """
        path = self.path(address)
        while True:
            opened = self._open(address, path)
            with opened.lock:
                if self._opened.get(address) is not opened:
                    continue  # it was closed while this thread waited
                if opened.is_replaced():
                    with self._lock:
                        self._opened.pop(address, None)
                    opened.reader.close()
                    continue
                try:
                    yield opened
                finally:
                    if self._opened.get(address) is not opened:
                        opened.reader.close()
                return

    def is_read(self, address: str) -> bool:
        """Return whether the results of a run have been read."""
        opened = self._opened.get(address)
        return opened is not None and opened.run_table.version > 0

    def _open(self, address: str, path: Path) -> ViewedRun:
        with self._lock:
            opened = self._opened.get(address) or ViewedRun(path, self.labeller)
            self._opened[address] = opened
            self._opened.move_to_end(address)
            others = [key for key, one in self._opened.items() if not one.lock.locked()]
            for key in others[: max(0, len(self._opened) - _MOST_OPEN)]:
                if key != address:
                    self._opened.pop(key).reader.close()
            return opened

    def forget(self, address: str) -> None:
        """Close a run, at once or after its use: it is opened again when needed."""
        with self._lock:
            opened = self._opened.pop(address, None)
        if opened is not None and opened.lock.acquire(blocking=False):
            try:
                opened.reader.close()
            finally:
                opened.lock.release()

    def close(self) -> None:
        """Close all runs."""
        with self._lock:
            while self._opened:
                self._opened.popitem()[1].reader.close()
