"""What do lines of answers and scores add to the numbers of a run?"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from limpet.journal.lines import decode_line
from limpet.run.reading.facts_reader import facts_to_add
from limpet.run.reading.failures_reader import Failed
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.scores import ScoresReader, facts_and_record, outputs_of, plain_scores
from limpet.run.record_fields import MASKED, OUTPUT
from limpet.run.results.summary import Numbers


class AddedLines:
    """Adds up lines of a run whose answers and scores are found by their keys.

    Cells are identified by their number in the order of the dataset, trial by trial: a hundred
    thousand objects would take longer than all else.

    Args:
        items: Reads the items.

    Attributes:
        numbers: The numbers so far.
    """

    def __init__(self, items: ItemsReader) -> None:
        self._items = items
        self._asked = items.asked
        names = [evaluator.name for evaluator in items.evaluators]
        self.numbers = Numbers(names, items.asked.trials, items.scales)
        self.numbers.items = len(self._asked)
        file, places = self._asked.file, self._asked.places
        assert file is not None
        rows = (file.item(place).row for place in places)
        self.numbers.cell_items.add_all(len(places), rows)

    def _add_answers(
        self, cells: Sequence[int], lines: Sequence[bytes]
    ) -> Iterator[tuple[int, Sequence[str]]]:
        """Add answers; yield the numbers of their cells, and the digests of the answers."""
        found: list[Mapping[str, Any]] = [*facts_to_add(lines)]
        for at, (number, facts) in enumerate(zip(cells, found, strict=True)):
            if OUTPUT in facts:
                yield number, facts[OUTPUT]
            else:
                entry = decode_line(lines[at])
                found[at] = entry.facts
                yield number, outputs_of(entry) or ("", "")
        self.numbers.add_answers(found, cells)
        self.numbers.masked += sum(bool(facts[MASKED]) for facts in found if MASKED in facts)

    def _add_failed_answer(self, failed: Failed, number: int) -> None:
        self.numbers.failures.add(failed.facts, number)
        self.numbers.add_usage([failed.facts])
        self.numbers.masked += bool(failed.facts.get(MASKED))

    def _add_scores(
        self, evaluator: ScoresReader, cells: Sequence[int], lines: Sequence[bytes]
    ) -> None:
        """Add the scores of some cells."""
        scores = self.numbers.scores[evaluator.name]
        plain, others = plain_scores(cells, lines)
        for record, of_cells in plain:
            scores.add(record, of_cells)
        for number, line in others:
            facts, record = facts_and_record(line)
            scores.add(record, [number])
            if "usage" in facts:
                scores.add_usage(facts)
            scores.note_masked(facts)
            self.numbers.masked += bool(facts.get(MASKED))

    def _add_failed_score(self, name: str, failed: Failed, number: int) -> None:
        scores = self.numbers.scores[name]
        scores.failures.add(failed.facts, number)
        if "usage" in failed.facts:
            scores.add_usage(failed.facts)
        scores.note_masked(failed.facts)
        self.numbers.masked += bool(failed.facts.get(MASKED))
