"""Which files make up a run, and is a session working on it?"""

import logging
import os
import platform
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from limpet.errors import JournalError, OtherFormatError
from limpet.journal.column import ColumnReader
from limpet.journal.event_log import EventLog, last_event_at
from limpet.journal.lines import size_and_crc
from limpet.journal.lock import holder as text_of_lock
from limpet.journal.lock import is_alive, is_held, is_of_this_system, shares_our_numbers
from limpet.run.planning.counting import Counting
from limpet.run.planning.items_file import identity_of
from limpet.run.reading.facts_reader import FactsReader, FailuresReader
from limpet.run.reading.find_run import layout_of_run
from limpet.run.reading.progress import age_s, seconds_of
from limpet.run.reading.requested_cells import ItemsFile
from limpet.run.record_fields import BALLOTS, FINGERPRINT
from limpet.run.run_file import RunFile, Session

# ---- Is a process working on this run? ----------------------------------------------------------
#
# Only the lock itself knows for sure, and trying it has a price: a reader holds it for a moment,
# and a writer that starts in that moment has to try again. `/proc/locks` can be read without that,
# but names a file by a device number that differs from the file's own on btrfs and overlays. So we
# trust the lock's text, which says who took it last. That process is alive if this machine has a
# process with its pid, has not been restarted since, and the process is no younger than the text
# says: else the pid was given to another process. Only for a process in another container, whose
# pid means nothing here, we try the lock itself.
#
# A process that is alive may have released the lock; then `run.json` says that its session ended.

_PROC = Path("/proc")
_SLACK_S = 2.0  # the lock's text counts whole seconds, the system ticks


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that took a run's lock last.

    Attributes:
        pid: Its pid.
        host: Its machine.
        started: When it started.
        is_alive: Whether it still runs; None: on another machine, so not known.
    """

    pid: int
    host: str
    started: str
    is_alive: bool | None


def holder_of(lock: Path) -> Holder | None:
    """Return who took a lock last; None if it was never taken. The lock is not touched."""
    who = text_of_lock(lock)
    pid = who.get("pid")
    if not isinstance(pid, int):
        return None
    started = str(who.get("started", ""))
    host = str(who.get("host", ""))
    if is_of_this_system(who) and not shares_our_numbers(who):
        # In a container, where its path may differ, too.
        return Holder(pid, host, started, is_held(lock))
    if who.get("path", str(lock.resolve())) != str(lock.resolve()):
        return None  # the run was copied or moved: this lock is not held
    return Holder(pid, host, started, _is_alive(pid, who, started))


def _is_alive(pid: int, who: dict[str, Any], started: str) -> bool | None:
    if who.get("host") != platform.node():
        return None
    if not is_of_this_system(who) or not is_alive(pid):
        return False
    born, claimed = _born_at(pid), seconds_of(started)
    return born is None or claimed is None or born <= claimed + _SLACK_S


def _born_at(pid: int) -> float | None:
    """Return when a process started; None where the system does not say."""
    stat = _read(_PROC / str(pid) / "stat")
    with suppress(IndexError, ValueError):
        # After the name, which may contain anything: the state is field 3, the start field 22.
        fields = stat.rpartition(")")[2].split()
        if fields[0] == "Z":  # a zombie: its lock is released
            return float("inf")
        ticks = int(fields[19])
        up_s = float(_read(_PROC / "uptime").split()[0])
        return time.time() - up_s + ticks / os.sysconf("SC_CLK_TCK")
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


# ---- Which files make up a run, and is a session working on it? ---------------------------------

logger = logging.getLogger("limpet.run")
_NAME = re.compile(r"\w[\w.-]*")
_QUIET_S = 600.0
"""After this long without an event, a run on another machine counts as dead."""
_NO_ITEMS = (
    "items.jsonl is missing, so inputs and expected values are not shown: the next run writes it"
)


class RunFiles:
    """The files of a run, or of the journal of a map. Close it, or use it with `with`.

    Args:
        path: A run directory, or the `.jsonl` file of a map.
        columns: Its columns that are open already; the reader shares their offsets.

    Attributes:
        path: The path as given.
        layout: The run's layout.
        run_file: The content of `run.json`; with its defaults if it is missing.
        remarks: Sentences about what could not be read.
        logged: The one of them that was logged as well; empty: none.
        holder: Who took its lock last; None: it was never taken.
        columns: The column of each step of the last session, the first step first.
        failures: The failures of all sessions.
        event_log: The events of the last session; None: not read yet.
        counting: Decides whether a record counts.
        items_identity: The identity of `items.jsonl` when the files were last read; None: missing.

    Raises:
        JournalError: There is no run at `path`.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, ColumnReader] | None = None) -> None:
        self.path = Path(path)
        self.layout = layout_of_run(path)
        self.run_file = RunFile()
        self.remarks: list[str] = []
        self.logged = ""
        self.holder: Holder | None = None
        self.columns = {
            name: FactsReader(column.path, opened=column)
            for name, column in (columns or {}).items()
        }
        self.failures = FailuresReader(self.layout.failures)
        self.event_log: EventLog | None = None
        self._items_file: ItemsFile | None = None
        self.items_identity: tuple[int, int, int] | None = None
        self.counting = Counting()
        self._read_files()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        for column in self.columns.values():
            column.close()
        if self._items_file is not None:
            self._items_file.close()

    def refresh(self) -> None:
        """Read what happened since."""
        self._read_files()

    def _read_files(self) -> None:
        self.holder = holder_of(self.layout.lock)
        self.items_identity = identity_of(self.layout)  # before run.json, which is written later
        self.run_file = self._read_run_file()
        if self.items_identity is None and self.run_file.sessions and self.kind != "map":
            self.remarks.append(_NO_ITEMS)
        self.counting = Counting.load(self.layout, self.run_file)
        # The events before the columns: a call that began may have its record by now, and then it
        # is not in flight.
        if self.event_log is not None:
            self.event_log.refresh()
        for name in (self.step, *self.evaluators):
            if name in self.columns:
                self.columns[name].refresh()
            else:
                path = self.layout.column(name)
                self.columns[name] = FactsReader(path, self.layout.index(path))
        self.failures.refresh()

    @property
    def items_file(self) -> ItemsFile | None:
        """`items.jsonl`, read when it is needed; None: it is missing or damaged."""
        identity, known = identity_of(self.layout), self._items_file
        if identity is None or self.kind == "map":
            return None
        if known is None or known.identity != identity:
            if known is not None:
                known.close()
            try:
                self._items_file = ItemsFile(self.layout, self.session.items_file)
            except (OSError, JournalError) as error:
                self._items_file = None
                remark = f"{error}, so some details are missing"
                # A session that begins writes the items, and `run.json` a moment later.
                if not self.is_running and remark not in self.remarks:
                    self.remarks.append(remark)
        return self._items_file

    def _read_run_file(self) -> RunFile:
        self.remarks = []
        try:
            return RunFile.load(self.layout, self._warn)
        except OtherFormatError:
            raise
        except JournalError as error:
            self._warn(f"{error}, so some details are missing")
            return RunFile()

    def _warn(self, remark: str) -> None:
        self.remarks.append(remark)
        if remark != self.logged:  # a page reads it once a second
            logger.warning("%s", remark)
        self.logged = remark

    # ---- its steps ------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Return "evaluation" or "map"."""
        return "map" if self.layout.single or self.run_file.kind == "map" else "evaluation"

    @property
    def step(self) -> str:
        """The step that answers."""
        return "map" if self.kind == "map" else "workflow"

    @property
    def evaluators(self) -> tuple[str, ...]:
        """The evaluators of the last session."""
        if self.kind == "map":
            return ()
        session = self.run_file.session
        known = list((session.steps if session else {}) or self.run_file.evaluators)
        if not known:
            known = self.layout.steps()
        return tuple(name for name in known if name != self.step and _is_evaluator(name))

    @property
    def session(self) -> Session:
        """The last session; with its defaults if it is not known."""
        return self.run_file.session or Session()

    @property
    def trials(self) -> int:
        """The number of trials."""
        return self.session.trials

    # ---- its sessions ---------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether a session works on it."""
        who, session = self.holder, self.session
        if who is None or who.is_alive is False:
            return False
        if session.ended:
            # Another process has the lock already, and begins its session after planning.
            since, ended = seconds_of(who.started), seconds_of(session.ended)
            newer = since is not None and ended is not None and since >= ended - 1
            return who.pid != session.pid and newer and bool(who.is_alive)
        if who.is_alive is None:
            quiet_s = age_s(self.last_at)
            return quiet_s is not None and quiet_s < _QUIET_S
        return True

    @property
    def began_at(self) -> str:
        """When the last session began; empty: not known."""
        return self.session.began

    @property
    def last_at(self) -> str:
        """When it was last worked on; empty: not known."""
        return str(self.session.ended or last_event_at(self.layout.events) or self.began_at)


def _is_evaluator(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not name.endswith(BALLOTS)


# ---- Does `run.json` still describe the files of a run? -----------------------------------------
#
# It does not if a file was damaged after the last session, if the last session was killed before
# it was recorded, or while it ran. Then the results themselves are counted.


Checked = dict[str, tuple[int, int]]
"""The size and checksum of each column when it was last checked."""


def changed_columns(run: RunFiles, checked: Checked) -> list[str]:
    """Return the names of the columns that were truncated or changed since they were recorded.

    Args:
        run: The run.
        checked: What was as recorded before is not read again; updated here.
    """
    names = (run.step, *run.evaluators)
    columns = ((name, run.columns[name]) for name in names)
    return [
        column.path.name for name, column in columns if not _is_same(run, name, column, checked)
    ]


def _is_same(run: RunFiles, name: str, column: FactsReader, checked: Checked) -> bool:
    known, began = run.session.columns.get(name), run.session.steps.get(name)
    if known is not None:
        with suppress(OSError, JournalError):
            size, crc = size_and_crc(column.path, checked.get(name, (0, 0)))
            if [size, crc] == known:
                checked[name] = (size, crc)
                return True
        checked.pop(name, None)
        return False
    is_truncated = began is not None and column.end < began.bytes_at
    return not (is_truncated or column.state.bad_lines)


def may_lack_failures(run: RunFiles) -> bool:
    """Return whether scores failed in earlier sessions that the last one did not count.

    Whether they still count depends on the answers, which are not read here.
    """
    if run.run_file.complete is not None:
        return False
    for name in run.evaluators:
        recorded, identity = run.session.steps.get(name), run.run_file.steps.get(name)
        if identity is None or (recorded is not None and recorded.have is not None):
            continue
        column = run.columns[name]
        for key, failed in run.failures.of(name):
            is_earlier = failed.offset < run.session.failures_at
            is_current = failed.facts.get(FINGERPRINT) == identity.fingerprint
            if is_earlier and is_current and column.generation_of(key) < failed.generation:
                return True
    return False
