"""Which files does this session read, and how does that get to the disk before the results?"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from limpet.fingerprints.files.audit_hook import (
    Watch,
    early,
    listen,
    missed,
    stop_listening,
    unwatched,
)
from limpet.fingerprints.files.file_reads import Call, Read, StepReads, read_by
from limpet.fingerprints.files.project import ABSENT, Project
from limpet.fingerprints.identity import Identity
from limpet.fingerprints.steps import code_of
from limpet.fingerprints.walk.safe_access import module_name
from limpet.journal.journal import Journal
from limpet.run.planning.files_read import CUT, FILES, LONGEST_TEXT, SHARED
from limpet.secrets.in_texts import without_settings

_MOST_TEXTS = 100

logger = logging.getLogger("limpet.run")


def project_of(steps: Iterable[Any], without: Iterable[Path] = ()) -> Project:
    """Return the project that the code of some steps belongs to."""
    homes = [
        getattr(sys.modules.get(module_name(thing)), "__file__", None)
        for step in steps
        for thing in code_of(step).values()
    ]
    return Project([Path.cwd(), *(Path(one).parent for one in homes if one)], without)


class WatchedFiles:
    """What the steps of one session read.

    Args:
        journal: Where that is noted.
        steps: Each step by its name; only those with code of the user's are watched.
        project: Whose files count.
        last: The number of the last line that is there.
        identity_of: Returns what a step is: what its modules read as they were imported, and
            what its functions read for other steps, counts for it.
        clean: Takes secrets out of a text.
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
        self._calls: dict[tuple[str, Any], Call] = {}
        self._waiting: list[asyncio.Future[Any]] = []
        reads = [
            StepReads(name, code, _named(read_by(code), project))
            for name, code in {
                name: identity_of(name).code for name, one in steps.items() if code_of(one)
            }.items()
        ]
        self._watch = Watch(project, reads)
        self._watch.written |= dict.fromkeys(
            filter(None, map(project.name_of, early.written)), ABSENT
        )
        for path, (says, module) in early.read.items():
            name = project.name_of(path)
            for step in reads if name is not None else ():
                if not module or module in identity_of(step.step).modules:
                    step.read(str(name), says, None)

    def begin(self) -> None:
        """Listen from now on."""
        if self._watch.steps:
            listen(self._watch)

    def watches(self, step: str) -> bool:
        """Tell whether a step has code that may read files."""
        return step in self._watch.steps

    @contextmanager
    def setting_up(self, step: str) -> Iterator[None]:
        """Note what is read in this context as read for all calls of a step."""
        if not self.watches(step):
            yield
            return
        with self._watch.setting_up(step):
            yield

    async def calling(
        self, step: str, cell: Any, row: Any, function: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Call a function, and note what it reads as read for a cell, out of its row."""
        call, token = self._watch.begin(step, row)
        before = self._calls.get((step, cell))
        if before is not None:  # tried again, or asked twice at a time
            call.files |= before.files
            call.is_cut |= before.is_cut
        self._calls[step, cell] = call
        try:
            return await function()
        finally:
            self._watch.end(call, token)

    async def facts(self, step: str, cell: Any) -> dict[str, Any]:
        """Return what is to be said of a cell's record; what it refers to is on disk then."""
        call = self._calls.get((step, cell))
        if call is None:
            return {}
        if not isinstance(cell, int):  # an object's place, which other inputs may share
            del self._calls[step, cell]
        # Those of others, too, that wait for the disk: this record will say that they are there.
        self._waiting = [one for one in self._waiting if not one.done()] + self._notes()
        if self._waiting:
            await asyncio.gather(*self._waiting)
        files = {name: says for name, says in call.files.items() if name not in self._marked}
        facts: dict[str, Any] = {FILES: files} if files else {}
        if call.is_cut:
            facts[CUT] = True
        if self._last >= self._first:
            facts[SHARED] = [self._first, self._last]
        return facts

    def _notes(self, *, wait: bool = True) -> list["asyncio.Future[Any]"]:
        """Write down what is new; return what to wait for."""
        with unwatched():
            return self._noted(wait=wait)

    def _noted(self, *, wait: bool) -> list["asyncio.Future[Any]"]:
        notes = []
        for step in self._watch.steps.values():
            while step.new:
                one = step.new.pop(0)
                self._last += 1
                record = {name: value for name, value in one._asdict().items() if value is not None}
                record |= self._text_of(one)
                notes.append(self._note(record.pop("step"), record, self._last, wait=wait))
        return [*notes, *self._written(wait=wait)]

    def _written(self, *, wait: bool) -> list["asyncio.Future[Any]"]:
        """Mark what was written, and says something else now: that is the run's own doing."""
        notes = []
        for name, before in list(self._watch.written.items()):
            said = [step.knows(name) for step in self._watch.steps.values()]
            folder = f"{name.rpartition('/')[0]}/"
            is_listed = any(step.knows(folder) for step in self._watch.steps.values())
            if name in self._marked or not (is_listed or any(one is not None for one in said)):
                continue
            if {self._watch.project.says(name), *said} - {before, None}:
                self._marked.add(name)
                self._watch.project.own.add(name)
                notes.append(self._mark("", "written", name, wait=wait))
        return notes

    def _text_of(self, one: Read) -> dict[str, str]:
        """Return the text of a file that is not one of many, so that a difference can be shown."""
        mark = (one.file, one.says)
        if one.word is not None or mark in self._texts or len(self._texts) >= _MOST_TEXTS:
            return {}
        text = self._watch.project.text(one.file, one.says, LONGEST_TEXT)
        self._texts.add(mark)
        return {} if text is None else {"text": self._clean(without_settings(text))}

    def _mark(self, step: str, what: str, name: str, *, wait: bool) -> Any:
        return self._note(step, {what: name, "from": self._first}, None, wait=wait)

    def _note(self, step: str, record: dict[str, Any], number: int | None, *, wait: bool) -> Any:
        facts: dict[str, Any] = {"step": step}
        if number is not None:
            facts["n"] = number
        return self._journal.note_file(facts, record, wait=wait)

    def end(self, changing: Collection[str] = ()) -> None:
        """Listen no more; write down what is not yet.

        Args:
            changing: Steps that hold something which changes, and may be a cache.
        """
        if not self._watch.steps or self._ended:
            return
        self._ended = True
        stop_listening(self._watch)
        self._notes(wait=False)
        while missed:
            logger.warning("a file was opened and could not be noted: %s", missed.popleft())
        for step in self._watch.steps.values():
            for name in sorted(step.afresh | step.elsewhere) if step.step not in changing else ():
                self._mark(step.step, "afresh", name, wait=False)

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self._last


def _named(read: Iterable[tuple[str, str]], project: Project) -> list[tuple[str, str]]:
    names = [(project.name_of(path), says) for path, says in read]
    return [(name, says) for name, says in names if name is not None]
