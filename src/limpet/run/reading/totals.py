"""What are the numbers of a run, without reading its items one by one?

Each column is read once, in the order of its file, and added up as it is read. Nothing in a summary
depends on the order, so this gives exactly what adding up the items gives, in a fifth of the time.
"""

from collections.abc import Mapping
from typing import Any

from limpet.journal.lines import decode_line
from limpet.run.executing.cells import MASKED, OUTPUT
from limpet.run.reading.asked_cells import AskedCell
from limpet.run.reading.column import FactsReader, facts_in
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.scores import ScoresReader, outputs_of, score_only
from limpet.run.results.summary import Numbers

_Answers = list[tuple[AskedCell, str, Any]]


def add_up(items: ItemsReader) -> Numbers:
    """Return the numbers of a run."""
    numbers = Numbers([evaluator.name for evaluator in items.evaluators])
    if not (items.asked.have_keys and all(by.has_keys for by in items.evaluators)):
        for item in items.read(items.asked.cells(), whole=False):
            numbers.add(item)
        return numbers
    answers = _add_answers(items, numbers)
    for evaluator in items.evaluators:
        _add_scores(items, numbers, evaluator, answers)
    return numbers


def _add_answers(items: ItemsReader, numbers: Numbers) -> _Answers:
    step, column = items.asked.step, items.asked.column
    left = {cell.counting: cell for cell in items.asked.cells()}
    numbers.items = len(items.asked)
    answers: _Answers = []
    for key, line in column.lines(left):
        cell = left.pop(key)
        facts: Mapping[str, Any] | None = facts_in(line)
        digests = None if facts is None else facts.get(OUTPUT)
        if facts is None or not digests:
            entry = decode_line(line)
            facts, digests = entry.facts, outputs_of(entry)
        answers.append((cell, "", digests))
        redo = _pending_redo(items, step, column, cell, key, cell.key) if items.redos else None
        numbers.add_answer(facts, cell.version, redo)
        if MASKED in facts:
            numbers.masked += bool(facts[MASKED])
    for cell in left.values() if items.failures.latest else ():
        failed = items.failures.latest.get((step, cell.key.hex()))
        if failed is not None:
            numbers.failed[failed.kind] += 1
            numbers.masked += bool(failed.facts.get(MASKED))
    return answers


def _add_scores(
    items: ItemsReader, numbers: Numbers, evaluator: ScoresReader, answers: _Answers
) -> None:
    name, column, scores = evaluator.name, evaluator.column, numbers.scores[evaluator.name]
    keys = evaluator.keys(answers)
    left = {key: cell for key, (cell, _, _) in zip(keys, answers, strict=True)}
    for key, line in column.lines(left):
        cell = left.pop(key)
        facts, record = score_only(line)
        redo = _pending_redo(items, name, column, cell, key, key) if items.redos else None
        scores.add(record, cell.version, redo)
        if facts:
            if "usage" in facts:
                scores.add_usage(facts)
            scores.note_masked(facts)
            numbers.masked += bool(facts.get(MASKED))
    for key in left if items.failures.latest else ():
        failed = items.failures.latest.get((name, key.hex()))
        if failed is not None:
            scores.failed[failed.kind] += 1
            scores.note_masked(failed.facts)
            numbers.masked += bool(failed.facts.get(MASKED))


def _pending_redo(
    items: ItemsReader, step: str, column: FactsReader, cell: AskedCell, key: bytes, present: bytes
) -> Mapping[str, Any]:
    id_ = ""
    if items.redos.noted and items.asked.file is not None and cell.place is not None:
        id_ = items.asked.file.item(cell.place).id
    return items.pending_redo(step, column, id_, key, present)
