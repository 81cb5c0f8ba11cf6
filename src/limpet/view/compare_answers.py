"""What does a page say of two runs?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limpet.journal.layout import layout_at
from limpet.report.comparison_data import comparison_data
from limpet.run.calibrating.labelling import Labelling
from limpet.run.comparing.compare import compare_runs
from limpet.run.comparing.options import CompareOptions
from limpet.run.reading.reader import RunReader
from limpet.run.results.filters import ScoreName
from limpet.text import count
from limpet.view.opened_runs import OpenedRuns
from limpet.view.shown_values import Shown

_MOST_FLIPS = 100


def compare_answer(runs: OpenedRuns, base: str, new: str) -> dict[str, Any]:
    """Return what `limpet compare --json` gives, with the input of each item that changed.

    Raises:
        LimpetError: They cannot be compared, or there is no such run.
    """
    paths = [runs.path(address) for address in (base, new)]
    data = comparison_data(compare_runs(paths, CompareOptions(flips=_MOST_FLIPS)))
    shown, hides = Shown(), _Hidden(runs, paths)
    data["base"]["run"] = base
    for one in data["new"]:
        one["run"] = new
        hides.take_out(one)
        with RunReader(paths[1]) as reader:
            wanted = {flip["id"] for flip in one["flips"]}
            inputs = _inputs(reader, wanted)
        for flip in one["flips"]:
            flip["input"] = shown(inputs.get(flip["id"]))
            for side in ("base", "new"):
                flip[side]["output"] = shown(flip[side]["output"])
    return data


class _Hidden:
    """Takes out of a comparison what people must not see before they label."""

    def __init__(self, runs: OpenedRuns, paths: Sequence[Path]) -> None:
        self._of = [Labelling(layout_at(path), runs.labels.person) for path in paths]
        for one in self._of:
            one.refresh()
        if runs.labels.read_only:
            self._of = []

    def take_out(self, data: dict[str, Any]) -> None:
        """Take out each item with a hidden score, in either run, and say how many they are."""
        shown = [one for one in data["flips"] if not self._is_hidden(one["id"], one["score"])]
        if less := len(data["flips"]) - len(shown):
            words = count(less, "change is", "changes are")
            data["notes"].append(f"{words} not shown: the answers were drawn for people to label")
        data["flips"] = shown
        for kind in ("scores", "evaluators"):  # what it says of items is by their scores
            known = data["left_out"].get(kind, [])
            data["left_out"][kind] = [
                one for one in known
                if not any(self._is_hidden(id_, one["name"]) for id_ in one["ids"])
            ]  # fmt: skip
            if not data["left_out"][kind]:
                del data["left_out"][kind]

    def _is_hidden(self, id_: str, score: str) -> bool:
        evaluator, _, part = score.partition(".")
        names = [ScoreName(score), ScoreName(evaluator, part or None)]
        return any(not any(of.is_shown(id_, name) for name in names) for of in self._of)


def _inputs(reader: RunReader, wanted: set[str]) -> dict[str, Any]:
    file = reader.items_file
    if file is None or not wanted:
        return {}
    places = [place for place, id_ in enumerate(file.ids()) if id_ in wanted]
    return {item.id: item.input for item in map(file.item, places)}
