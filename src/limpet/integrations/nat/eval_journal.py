"""Which answers of an interrupted `nat eval` are on disk?

Each answer is a record of a journal beside the output directory: the directory itself is deleted
when `nat eval` starts. A journal never ends an evaluation: what cannot be written is logged.
"""

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from limpet.fingerprints.keys import Occurrences, digest, with_types
from limpet.integrations.nat.workflow import counted_blocks
from limpet.journal.files import sync_file
from limpet.journal.journal import Journal
from limpet.journal.layout import directory_at
from limpet.json_values import NotPlainError, kept_form
from limpet.text import one_line, text_of
from limpet.types import Cell, Outcome

logger = logging.getLogger("limpet.nat")
_STEP = "workflow"
_PACKAGES = ("nvidia-nat-eval", "nvidia-nat-core", "nvidia-nat")

ToStep = Callable[[Any], Any]
"""Makes an intermediate step of the toolkit of its plain data."""


def open_journal(run: Any) -> "EvalJournal":
    """Open the journal of an `EvaluationRun` that has its dataset, and restore the answers in it.

    Raises:
        JournalError: It cannot be opened, or another process writes to it.
    """
    items = run.eval_input.eval_input_items
    if run.config.skip_completed_entries and not run.config.endpoint:
        # The toolkit does not ask these: the dataset has their answers.
        items = [item for item in items if not _has_answer(item.output_obj)]
    to_step = import_module("nat.data_models.intermediate_step").IntermediateStep.model_validate
    return EvalJournal(_path_of(run.eval_config.general), _identity_of(run), items, to_step)


def _has_answer(output: Any) -> bool:
    is_nan = output != output  # noqa: PLR0124 - pandas' mark of an empty cell
    return bool(output) and not is_nan


def _path_of(general: Any) -> Path:
    directory = Path(os.path.abspath(general.output_dir))  # noqa: PTH100 - `..` without links
    if general.output and general.output.job_management.append_job_id_to_output_dir:
        directory = directory.parents[1]  # without jobs/<id>, which is new in each run
    return directory.with_name(f"{directory.name}.journal")


def _identity_of(run: Any) -> str:
    """Return the digest of what all answers of a run depend on."""
    config, general = run.config, run.eval_config.general
    blocks = counted_blocks(run.effective_config.model_dump(mode="json"), Path())
    called = (config.endpoint, config.result_json_path, general.per_input_user_id)
    return digest("nat eval", _versions(), blocks, called)


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


class EvalJournal:
    """The answers of one `nat eval`. Registered with the toolkit, it gets each of them.

    Args:
        path: Its directory.
        identity: The digest of what all answers depend on.
        items: The items to ask, as the toolkit's objects.
        to_step: Makes a step of its plain data.

    Attributes:
        path: Its directory.
        restored: The items whose answers were on disk. They have them now.

    Raises:
        JournalError: It cannot be opened, or another process writes to it.
    """

    def __init__(self, path: Path, identity: str, items: Sequence[Any], to_step: ToStep) -> None:
        self.path = path
        self._items = items  # kept, so that their ids stay theirs
        self._to_step = to_step
        self._keys = dict(_keys_of(identity, items))
        self._done: set[int] = set()
        self._writes: dict[int, asyncio.Future[Outcome]] = {}
        self._not_written = 0
        # It does not wait for space on a full disk: the evaluation must go on.
        self._journal = Journal(directory_at(path), patience_s=0)
        try:
            self._column = self._journal.column(_STEP)
            self.restored = self._restore()
        except BaseException:
            self._journal.close()
            raise

    def _restore(self) -> list[Any]:
        records = {
            key: (entry.record["output"], [self._to_step(step) for step in entry.record["steps"]])
            for key, entry in self._column.read_many(self._keys.values())
        }
        restored = [item for item in self._items if self._keys.get(id(item)) in records]
        for item in restored:
            item.output_obj, item.trajectory = records[self._keys[id(item)]]
            self._done.add(id(item))
        return restored

    def is_done(self, item: Any) -> bool:
        """Return whether an item has its answer."""
        return id(item) in self._done

    @property
    def is_complete(self) -> bool:
        """Whether all items have their answers."""
        return all(map(self.is_done, self._items))

    # ---- as answers come ------------------------------------------------------------------------

    def on_prediction(self, *, item: Any, output: Any) -> None:  # noqa: ARG002 - the toolkit's
        """Append an answer. Called by the toolkit as soon as an item has one."""
        if self.is_done(item):
            return
        self._done.add(id(item))
        try:
            self._append(item)
        except Exception as error:  # noqa: BLE001 - anything: the answer is the toolkit's
            self._warn(item, error)

    def _append(self, item: Any) -> None:
        key = self._keys.get(id(item))
        if key is None:
            raise NotPlainError("its input has no JSON form")
        record = record_of(item.output_obj, item.trajectory, self._to_step)
        cell = Cell(_STEP, str(item.id), 0, key)
        self._writes[id(item)] = self._column.append(Outcome(cell, record=record))

    async def a_on_usage_stats(self, *, item: Any, usage_stats_item: Any = None) -> None:  # noqa: ARG002
        """Return when an answer is on disk. The toolkit waits for it before the item is done."""
        write = self._writes.pop(id(item), None)
        if write is None:
            return
        try:
            await write
        except Exception as error:  # noqa: BLE001 - as above
            self._warn(item, error)

    async def record(self, item: Any) -> None:
        """Append an answer, and return when it is on disk."""
        self.on_prediction(item=item, output=item.output_obj)
        await self.a_on_usage_stats(item=item)

    def _warn(self, item: Any, error: Exception) -> None:
        self._not_written += 1
        if self._not_written == 1:
            name, why = one_line(str(item.id)), one_line(text_of(error))
            logger.warning("limpet: the answer of %s is not journaled: %s", name, why)

    # ---- at the end -----------------------------------------------------------------------------

    def finish(self, files: Iterable[Path]) -> None:
        """Delete the journal: `files` have everything now. The next `nat eval` starts anew."""
        for file in files:
            with file.open("rb") as written:
                sync_file(written.fileno())
        # Renamed under its lock, then deleted: another process may open a new one meanwhile.
        home = self._journal.layout.home
        finished = home.with_name(f"{home.name}.finished")
        shutil.rmtree(finished, ignore_errors=True)
        home.rename(finished)
        self.close()
        shutil.rmtree(finished, ignore_errors=True)

    def close(self) -> None:
        """Let other processes write. What is on disk stays there."""
        self._journal.close()

    @property
    def summary(self) -> str:
        """How many answers it has, in words."""
        lost = f"; {self._not_written} could not be written" if self._not_written else ""
        return f"{len(self._done) - self._not_written} of {len(self._items)} answers{lost}"


def record_of(output: Any, steps: Iterable[Any], to_step: ToStep) -> dict[str, Any]:
    """Return the record of an answer.

    Raises:
        NotPlainError: It would not be the same when it is read back.
    """
    kept = kept_form(output)
    if not _is_same(output, kept):
        raise NotPlainError("it contains a value that JSON cannot keep as it is")
    return {"output": kept, "steps": [_plain_step(step, to_step) for step in steps]}


def _plain_step(step: Any, to_step: ToStep) -> Any:
    """Return a step that reads back as it is, or else in a form that can be written.

    Messages of LangChain are objects in memory. Whoever scores a restored answer sees their JSON
    form, like whoever scores `workflow_output.json`.
    """
    dump = step.model_dump()
    first = None
    for plain in _plain_forms(step, dump):
        if _is_same(dump, to_step(plain).model_dump()):
            return plain
        first = first or plain
    return first


def _plain_forms(step: Any, dump: Any) -> Iterator[Any]:
    with suppress(ValueError):  # pydantic's own is four times faster, but has no bytes
        yield step.model_dump(mode="json")
    with suppress(NotPlainError):
        yield kept_form(dump)
    yield json.loads(json.dumps(dump, default=str, skipkeys=True))


def _is_same(value: Any, kept: Any) -> bool:
    """Return whether a value was kept. A subclass may become its base: LangChain has a str."""
    if not isinstance(value, type(kept)):
        return False
    if isinstance(kept, dict):
        return list(value) == list(kept) and all(_is_same(value[key], kept[key]) for key in kept)
    if isinstance(kept, list):
        return len(value) == len(kept) and all(map(_is_same, value, kept))
    is_nan = kept != kept  # noqa: PLR0124 - only that one is not itself
    return bool(value != value if is_nan else value == kept)  # noqa: PLR0124


def _keys_of(identity: str, items: Iterable[Any]) -> Iterable[tuple[int, str]]:
    """Yield the key of each item that can have one. A repetition has an id of its own."""
    occurrences = Occurrences()
    for item in items:
        try:
            seen = digest(with_types(item.id), with_types(item.input_obj))
        except NotPlainError:
            continue
        # Without a column of ids, all ids are empty, and inputs may be equal.
        yield id(item), digest(identity, seen, occurrences.number(seen))
