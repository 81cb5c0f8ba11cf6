"""What does a page say of two runs?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limpet.journal.layout import layout_at
from limpet.report.comparison_data import comparison_data
from limpet.run.calibrating.labelling import Labelling
from limpet.run.comparing.comparable import CompareOptions
from limpet.run.comparing.compare import compare_runs
from limpet.run.comparing.results import Comparison
from limpet.run.reading.reader import RunReader
from limpet.run.results.score_words import ScoreName, split_name
from limpet.text import count
from limpet.view.opened_runs import OpenedRuns
from limpet.view.shown_values import PART, Shown

MOST_FLIPS = 100


def compare_answer(runs: OpenedRuns, base: str, new: str) -> dict[str, Any]:
    """Return what `limpet compare --json` gives, with the input of each item that changed.

    Raises:
        LimpetError: They cannot be compared, or there is no such run.
    """
    paths = [runs.path(address) for address in (base, new)]
    hidden = _Hidden(runs, paths)
    options = CompareOptions(flips=MOST_FLIPS + len(hidden.ids))
    comparison = compare_runs(paths, options)
    with RunReader(paths[1]) as reader:
        return comparison_answer(comparison, base, new, reader, hidden=hidden)


def comparison_answer(
    comparison: Comparison,
    base: str,
    new: str,
    reader: RunReader,
    *,
    hidden: "_Hidden | None" = None,
    limit: int = PART,
) -> dict[str, Any]:
    """Return the same of two runs that have been compared.

    Args:
        comparison: What came out.
        base: The address of the base.
        new: The address of the new run.
        reader: Reads the new run.
        hidden: What must not be seen.
        limit: How many characters a text may have.
    """
    data = comparison_data(comparison)
    shown = Shown(limit)
    data["base"]["run"] = base
    for one in data["new"]:
        one["run"] = new
        if hidden is not None:
            hidden.take_out(one, reader.evaluators)
        inputs = _inputs(reader, {flip["id"] for flip in one["flips"]})
        for flip in one["flips"]:
            flip["input"] = shown(inputs.get(flip["id"]))
            for side in ("base", "new"):
                flip[side]["output"] = shown(flip[side]["output"])
    return data


class _Hidden:
    """Takes out of a comparison what people must not see before they label.

    What is left, and what is said, is the same whatever the scores are.

    Attributes:
        ids: The items that may have hidden scores, in either run.
    """

    def __init__(self, runs: OpenedRuns, paths: Sequence[Path]) -> None:
        labellings = [Labelling(layout_at(path), runs.labels.person) for path in paths]
        for one in labellings:
            one.refresh()
        self._of = [] if runs.labels.read_only else labellings
        self.ids = {id_ for one in self._of for id_ in one.drawn_ids}

    def take_out(self, data: dict[str, Any], evaluators: Sequence[str]) -> None:
        """Take out of what is said of a run each item with a hidden score."""
        names = {
            name: split_name(name, evaluators) or ScoreName(name)
            for name in (*data["scores"], *(flip["score"] for flip in data["flips"]))
        }
        left = dict.fromkeys(names, MOST_FLIPS)
        flips, data["flips"] = data["flips"], []
        for flip in flips:
            score = flip["score"]
            if left[score] and not self._is_hidden(flip["id"], names[score]):
                left[score] -= 1
                data["flips"].append(flip)
        hidden = {id_ for id_ in self.ids for name in names.values() if self._is_hidden(id_, name)}
        if hidden:
            data["left_out"].pop("scores", None)  # it names items by what their scores are
            words = count(len(hidden), "item was", "items were")
            data["notes"].append(f"{words} drawn for people to label: changes of these are hidden")

    def _is_hidden(self, id_: str, name: ScoreName) -> bool:
        return any(not one.is_shown(id_, name) for one in self._of)


def _inputs(reader: RunReader, wanted: set[str]) -> dict[str, Any]:
    file = reader.items_file
    if file is None or not wanted:
        return {}
    places = [place for place, id_ in enumerate(file.ids()) if id_ in wanted]
    return {item.id: item.input for item in map(file.item, places)}
