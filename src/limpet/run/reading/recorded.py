"""Does `run.json` still describe the files of a run?

It does not if a file was damaged after the last session, if the last session was killed before it
was recorded, or while it ran. Then the results themselves are counted.
"""

from contextlib import suppress

from limpet.errors import JournalError
from limpet.journal.lines import size_and_crc
from limpet.run.planning.items_file import items_mark
from limpet.run.reading.facts_reader import FactsReader
from limpet.run.reading.run_files import RunFiles


def has_newer_items(run: RunFiles) -> bool:
    """Return whether a session replaced `items.jsonl` and was killed before it was recorded."""
    known = run.session.items_file
    if not known or run.is_running or items_mark(run.layout) in ([], known):
        return False
    return run.items_file is not None  # else it is damaged


Checked = dict[str, tuple[int, int]]
"""Of each column what was checked before: its size, and its checksum."""


def changed_columns(run: RunFiles, checked: Checked) -> list[str]:
    """Return the names of the columns that are not as recorded: they were cut or changed since.

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
    is_cut = began is not None and column.end < began.bytes_at
    return not (is_cut or column.state.bad_lines)


def may_lack_failures(run: RunFiles) -> bool:
    """Return whether scores failed in earlier sessions that the last one did not count.

    Whether they still count depends on the answers, which are not read here.
    """
    if run.run_file.complete is not None:
        return False
    for name in run.evaluators:
        noted, identity = run.session.steps.get(name), run.run_file.steps.get(name)
        if identity is None or (noted is not None and noted.have is not None):
            continue
        column = run.columns[name]
        for key, failed in run.failures.of(name):
            is_earlier = failed.offset < run.session.failures_at
            is_current = failed.facts.get("by") == identity.fingerprint
            if is_earlier and is_current and not column.reaches(key, failed.generation):
                return True
    return False
