"""Records which files the steps of this session read, before their results are written."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Token
from typing import Any

from limpet.fingerprints.files.audit_hook import (
    Watch,
    early,
    listen,
    missed,
    stop_listening,
    unwatched,
)
from limpet.fingerprints.files.file_reads import CellReads, Read, StepReads, read_by
from limpet.fingerprints.files.project import ABSENT, Project
from limpet.fingerprints.identity import Identity
from limpet.fingerprints.steps import code_of
from limpet.journal.journal import Journal
from limpet.run.planning.files_read import FILES, FILES_TRUNCATED, LONGEST_TEXT, SHARED
from limpet.run.run_file import RunFile
from limpet.secrets.in_code import without_settings

_MOST_TEXTS = 100

logger = logging.getLogger("limpet.run")


class WatchedFiles:
    """The files that the steps of a session read.

    Args:
        journal: The run's journal.
        steps: Each step by name; only steps with the user's code are watched.
        project: The project whose files count.
        last: The number of the last line in `files.jsonl`.
        identity_of: Returns the identity of a step: what its modules read during import, and what
            its functions read for other steps, counts for it.
        clean: Removes secrets from text.
    """

    def __init__(
        self,
        journal: Journal,
        steps: Mapping[str, Any],
        project: Project,
        last: int,
        identity_of: Callable[[str], Identity],
        clean: Callable[[Any], Any],
    ) -> None:
        self._journal = journal
        self._first = last + 1
        self._clean = clean
        self._texts: set[tuple[str, str]] = set()
        self._last = last
        self._ended = False
        self._marked: set[str] = set()
        self._calls: dict[tuple[str, Any], CellReads] = {}
        self._waiting: list[asyncio.Future[Any]] = []
        reads = [
            StepReads(name, one.code, _known(one, project), one.sources)
            for name, one in {
                name: identity_of(name) for name, step in steps.items() if code_of(step)
            }.items()
        ]
        self._watch = Watch(project, reads)
        self._watch.written |= dict.fromkeys(
            filter(None, map(project.name_of, early.written)), ABSENT
        )
        for path, (digest, module) in early.read.items():
            name = project.name_of(path)
            for step in reads if name is not None else ():
                if not module or module in identity_of(step.step).modules:
                    step.read(str(name), digest, None)

    def begin(self) -> None:
        if self._watch.steps:
            listen(self._watch)

    def watches(self, step: str) -> bool:
        """Return whether a step has code that may read files."""
        return step in self._watch.steps

    @contextmanager
    def setting_up(self, step: str) -> Iterator[None]:
        """Record files read in this context for all calls of a step."""
        if not self.watches(step):
            yield
            return
        with self._watch.setting_up(step):
            yield

    def begin_call(self, step: str, cell: Any, row: Any) -> "tuple[CellReads, Token[Any]]":
        """Record the files read in this context for a cell and its row, until `end_call`."""
        call, token = self._watch.begin(step, row)
        before = self._calls.get((step, cell))
        if before is not None:  # a retry, or two calls at once
            call.files |= before.files
            call.is_truncated |= before.is_truncated
        self._calls[step, cell] = call
        return call, token

    def end_call(self, call: CellReads, token: "Token[Any]") -> None:
        self._watch.end(call, token)

    def unwritten(self) -> "list[asyncio.Future[Any]]":
        """Write what is new, and return the lines that are not on disk yet.

        The next record may refer to any of them, also to lines of other cells.
        """
        is_new = self._watch.written or any(step.new for step in self._watch.steps.values())
        if is_new or self._waiting:
            self._waiting = [line for line in self._waiting if not line.done()] + self._write_new()
        return self._waiting

    def facts(self, step: str, cell: Any, *, shared: bool) -> dict[str, Any]:
        """Return the facts for a cell's record. Every `unwritten` line must be on disk.

        Args:
            step: The step.
            cell: The identity of the call, as for `begin_call`.
            shared: Whether other inputs have the same identity: then the call is kept for them.
        """
        call = self._calls.get((step, cell)) if shared else self._calls.pop((step, cell), None)
        if call is None:
            return {}
        files = {name: digest for name, digest in call.files.items() if name not in self._marked}
        facts: dict[str, Any] = {FILES: files} if files else {}
        if call.is_truncated:
            facts[FILES_TRUNCATED] = True
        if self._last >= self._first:
            facts[SHARED] = [self._first, self._last]
        return facts

    def _write_new(self, *, wait: bool = True) -> list["asyncio.Future[Any]"]:
        """Write new lines; return the writes to wait for."""
        writes = []
        with unwatched():
            for step in self._watch.steps.values():
                while step.new:
                    read = step.new.pop(0)
                    self._last += 1
                    fields = read._asdict().items()
                    record = {name: value for name, value in fields if value is not None}
                    record |= self._text_of(read)
                    writes.append(self._write(record.pop("step"), record, self._last, wait=wait))
            return [*writes, *self._written(wait=wait)]

    def _written(self, *, wait: bool) -> list["asyncio.Future[Any]"]:
        """Mark files that the run itself wrote and changed."""
        writes = []
        for name, before in list(self._watch.written.items()):
            known = [step.knows(name) for step in self._watch.steps.values()]
            folder = f"{name.rpartition('/')[0]}/"
            is_listed = any(step.knows(folder) for step in self._watch.steps.values())
            if name in self._marked or not (is_listed or any(old is not None for old in known)):
                continue
            if {self._watch.project.digest(name), *known} - {before, None}:
                self._marked.add(name)
                self._watch.project.own.add(name)
                writes.append(self._mark("", "written", name, wait=wait))
        return writes

    def _text_of(self, read: Read) -> dict[str, str]:
        """Return the text of a file, unless it is one of many, so that a diff can be shown."""
        mark = (read.file, read.digest)
        if read.word is not None or mark in self._texts or len(self._texts) >= _MOST_TEXTS:
            return {}
        text = self._watch.project.text(read.file, read.digest, LONGEST_TEXT)
        self._texts.add(mark)
        return {} if text is None else {"text": self._clean(without_settings(text))}

    def _mark(self, step: str, what: str, name: str, *, wait: bool) -> Any:
        return self._write(step, {what: name, "from": self._first}, None, wait=wait)

    def _write(self, step: str, record: dict[str, Any], number: int | None, *, wait: bool) -> Any:
        facts: dict[str, Any] = {"step": step}
        if number is not None:
            facts["n"] = number
        return self._journal.record_file(facts, record, wait=wait)

    def end(
        self, changing: Collection[str], objects: Collection[str], run_file: RunFile | None
    ) -> None:
        """Stop listening, write what is not on disk yet, and record the last line's number.

        Args:
            changing: Steps with state, which may be a cache.
            objects: Steps with an object that the run made, which may have one.
            run_file: The run file to update; None: the session never began.
        """
        self._end(changing, objects)
        if run_file is not None:
            run_file.files_last = self._last

    def _end(self, changing: Collection[str], objects: Collection[str]) -> None:
        if not self._watch.steps or self._ended:
            return
        self._ended = True
        stop_listening(self._watch)
        self._write_new(wait=False)
        while missed:
            logger.warning("a file that was read could not be recorded: %s", missed.popleft())
        for step in self._watch.steps.values():
            # What one call wrote and another read may be a cache as well.
            if step.step in changing or any(map(step.knows, self._watch.written)):
                continue
            is_object = step.step in objects
            names = step.elsewhere - step.own if is_object else step.afresh | step.elsewhere
            for name in sorted(names - step.modules):  # Python loads a module once
                self._mark(step.step, "afresh", name, wait=False)


def _known(identity: Identity, project: Project) -> list[tuple[str, str]]:
    """Return the files that a step's functions read earlier in this process."""
    read = [one for one in read_by(identity.code) if one[0] not in identity.sources]
    names = [(project.name_of(path), digest) for path, digest in read]
    return [(name, digest) for name, digest in names if name is not None]
