"""Does a record count, of which version is it, and is it done? One table, one function."""

from dataclasses import dataclass, field

import pytest

from limpet.run.planning.counting import EARLIER_FILES, Counting, earlier_version
from limpet.run.run_file import WORKFLOW, PendingRedo

KEY, SCORE = "0" * 32, "correct"
NONE = -1  # the generation of a record that is not there


def redo(generation, items=None, steps=(WORKFLOW,)):
    return PendingRedo(
        generation, frozenset(steps), None if items is None else frozenset(items), {}
    )


@dataclass
class Case:
    """A record, and what is said of it."""

    generation: int = 0
    step: str = WORKFLOW
    counting: Counting = field(default_factory=Counting)
    kept: str = ""  # the earlier version that the user keeps for the cell
    own: int = NONE  # the generation of the record that the current code made of it
    below: int = 0
    counts: bool = True
    is_done: bool = True
    is_redo: bool = False
    version: str = ""


def forced(generation, **more):
    return Counting([redo(generation, **more)])


CASES = {
    "current": Case(),
    "not there": Case(NONE, counts=False, is_done=False),
    "an earlier version is kept": Case(kept="A", version="A"),
    "an earlier version was kept, then the current code answered": Case(kept="A", own=0),
    "a file changed": Case(
        counting=Counting(outdated={WORKFLOW: {KEY: 1}}), is_done=False, version=EARLIER_FILES
    ),
    "a file changed, and it was made again": Case(
        1, counting=Counting(outdated={WORKFLOW: {KEY: 1}})
    ),
    "a file changed that another record read": Case(
        counting=Counting(outdated={WORKFLOW: {"1" * 32: 1}})
    ),
    "a file changed, and it is kept": Case(below=1, version=EARLIER_FILES),
    "a file changed, it was kept, then made again": Case(1, below=1),
    "a file of a score changed": Case(
        step=SCORE, counting=Counting(outdated={SCORE: {KEY: 1}}), counts=False, is_done=False,
        version=EARLIER_FILES,
    ),
    "a redo is pending": Case(counting=forced(3), is_done=False, is_redo=True),
    "a redo of another item is pending": Case(counting=forced(3, items=["q2"])),
    "a redo of this item is pending": Case(
        counting=forced(3, items=["q1"]), is_done=False, is_redo=True
    ),
    "a redo of the score is pending": Case(
        step=SCORE, counting=forced(3, steps=[SCORE]), is_done=False, is_redo=True
    ),
    "a redo is done": Case(3, counting=forced(3)),
    "a redo is pending, and there was no record": Case(
        NONE, counting=forced(3), counts=False, is_done=False, is_redo=True
    ),
    "a redo is pending for an earlier version that is kept": Case(
        kept="A", counting=forced(3), is_done=False, is_redo=True, version="A"
    ),
    "a redo is pending, and a file changed": Case(
        counting=Counting([redo(3)], outdated={WORKFLOW: {KEY: 1}}),
        is_done=False, is_redo=True, version=EARLIER_FILES,
    ),
    "the record of a redo was damaged": Case(
        counting=Counting(redone={WORKFLOW: {KEY: 3}}), is_done=False, is_redo=True
    ),
    "the record of a redo was damaged, and is made again": Case(
        3, counting=Counting(redone={WORKFLOW: {KEY: 3}})
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_a_record_is_worth(case):
    by = earlier_version(case.kept, case.own)

    verdict = case.counting.verdict(
        case.step, KEY, case.generation, "q1", earlier=by, below=case.below
    )

    said = (verdict.counts, verdict.is_done, verdict.is_redo, verdict.version)
    assert said == (case.counts, case.is_done, case.is_redo, case.version)


@pytest.mark.parametrize(
    ("failed_in", "stays"),
    [
        pytest.param(0, False, id="the redo is pending: it failed before that"),
        pytest.param(3, True, id="the redo failed"),
    ],
)
def test_a_cell_that_is_not_retried_stays_failed_only_in_the_generation_it_needs(failed_in, stays):
    counting = Counting([redo(3)], not_retried={(WORKFLOW, KEY): failed_in})

    needed = counting.verdict(WORKFLOW, KEY, 0, "q1").needed

    assert needed == 3
    assert counting.stays_failed(WORKFLOW, KEY, needed) is stays


def test_a_lost_record_whose_files_changed_needs_the_higher_generation():
    counting = Counting(redone={WORKFLOW: {KEY: 3}}, outdated={WORKFLOW: {KEY: 1}})

    assert counting.needed(WORKFLOW, "q1", KEY) == 3
