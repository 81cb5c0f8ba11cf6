"""Which answers of an interrupted `nat eval` are on disk?

Each answer is a record of a journal beside the output directory: `nat eval` deletes the directory
itself when it starts. An answer is valid for the command that requested it, and for the workflow as
it was then. A run that completes ends its answers: they are not read again. In the output
directory, `workflow_output.jsonl` mirrors the journal in the toolkit's format.

A journal never ends an evaluation: what cannot be written is logged.
"""

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from limpet.errors import JournalError
from limpet.fingerprints.keys import Occurrences, digest, with_types
from limpet.fingerprints.steps import CodeStep
from limpet.integrations.nat import run_directory
from limpet.integrations.nat.toolkit import functions_of
from limpet.integrations.nat.workflow import counted_blocks, without_judges
from limpet.journal.append_file import LiveFile
from limpet.journal.files import open_to_read, replace_file, sync_file
from limpet.journal.journal import Journal
from limpet.journal.layout import directory_at
from limpet.journal.lines import decode_line, is_whole
from limpet.journal.lock import Lock
from limpet.journal.recovery import move_column
from limpet.json_values import NotPlainError, kept_form
from limpet.run.reading.find_run import is_run
from limpet.shapes import Cell, Outcome
from limpet.text import count, one_line, text_of

logger = logging.getLogger("limpet.nat")
_STEP = "workflow"
_ROWS = "answers.jsonl"
_PACKAGES = ("nvidia-nat-eval", "nvidia-nat-core", "nvidia-nat")

ToStep = Callable[[Any], Any]
"""Builds an intermediate step of the toolkit from plain data."""


@contextmanager
def keeping_runs(run: Any) -> Iterator[None]:
    """Keep runs of Limpet, and journals, where the toolkit deletes its output directory."""
    output = run.eval_config.general.output
    path, kept = Path(output.dir), Path(f"{output.dir}.{os.getpid()}.kept")
    if not output.cleanup or not path.is_dir():
        yield
        return
    if is_run(path):
        aside = run_directory.set_aside(path, [Path.cwd()], is_run)
        logger.warning("limpet: %s held a run of Limpet: it is kept as %s", path, aside)
    try:
        run_directory.move_runs(path, kept)  # of other configurations
        yield
    finally:
        if kept.exists():
            try:
                run_directory.move_runs(kept, path)
                shutil.rmtree(kept)
            except OSError as error:  # `nat eval` continues, and they are on disk
                logger.warning("limpet: runs inside %s are kept in %s: %s", path, kept, error)


def open_journal(run: Any) -> "EvalJournal":
    """Open the journal of an `EvaluationRun` that has its dataset, and restore the answers in it.

    Raises:
        JournalError: It cannot be opened, or another process writes to it.
    """
    items = run.eval_input.eval_input_items
    if run.config.skip_completed_entries and not run.config.endpoint:
        # The toolkit does not ask these: the dataset has their answers.
        items = [item for item in items if not _has_answer(item.output_obj)]
    journal = EvalJournal(_path_of(run.eval_config.general), _identity_of(run), items, _to_step())
    found = f"{len(journal.restored)} of {len(items)} answers found"
    hint = "; delete it to start over" if journal.restored else ""
    logger.info("limpet: journaling to %s; %s%s", journal.path, found, hint)
    if journal.differs:
        logger.warning("limpet: %s", journal.differs)
    if run.config.write_output:
        try:
            journal.live = _live_file(
                run, filter(journal.has_answer, run.eval_input.eval_input_items)
            )
        except (OSError, JournalError) as error:
            logger.warning("limpet: no live file: %s", one_line(text_of(error)))
    return journal


def _to_step() -> ToStep:
    steps: Any = import_module("nat.data_models.intermediate_step")
    to_step: ToStep = steps.IntermediateStep.model_validate
    return to_step


def _has_answer(output: Any) -> bool:
    is_nan = output != output  # noqa: PLR0124 - pandas' mark of an empty cell
    return bool(output) and not is_nan


def _path_of(general: Any) -> Path:
    directory = Path(os.path.abspath(general.output_dir))  # noqa: PTH100 - `..` without links
    if general.output and general.output.job_management.append_job_id_to_output_dir:
        directory = directory.parents[1]  # without jobs/<id>, which is new in each run
    return directory.with_name(f"{directory.name}.journal")


# ---- which answers are valid --------------------------------------------------------------------


class AnswerIdentity(NamedTuple):
    """The command and the workflow that answers belong to.

    Attributes:
        command: The digest of the command without the address: its configuration and dataset.
        run: The same, with the address. The answers of a run end together.
        parts: What the answers depend on: a digest for each part, by name.
    """

    command: str
    run: str
    parts: Mapping[str, str]

    @property
    def facts(self) -> dict[str, Any]:
        """What is recorded with each answer."""
        return self._asdict()


class _WorkflowCode(CodeStep):
    def __init__(self, config: Any) -> None:
        self._config = config

    @property
    def code(self) -> Mapping[str, Any]:
        return {f"{name}: ": function for name, function in functions_of(self._config).items()}


def _identity_of(run: Any) -> AnswerIdentity:
    config, general = run.config, run.eval_config.general
    whole = run.effective_config.model_dump(mode="json")
    blocks = counted_blocks(without_judges(whole, whole), Path())
    parts = {name: digest(block) for name, block in blocks.items() if block}
    parts["the toolkit"] = digest(_versions())
    parts["per_input_user_id"] = digest(general.per_input_user_id)
    if config.endpoint:
        parts["the address"] = digest(config.endpoint)
    else:
        parts["the workflow's code"] = digest(dict(_WorkflowCode(run.effective_config).fingerprint))
    # Relative to the journal: a project may be moved.
    folder = _path_of(general).parent
    source = config.dataset or getattr(general.dataset, "file_path", None)
    files = [_relative(config.config_file, folder), _relative(source, folder)]
    files.append(digest(general.dataset.model_dump(mode="json", exclude={"file_path"})))
    said = [config.result_json_path, config.reps]
    # Those of `eval` change no answer; the dataset's are in its block.
    said += [list(one) for one in config.override if not str(one[0]).startswith("eval.")]
    command = digest(files, said)
    return AnswerIdentity(command, digest(command, config.endpoint), parts)


def _relative(source: Any, folder: Path) -> str:
    if isinstance(source, (str, Path)):
        return os.path.relpath(source, folder)
    return digest(None if source is None else source.model_dump(mode="json"))


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


# ---- the live file ------------------------------------------------------------------------------


def _live_file(run: Any, done: Iterable[Any]) -> LiveFile:
    """Return the live file of a run, which begins with the answered items.

    Raises:
        OSError: It cannot be written.
        JournalError: A process of Limpet writes there.
    """
    general = run.eval_config.general
    layout = directory_at(general.output_dir)
    if is_run(layout.home):  # its column may have that name
        lock = Lock(layout.lock)
        try:
            move_column(layout, _STEP)
        finally:
            lock.release()
    handlers = import_module("nat.plugins.eval.dataset_handler.dataset_handler")
    handler = handlers.DatasetHandler(general.dataset, run.config.reps, general.max_concurrency)
    models = import_module("nat.data_models.evaluator")
    steps = general.output.workflow_output_step_filter if general.output else None

    def line(item: Any) -> bytes:
        whole = models.EvalInput(eval_input_items=[item])
        [row] = json.loads(handler.publish_eval_input(whole, steps))
        try:
            return json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # half a surrogate pair
            return json.dumps(row).encode()

    return LiveFile(layout.live(_STEP), line, done)


# ---- the journal --------------------------------------------------------------------------------


class EvalJournal:
    """The answers of one `nat eval`. Registered with the toolkit, it gets each of them.

    Args:
        path: Its directory.
        identity: The command and the workflow.
        items: The items to ask, as the toolkit's objects.
        to_step: Builds a step from plain data.

    Attributes:
        path: Its directory.
        restored: The items whose answers were restored from disk.
        differs: Why other answers on disk are not used, in words; empty: there are none.
        live: Gets each item with its answer.

    Raises:
        JournalError: It cannot be opened, or another process writes to it.
    """

    def __init__(
        self, path: Path, identity: AnswerIdentity, items: Iterable[Any], to_step: ToStep
    ) -> None:
        self.path = path
        self.live: LiveFile | None = None
        self._identity = identity
        self._items = list(items)  # kept, so that their ids stay theirs
        self._to_step = to_step
        self._keys = dict(_keys_of(digest(identity.run, dict(identity.parts)), self._items))
        self._done: set[int] = set()
        self._writes: dict[int, asyncio.Future[Outcome]] = {}
        self._not_written = 0
        # It does not wait for space on a full disk: the evaluation must go on.
        self._journal = Journal(directory_at(path), patience_s=0)
        try:
            self._column = self._journal.column(_STEP)
            self.restored = self._restore()
            self.differs = self._difference()
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

    def _difference(self) -> str:
        others = set(self._column.every_key()) - set(self._keys.values())
        parts, number = self._identity.parts, 0
        changed: set[str] = set()
        for _, entry in self._column.read_many(others):
            if entry.facts.get("command") == self._identity.command:
                before = entry.facts.get("parts", {})
                names = {name for name in {*parts, *before} if parts.get(name) != before.get(name)}
                number += bool(names)
                changed |= names
        if not number:
            return ""
        verb = "is" if number == 1 else "are"
        what = ", ".join(sorted(changed))
        return f"{count(number, 'answer')} on disk {verb} not used: {what} changed afterwards"

    def is_done(self, item: Any) -> bool:
        """Return whether an item has its answer."""
        return id(item) in self._done

    def has_answer(self, item: Any) -> bool:
        """Return whether an item has an answer, from this run or its dataset."""
        return self.is_done(item) or _has_answer(item.output_obj)

    # ---- as answers come ------------------------------------------------------------------------

    def on_prediction(self, *, item: Any, output: Any) -> None:  # noqa: ARG002 - the toolkit's
        """Append an answer. The toolkit calls this as soon as an item has one."""
        if self.is_done(item):
            return
        self._done.add(id(item))
        try:
            self._writes[id(item)] = self._append(item)
        except Exception as error:  # noqa: BLE001 - anything: the answer is the toolkit's
            self._warn(item, error)

    def _append(self, item: Any) -> "asyncio.Future[Outcome]":
        key = self._keys.get(id(item))
        if key is None:
            raise NotPlainError("its input has no JSON form")
        record = record_of(item.output_obj, item.trajectory, self._to_step)
        cell = Cell(_STEP, str(item.id), 0, key)
        return self._column.append(Outcome(cell, record=record, facts=self._identity.facts))

    async def a_on_usage_stats(self, *, item: Any, usage_stats_item: Any = None) -> None:  # noqa: ARG002
        """Wait until an answer is on disk. The toolkit waits for it before the item is done."""
        write = self._writes.pop(id(item), None)
        if write is not None:
            try:
                await write
            except Exception as error:  # noqa: BLE001 - as above
                self._warn(item, error)
        if self.live is not None:
            self.live.add(item.model_copy())  # a copy: the user's functions may change the item

    async def record(self, item: Any) -> None:
        """Append an answer, and return when it is on disk."""
        self.on_prediction(item=item, output=item.output_obj)
        await self.a_on_usage_stats(item=item)

    def _warn(self, item: Any, error: Exception) -> None:
        self._not_written += 1
        if self._not_written == 1:
            name, why = one_line(str(item.id)), one_line(text_of(error))
            logger.warning("limpet: the answer to %s is not journaled: %s", name, why)

    # ---- at the end -----------------------------------------------------------------------------

    def end(self, output: Any) -> None:
        """End the answers of this run: they are not read again. Those of other runs stay.

        They are deleted if the toolkit's file has them; otherwise they are kept beside the journal.

        Args:
            output: The toolkit's result of the run.
        """
        self._journal.drain()
        home, column = self._journal.layout.home, self._column.path
        ended, others = self._divided(column)
        file = output.workflow_output_file
        if file is not None:
            with Path(file).open("rb") as written:
                sync_file(written.fileno())
        elif ended:
            aside = home.with_name(f"{home.name}.ended")
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            replace_file(aside / column.name, ended)
            told = "limpet: the toolkit did not write the answers: they are in %s"
            if self.live is not None:
                self.live.close()
                shutil.copyfile(self.live.path, aside / _ROWS)
                told += f"; import them: limpet import {aside / _ROWS} --into CONFIG"
            logger.info(told, aside)
        if others:
            shutil.rmtree(home / "index", ignore_errors=True)
            replace_file(column, others)
            return
        # Renamed under its lock, then deleted: another process may open a new one meanwhile.
        finished = home.with_name(f"{home.name}.finished")
        shutil.rmtree(finished, ignore_errors=True)
        home.rename(finished)
        self.close()
        shutil.rmtree(finished, ignore_errors=True)

    def _divided(self, column: Path) -> tuple[list[bytes], list[bytes]]:
        """Return the lines of this run, and all others."""
        ended: list[bytes] = []
        others: list[bytes] = []
        with open_to_read(column) as file:
            for line in file:
                run = decode_line(line).facts.get("run") if is_whole(line) else None
                (ended if run == self._identity.run else others).append(line)
        return ended, others

    def close(self) -> None:
        """Let other processes write. Nothing on disk changes."""
        if self.live is not None:
            self.live.close()
        self._journal.close()


def record_of(output: Any, steps: Iterable[Any], to_step: ToStep) -> dict[str, Any]:
    """Return the record of an answer.

    Raises:
        NotPlainError: It would change when read back.
    """
    kept = kept_form(output)
    if not _is_same(output, kept):
        raise NotPlainError("it contains a value that JSON cannot represent")
    return {"output": kept, "steps": [_plain_step(step, to_step) for step in steps]}


def _plain_step(step: Any, to_step: ToStep) -> Any:
    """Return a step that reads back unchanged, or else in a form that can be written.

    Messages of LangChain are objects in memory. An evaluator of a restored answer sees their JSON
    form, as it would in `workflow_output.json`.
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
    """Return whether a value reads back equal. A subclass may become its base, like a str."""
    if not isinstance(value, type(kept)):
        return False
    if isinstance(kept, dict):
        return list(value) == list(kept) and all(_is_same(value[key], kept[key]) for key in kept)
    if isinstance(kept, list):
        return len(value) == len(kept) and all(map(_is_same, value, kept))
    is_nan = kept != kept  # noqa: PLR0124 - only that one is not itself
    return bool(value != value if is_nan else value == kept)  # noqa: PLR0124


def _keys_of(identity: str, items: Iterable[Any]) -> Iterable[tuple[int, str]]:
    """Yield the key of each item that can have one. Each repetition has its own id."""
    occurrences = Occurrences()
    for item in items:
        try:
            seen = digest(with_types(item.id), with_types(item.input_obj))
        except NotPlainError:
            continue
        # Without a column of ids, all ids are empty, and inputs may be equal.
        yield id(item), digest(identity, seen, occurrences.number(seen))
