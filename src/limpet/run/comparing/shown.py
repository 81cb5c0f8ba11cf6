"""Which of the scores that can be compared are shown?

A gate looks at its score whether or not it is shown.
"""

from copy import copy

from limpet.errors import LimpetError
from limpet.run.comparing.comparable import Comparable
from limpet.run.comparing.results import LeftOut
from limpet.run.results.score_names import ScoreName, no_such_score, split_name
from limpet.text import one_line


def shown(found: Comparable, name: str | None) -> Comparable:
    """Return what is shown: all, or one evaluator or score.

    Raises:
        LimpetError: There is no such score, or nothing is left to compare.
    """
    some = found if name is None else _only(found, _score_name(found, name))
    if some.scores or some.labels:
        return some
    left_out = [one for one in some.left_out if one.kind != "items"]
    told = "; ".join(dict.fromkeys(one.why for one in left_out))
    allow = [one.allow for one in left_out if one.allow is not None]
    hint = None
    if allow:
        hint = f'limpet compare --allow {allow[0]} compares it, in Python allow="{allow[0]}"'
    runs = f"{one_line(found.pairs.base.name)} and {one_line(found.pairs.new.name)}"
    raise LimpetError(f"{runs} cannot be compared: {told}", hint=hint)


def _only(found: Comparable, wanted: ScoreName) -> Comparable:
    def is_wanted(name: ScoreName) -> bool:
        return wanted in (name, ScoreName(name.evaluator))

    def is_about(one: LeftOut) -> bool:
        is_general = one.kind in ("items", "trials")
        return is_general or one.name in (wanted.evaluator, str(wanted))

    some = copy(found)
    some.scores = [one for one in found.scores if is_wanted(one.name)]
    some.labels = [one for one in found.labels if is_wanted(one.name)]
    some.left_out = [one for one in found.left_out if is_about(one)]
    return some


def _score_name(found: Comparable, name: str) -> ScoreName:
    tables = (found.pairs.base.table, found.pairs.new.table)
    evaluators = dict.fromkeys(one for table in tables for one in table.evaluators)
    wanted = split_name(name, evaluators)
    parts = [one for table in tables for one in (*table.scores, *table.labels)]
    if wanted is None or (wanted.part is not None and wanted not in parts):
        raise no_such_score(name, [*evaluators, *map(str, parts)])
    return wanted
