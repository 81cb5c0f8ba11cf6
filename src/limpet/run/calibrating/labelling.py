"""Which answers should a person label, which are labelled, and which scores stay hidden?

Only labels given before the scores were seen correct a judge's mean. So the scores of an item stay
hidden from the time `limpet sample` draws it until it is labelled: those of all its trials, because
answers to one question are alike, and those of the other evaluators until they are labelled, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from limpet.journal.layout import Layout
from limpet.journal.lines import timestamp
from limpet.run.calibrating.judged import IdAndTrial
from limpet.run.calibrating.labels import LabelsLog, Said
from limpet.run.calibrating.sampling import Draw, Drawn, PeopleFile, stamp
from limpet.run.results.score_words import ScoreName


@dataclass(slots=True)
class _Opinion:
    """A person's last label of one answer for one score, and whether one was given unseen."""

    last: Said
    was_unseen: bool = False

    @property
    def has_label(self) -> bool:
        return self.last.label is not None


class Labelling:
    """The labels of one person in a run. One thread at a time uses it.

    Args:
        layout: Where the run's files are.
        person: Who; empty: unnamed.

    Attributes:
        queue: The drawn answers in the random order of the draw, the latest sample first.
    """

    def __init__(self, layout: Layout, person: str = "") -> None:
        self.person = person
        self._layout, self._log = layout, LabelsLog(layout)
        self._people_state: object = ()
        self._said: list[Said] | None = None
        self._drawn: dict[IdAndTrial, tuple[Drawn, str]] = {}
        self._trials: dict[str, list[int]] = {}
        self._kept: dict[str, set[IdAndTrial]] = {}
        self._mine: dict[IdAndTrial, dict[str, _Opinion]] = {}
        self._others: dict[IdAndTrial, dict[tuple[str, str], Said]] = {}
        self.queue: list[IdAndTrial] = []

    def refresh(self) -> bool:
        """Read what is new; return whether there was something.

        Raises:
            LimpetError: A file cannot be read, so it is not known what to hide.
        """
        changed = self._refresh_draws()
        self._log.refresh()
        if self._log.said is self._said and not changed:
            return False
        self._said = self._log.said
        self._mine, self._others = {}, {}
        for one in self._log.said:
            self._add(one)
        return True

    def _refresh_draws(self) -> bool:
        try:
            about = self._layout.people.stat()
            state: object = (about.st_ino, about.st_size, about.st_mtime_ns)
        except OSError:
            state = None
        if state == self._people_state:
            return False
        people = PeopleFile.load(self._layout)
        draws = people.draws
        self._drawn = {(c.id, c.trial): (c, draw.at) for draw in draws for c in draw.cells}
        cells = {cell for cell, _ in self._drawn.values()}
        self._trials = {}
        for id_, trial in self._drawn:
            self._trials.setdefault(id_, []).append(trial)
        self.queue = list(dict.fromkeys((c.id, c.trial) for d in _in_turn(draws) for c in d.cells))
        self._kept = {
            name: {
                (one.id, one.trial)
                for one in kept.labels
                if not one.seen and Drawn(one.id, one.trial, one.output) in cells
            }
            for name, kept in people.calibrations.items()
        }
        self._people_state = state
        return True

    def _add(self, one: Said) -> None:
        try:
            answer = (one.id, int(float(one.trial or 0)))
        except (TypeError, ValueError, OverflowError):
            return
        drawn, at = self._drawn.get(answer, (None, ""))
        if drawn is not None and one.drawn not in ("", stamp(drawn)) and one.at < at:
            return  # of another answer
        if one.person != self.person:
            self._others.setdefault(answer, {})[one.person, one.evaluator] = one
            return
        known = self._mine.setdefault(answer, {}).setdefault(one.evaluator, _Opinion(one))
        known.last = one
        known.was_unseen |= one.label is not None and not one.seen

    @property
    def mark(self) -> object:
        """A value that changes with the labels and the draws."""
        return self._people_state, self._log.state

    # ---- what is drawn and labelled -------------------------------------------------------------

    def drawn(self, answer: IdAndTrial) -> Drawn | None:
        """Return an answer as it was drawn; None: it was not."""
        return self._drawn.get(answer, (None, ""))[0]

    @property
    def drawn_ids(self) -> Mapping[str, list[int]]:
        """The items that were drawn, and which of their trials."""
        return self._trials

    @property
    def labelled(self) -> Iterable[IdAndTrial]:
        """The answers with a label or a note by this person."""
        return self._mine

    def is_labelled(self, answer: IdAndTrial, score: ScoreName | None) -> bool:
        """Return whether an answer has a label: if it was drawn, one given unseen."""
        return any(
            one.has_label and (one.was_unseen or answer not in self._drawn)
            for one in self._opinions(answer, score)
        )

    def is_in_file(self, answer: IdAndTrial, score: ScoreName | None) -> bool:
        """Return whether a drawn answer has only a label that `limpet calibrate` read from a file.

        It counts as done for those who do not say who they are, as files mostly do not. It shows
        nobody a score: the file may be another person's.
        """
        if self.person or answer in self._mine or answer in self._others:
            return False
        return score is not None and answer in self._kept.get(str(score), ())

    def is_shown(self, id_: str, score: ScoreName) -> bool:
        """Return whether a score of an item may be seen."""
        return all(self.is_labelled((id_, trial), score) for trial in self._trials.get(id_, ()))

    def label(self, answer: IdAndTrial, score: ScoreName | None) -> Said | None:
        """Return the person's last label of an answer; None: none."""
        said = [one.last for one in self._opinions(answer, score)]
        return max(said, key=lambda one: (one.label is not None, one.at), default=None)

    def others(self, answer: IdAndTrial) -> list[Said]:
        """Return the labels of other people for an answer."""
        return [one for one in self._others.get(answer, {}).values() if one.label is not None]

    def _opinions(self, answer: IdAndTrial, score: ScoreName | None) -> list[_Opinion]:
        known = self._mine.get(answer, {})
        names = dict.fromkeys([""] if score is None else ["", score.evaluator, str(score)])
        return [known[name] for name in names if name in known]

    # ---- a new label ----------------------------------------------------------------------------

    def add(
        self, cell: Drawn, score: ScoreName | None, label: Any, note: str, *, hides: bool
    ) -> None:
        """Keep a label, or retract it, and return when it is on disk.

        Args:
            cell: The answer that the person saw.
            score: Which score it is about; None: there is none.
            label: The label; None: none, or retract the one before.
            note: A note.
            hides: Whether scores are hidden at all.

        Raises:
            JournalError: It could not be kept.
        """
        answer = (cell.id, cell.trial)

        def line() -> Mapping[str, Any] | None:
            self.refresh()
            seen = self._was_seen(answer, score, hides=hides)
            if self._is_said(cell, score, label, note, seen=seen):
                return None
            return {
                "id": cell.id,
                "trial": cell.trial,
                "label": label,
                **({"evaluator": str(score)} if score is not None else {}),
                **({"person": self.person} if self.person else {}),
                **({"note": note} if note else {}),
                "drawn": stamp(cell),
                **({"seen": True} if seen else {}),
                "at": timestamp(),
            }

        self._log.add(line)
        self.refresh()

    def _is_said(
        self, cell: Drawn, score: ScoreName | None, label: Any, note: str, *, seen: bool
    ) -> bool:
        """Return whether a label is already kept: a page may send it twice."""
        before = self.label((cell.id, cell.trial), score)
        if before is None:
            return label is None and not note
        same = (before.label, before.note, before.drawn) == (label, note, stamp(cell))
        return same and seen >= before.seen

    def _was_seen(self, answer: IdAndTrial, score: ScoreName | None, *, hides: bool) -> bool:
        if not hides or answer[0] not in self._trials:
            return True
        if score is not None and self.is_shown(answer[0], score):
            return True
        return any(one.was_unseen for one in self._opinions(answer, score))


def _in_turn(draws: list[Draw]) -> list[Draw]:
    """Return draws in the order to label them: the latest sample first, each from its beginning."""
    by_population: dict[tuple[int, int], list[Draw]] = {}
    for draw in draws:
        by_population.setdefault(draw.population, []).append(draw)
    return [draw for several in reversed(by_population.values()) for draw in several]
