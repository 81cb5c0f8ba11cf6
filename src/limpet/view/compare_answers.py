"""What does a page show about two runs?"""

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
from limpet.view.shown_values import PART, Shortener
from limpet.view.viewed_runs import ViewedRuns

MOST_FLIPS = 100


def compare_answer(runs: ViewedRuns, base: str, new: str) -> dict[str, Any]:
    """Return the data of `limpet compare --json`, with the input of each item that changed.

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
    """Return the same for an existing comparison.

    Args:
        comparison: The comparison.
        base: The address of the base.
        new: The address of the new run.
        reader: Reads the new run.
        hidden: Removes what must not be seen.
        limit: The most characters of a text.
    """
    data = comparison_data(comparison)
    shown = Shortener(limit)
    data["base"]["run"] = base
    for one in data["new"]:
        one["run"] = new
        if hidden is not None:
            hidden.remove_from(one, reader.evaluators)
        inputs = _inputs(reader, {flip["id"] for flip in one["flips"]})
        for flip in one["flips"]:
            flip["input"] = shown(inputs.get(flip["id"]))
            for side in ("base", "new"):
                flip[side]["output"] = shown(flip[side]["output"])
    return data


class _Hidden:
    """Removes from a comparison what people must not see before they label.

    The rest does not depend on the hidden scores.

    Attributes:
        ids: The items that may have hidden scores, in either run.
    """

    def __init__(self, runs: ViewedRuns, paths: Sequence[Path]) -> None:
        labellings = [Labelling(layout_at(path), runs.labeller.person) for path in paths]
        for one in labellings:
            one.refresh()
        self._of = [] if runs.labeller.read_only else labellings
        self.ids = {id_ for one in self._of for id_ in one.drawn_ids}

    def remove_from(self, data: dict[str, Any], evaluators: Sequence[str]) -> None:
        """Remove each item with a hidden score from the data of a run."""
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
            data["left_out"].pop("scores", None)  # it names items by their scores
            words = count(len(hidden), "item was", "items were")
            data["notes"].append(f"{words} drawn for people to label: their changes are hidden")

    def _is_hidden(self, id_: str, name: ScoreName) -> bool:
        return any(not one.is_shown(id_, name) for one in self._of)


def _inputs(reader: RunReader, wanted: set[str]) -> dict[str, Any]:
    file = reader.items_file
    if file is None or not wanted:
        return {}
    positions = [position for position, id_ in enumerate(file.ids()) if id_ in wanted]
    return {item.id: item.input for item in map(file.item, positions)}
