"""The items of a run, without the scores that nobody should see yet.

Everything that a page shows about items goes through here: rows, their order, filters, searches,
failures and single items. A hidden score is treated as missing, so that nothing reveals it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from limpet.run.calibrating.judged import IdAndTrial
from limpet.run.calibrating.labelling import Labelling
from limpet.run.reading.items import WholeItem
from limpet.run.reading.reader import RunReader
from limpet.run.reading.run_table import RunTable
from limpet.run.reading.score_table import LabelTable, ScoreTable
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName, parts_of


class HidingTable(RunTable):
    """The items of a run, as one person may see them.

    Args:
        reader: Reads the run.
        labelling: The answers drawn for people, and this person's labels.
        hides: Whether anything is hidden.

    Attributes:
        labelling: The answers drawn for people, and this person's labels.
        hides: Whether anything is hidden.
    """

    def __init__(self, reader: RunReader, labelling: Labelling, *, hides: bool) -> None:
        super().__init__(reader)
        self.labelling, self.hides = labelling, hides
        self._masked: ScoreTable | None = None
        self._known_rows: tuple[object, object, dict[str, int]] = (None, None, {})

    def refresh(self) -> bool:
        """Read new results and labels; return whether there were any."""
        is_said = self.labelling.refresh()
        changed = super().refresh()
        if is_said and not changed:
            self.version += 1
        if is_said or changed:
            self._masked = None
        return is_said or changed

    # ---- all items ------------------------------------------------------------------------------

    @property
    def whole_table(self) -> ScoreTable:
        """The scores of each cell, also hidden ones: never for a page."""
        return super().table

    @property
    def table(self) -> ScoreTable:
        """The scores of each cell, without hidden ones."""
        if self._masked is None:
            table = super().table
            self._masked = self._without_hidden(table) if self.hides else table
        return self._masked

    def _without_hidden(self, table: ScoreTable) -> ScoreTable:
        drawn = self.labelling.drawn_ids
        rows = {id_: row for id_, row in self._rows.items() if id_ in drawn}
        if not rows:
            return table
        hidden = self.hidden_rows
        scores = {
            name: _with(values, hidden(name), np.nan) for name, values in table.scores.items()
        }
        labels = {
            name: LabelTable(of.names, _with(of.numbers, hidden(name), -1))
            for name, of in table.labels.items()
        }
        failed = {
            name: _with(flags, [row for id_, row in rows.items() if not self._shows(id_, name)], 0)
            for name, flags in table.failed_scores.items()
        }
        return replace(table, scores=scores, labels=labels, failed_scores=failed)

    def hidden_rows(self, name: ScoreName) -> list[int]:
        """Return the rows of the items of which a score is hidden."""
        if not self.hides:
            return []
        drawn, is_shown = self.labelling.drawn_ids, self.labelling.is_shown
        return [row for id_, row in self._rows.items() if id_ in drawn and not is_shown(id_, name)]

    @property
    def _rows(self) -> dict[str, int]:
        """The rows of the items that were drawn or labelled."""
        known, of = super().table.ids, self.labelling.mark
        if self._known_rows[0] is not known or self._known_rows[1] != of:
            wanted = {*self.labelling.drawn_ids, *(id_ for id_, _ in self.labelling.labelled)}
            rows = {id_: row for row, id_ in enumerate(known) if id_ in wanted} if wanted else {}
            self._known_rows = (known, of, rows)
        return self._known_rows[2]

    def positions_of(self, answers: Iterable[IdAndTrial]) -> list[int]:
        """Return the positions of answers that were drawn or labelled, in the same order."""
        trials, rows = super().table.trials, self._rows
        return [
            rows[id_] * trials + trial
            for id_, trial in answers
            if id_ in rows and 0 <= trial < trials
        ]

    def _shows(self, id_: str, evaluator: str) -> bool:
        """Return whether all scores of an evaluator for an item may be seen."""
        return all(self.labelling.is_shown(id_, name) for name in self.names_of(evaluator))

    def names_of(self, evaluator: str) -> list[ScoreName]:
        """Return the names of an evaluator's scores."""
        table = super().table
        names = dict.fromkeys((*table.scores, *table.labels))
        return [name for name in names if name.evaluator == evaluator] or [ScoreName(evaluator)]

    def hidden_scores(self, id_: str) -> list[ScoreName]:
        """Return the hidden scores of an item."""
        if not self.hides or id_ not in self.labelling.drawn_ids:
            return []
        names = [name for each in self.whole_table.evaluators for name in self.names_of(each)]
        return [name for name in names if not self.labelling.is_shown(id_, name)]

    def is_hidden(self, id_: str) -> bool:
        """Return whether some score of an item is hidden."""
        return bool(self.hidden_scores(id_))

    # ---- single items ---------------------------------------------------------------------------

    def read(self, positions: Iterable[int], *, whole: bool = True) -> Iterator[ItemRecord]:
        """Yield the results at some positions, without hidden scores."""
        return map(self._item, super().read(positions, whole=whole))

    def read_whole(self, id_: str) -> list[WholeItem]:
        """Return everything about one item in each trial, without hidden scores."""
        return [self._whole_item(whole) for whole in self.reader.item(id_)]

    def _item(self, item: ItemRecord) -> ItemRecord:
        if not self.is_hidden(item.id):
            return item
        scores = {name: self._parts(item.id, name, score) for name, score in item.scores.items()}

        def shows(name: str) -> bool:
            return name not in self.whole_table.evaluators or self._shows(item.id, name)

        return replace(
            item,
            scores={name: score for name, score in scores.items() if score},
            score_errors={name: of for name, of in item.score_errors.items() if shows(name)},
            score_usage={name: of for name, of in item.score_usage.items() if shows(name)},
            masked=tuple(filter(shows, item.masked)),
            saw_masked=tuple(filter(shows, item.saw_masked)),
            redo={name: of for name, of in item.redo.items() if shows(name)},
        )

    def _parts(self, id_: str, name: str, score: dict[str, Any]) -> dict[str, Any]:
        """Return the parts of a score that may be seen."""
        parts = parts_of(score)
        shown = [part for part, _ in parts if self.labelling.is_shown(id_, ScoreName(name, part))]
        if len(shown) == len(list(parts)):
            return score
        return {"scores": {part: score["scores"][part] for part in shown}} if shown else {}

    def _whole_item(self, whole: WholeItem) -> WholeItem:
        id_ = whole.item.id
        if not self.is_hidden(id_):
            return whole
        hidden = {name for name in self.whole_table.evaluators if not self._shows(id_, name)}
        return replace(
            whole,
            item=self._item(whole.item),
            scores={name: entry for name, entry in whole.scores.items() if name not in hidden},
            ballots={name: of for name, of in whole.ballots.items() if name not in hidden},
            failed_attempts=tuple(
                attempt for attempt in whole.failed_attempts if attempt.get("step") not in hidden
            ),
            earlier=tuple(
                replace(
                    earlier,
                    scores={name: of for name, of in earlier.scores.items() if name not in hidden},
                )
                for earlier in whole.earlier
            ),
        )


def _with(values: Any, rows: list[int], value: Any) -> Any:
    """Return a copy of an array with another value in some rows."""
    if not rows:
        return values
    changed = values.copy()
    changed[rows] = value
    return changed
