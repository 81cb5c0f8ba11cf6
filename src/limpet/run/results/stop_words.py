"""Did a run stop because it was enough, in words?"""

from collections.abc import Mapping
from typing import Any

from limpet.text import count, one_line


def stop_when_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return whether `stop_when` was reached, a line each; empty if there was none."""
    said = summary.get("stop_when")
    if not said:
        return []
    scores = said["scores"].items()
    widths = ", ".join(
        f"{one_line(name)} ± {score['half_width']:.3g}"
        for name, score in scores
        if score["half_width"] is not None
    )
    both = ", ".join(
        f"{one_line(name)} ± {score['half_width']:.3g} (wanted ± {score['goal']:g})"
        for name, score in scores
        if score["half_width"] is not None
    )
    all_items, lines = count(said["of"], "item"), []
    if said["reached"] and said["items"] < said["of"]:
        lines.append(f"stopped at {said['items']:,} of {all_items}: {both}")
    elif said["reached"]:
        lines.append(f"stop_when was reached only with all {all_items}: {both}")
    else:
        goals = ", ".join(f"{one_line(name)} ± {score['goal']:g}" for name, score in scores)
        so_far = f", only {widths}" if widths else ""
        lines.append(f"{all_items} did not reach {goals}{so_far}")
    lines += [f"stop_when: {score['problem']}" for _, score in scores if "problem" in score]
    unselected = said.get("unselected", 0)
    for number, why in (
        (unselected, "this session does not select"),
        (said.get("outside", 0) - unselected, "an earlier session did not take in this order"),
    ):
        if number:
            items = count(number, "item")
            lines.append(f"{items} with results that {why} {_be(number)} not among these")
    return lines


def _be(number: int) -> str:
    return "is" if number == 1 else "are"
