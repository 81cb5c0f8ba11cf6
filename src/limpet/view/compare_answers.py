"""What does a page say of two runs?"""

from typing import Any

from limpet.report.comparison_data import comparison_data
from limpet.run.comparing.compare import compare_runs
from limpet.run.comparing.options import CompareOptions
from limpet.run.reading.reader import RunReader
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
    shown = Shown()
    data["base"]["run"] = base
    for one in data["new"]:
        one["run"] = new
        with RunReader(paths[1]) as reader:
            wanted = {flip["id"] for flip in one["flips"]}
            inputs = _inputs(reader, wanted)
        for flip in one["flips"]:
            flip["input"] = shown(inputs.get(flip["id"]))
            for side in ("base", "new"):
                flip[side]["output"] = shown(flip[side]["output"])
    return data


def _inputs(reader: RunReader, wanted: set[str]) -> dict[str, Any]:
    file = reader.items_file
    if file is None or not wanted:
        return {}
    places = [place for place, id_ in enumerate(file.ids()) if id_ in wanted]
    return {item.id: item.input for item in map(file.item, places)}
