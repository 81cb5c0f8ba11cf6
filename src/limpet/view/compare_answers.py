"""What does a page show about two runs, or more?"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from limpet.errors import JournalError, LimpetError
from limpet.journal.layout import layout_at
from limpet.report.comparison_data import comparison_data
from limpet.run.calibrating.labelling import Labelling
from limpet.run.comparing.changes import Changes
from limpet.run.comparing.comparable import CompareOptions
from limpet.run.comparing.compare import compare_pairs
from limpet.run.comparing.opened_run import RunToCompare
from limpet.run.comparing.results import Comparison
from limpet.run.reading.find_run import VariantRun, is_matrix, variants_in
from limpet.run.results.score_words import ScoreName
from limpet.text import count
from limpet.view.change_answers import ChangedAnswers
from limpet.view.field_answers import fields_of
from limpet.view.viewed_runs import ViewedRun, ViewedRuns

MOST_RUNS = 12
"""More rows than this are not compared by eye, and each run is read whole."""
_COUNTS = ("better", "same", "worse")


class Compared:
    """Runs compared with a base, as one person may see them.

    Args:
        runs: All runs.
        base: The address of the base.
        new: The addresses of the others.
        by: The field by whose values the scores are compared, too; None: none.

    Attributes:
        data: The data of `limpet compare --json`, without examples of changes, and the fields.
        changes: The answers that changed; None: more than two runs are compared.

    Raises:
        LimpetError: They cannot be compared, or there is no such run.
    """

    def __init__(
        self, runs: ViewedRuns, base: str, new: Sequence[str], by: str | None = None
    ) -> None:
        if len(new) >= MOST_RUNS:
            many = count(len(new) + 1, "run")
            raise LimpetError(f"{many} are too many: at most {MOST_RUNS} are compared at once")
        paths = {address: runs.path(address) for address in (base, *new)}
        with ExitStack() as used:
            # One run may have been named twice, and a thread uses it once.
            opened = {
                path: used.enter_context(runs.use(address))
                for path, address in {path: address for address, path in paths.items()}.items()
            }
            read = {path: to_compare(one) for path, one in opened.items()}
            several = [read[paths[address]] for address in (base, *new)]
            comparison, found = compare_pairs(several, CompareOptions(flips=0, by=by))
            fields = fields_of(opened[paths[base]])
        self.data = {**comparison_answer(comparison, base, new), "fields": fields}
        hidden = _Hidden(runs, [*paths.values()])
        for one, data in zip(found, self.data["new"], strict=True):
            items = hidden.of(one.names)
            _say_hidden(data, items)
        self.changes = None
        if len(new) == 1:
            self.changes = ChangedAnswers(runs, base, new[0], Changes(found[0], items))


def to_compare(opened: ViewedRun) -> RunToCompare:
    """Return an open run as one to compare: its scores are read once."""
    opened.run_table.refresh()
    return RunToCompare(opened.reader, opened.run_table.whole_table)


def comparison_answer(comparison: Comparison, base: str, new: Sequence[str]) -> dict[str, Any]:
    """Return a comparison as data, with the addresses of the runs."""
    data = comparison_data(comparison)
    data["base"]["run"] = base
    for one, address in zip(data["new"], new, strict=True):
        one["run"] = address
        del one["flips"]
    return data


class _Hidden:
    """What people must not see of a comparison before they label."""

    def __init__(self, runs: ViewedRuns, paths: Sequence[Path]) -> None:
        labellings = [Labelling(layout_at(path), runs.labeller.person) for path in paths]
        for one in labellings:
            one.refresh()
        self._of = [] if runs.labeller.read_only else labellings
        self._ids = {id_ for one in self._of for id_ in one.drawn_ids}

    def of(self, names: Iterable[ScoreName]) -> dict[ScoreName, set[str]]:
        """Return the items with a hidden score, by its name."""
        found = {name: {id_ for id_ in self._ids if self._is_hidden(id_, name)} for name in names}
        return {name: ids for name, ids in found.items() if ids}

    def _is_hidden(self, id_: str, name: ScoreName) -> bool:
        return any(not one.is_shown(id_, name) for one in self._of)


def _say_hidden(data: dict[str, Any], hidden: Mapping[ScoreName, set[str]]) -> None:
    """Say in the data of a run that scores are hidden, and remove what would tell them."""
    if not hidden:
        return
    data["left_out"].pop("scores", None)  # it names items by their scores
    for score in data["scores"].values():  # a value may have a few answers only
        score.pop("slices", None)
    for name in hidden:  # beside the totals of the changes, these would tell how the rest changed
        data["scores"][str(name)] |= {
            one: None for one in _COUNTS if one in data["scores"][str(name)]
        }
    words = count(len(set().union(*hidden.values())), "item was", "items were")
    data["notes"].append(f"{words} drawn for people to label: their changes are hidden")


def matrices_answer(runs: ViewedRuns) -> dict[str, Any]:
    """Return the matrices with their variants that have a run, and what each varies."""
    addresses = {path: address for address, path in runs.paths().items()}
    found = []
    for folder in sorted({path.parent for path in addresses}):
        known: Sequence[VariantRun] = ()
        if is_matrix(folder):
            with suppress(JournalError):  # a damaged one hides no other
                known = variants_in(folder)
        variants = [
            {"run": addresses[one.path], "values": dict(one.values)}
            for one in known
            if one.path in addresses and one.values
        ]
        if len(variants) > 1:
            found.append({"name": folder.resolve().name, "variants": variants})
    return {"matrices": found}
