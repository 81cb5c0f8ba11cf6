"""What came out of a run, for a person at a terminal?"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from limpet.report.tables import plain_table
from limpet.report.words import by_class, by_current, count, duration, mean
from limpet.text import one_line

_HEADS = ("done", "failed", "not run", "mean", "note")


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Return the steps of a run with what became of their cells, and the means."""
    rows = list(_rows(summary))
    # What is empty in every row is left out: narrow terminals need the room.
    told = [name for name in _HEADS if any(row[name] for _, row in rows)]
    table = plain_table("step", *told, numbers=[name for name in told if name != "note"])
    for step, row in rows:
        table.add_row(Text(step), *(row[name] for name in told))
    return table


def _rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    asked = summary["n"]
    yield "workflow", _counts(summary["workflow"], asked)
    for name, numbers in summary["evaluators"].items():
        yield one_line(name), {**_counts(numbers, asked), "mean": mean(numbers["mean"])}
        for part, value in numbers.get("means", {}).items():
            yield f"  {one_line(part)}", {**dict.fromkeys(_HEADS, ""), "mean": mean(value)}


def _counts(numbers: Mapping[str, Any], asked: int) -> dict[str, str]:
    failed, not_run = sum(numbers["failed"].values()), numbers["not_run"]
    return {
        "done": f"{numbers['completed']:,}/{asked:,}",
        "failed": f"{failed:,}" if failed else "",
        "not run": f"{not_run:,}" if not_run else "",
        "mean": "",
        "note": note_of(numbers),
    }


def note_of(numbers: Mapping[str, Any]) -> str:
    """Return what has to be said beside the numbers of a step; empty where there is nothing."""
    said = []
    if "by_current_version" in numbers:
        said.append(by_current(numbers["by_current_version"], numbers["completed"]))
    if left := sum(numbers.get("redo", {}).values()):
        said.append(f"{left:,} still to run again")
    return ", ".join(said)


def remarks(summary: Mapping[str, Any], seconds: float) -> list[str]:
    """Return what else there is to say of a run that has ended, a line each."""
    said = [f"took {duration(seconds)}"]
    steps = {"workflow": summary["workflow"], **summary["evaluators"]}
    used = [step.get("usage", {}) for step in steps.values()]
    if tokens := sum(usage.get("total_tokens", 0) for usage in used):
        said.append(count(tokens, "token"))
    if cost := sum(usage.get("cost", 0) for usage in used):
        said.append(f"cost {cost:,.4g}")
    lines = [" · ".join(said)]
    models = summary["workflow"].get("models", {})
    if len(models) > 1:
        each = (f"{one_line(name)} {one.get('total_tokens', 0):,}" for name, one in models.items())
        lines.append(f"tokens by model: {', '.join(each)}")
    if selection := summary.get("selection"):
        whole = count(selection["of"], "item")
        lines.append(f"{selection['items']:,} of {whole} (a selection of this session)")
    if bad := summary.get("bad_rows"):
        lines.append(f"{count(len(bad), 'row')} skipped: {one_line(bad[0])}")
    lines += masked_words(summary)
    for name, numbers in steps.items():
        if numbers["failed"]:
            lines.append(f"{one_line(name)} failed: {by_class(numbers['failed'])}")
        redo = {kind: n for kind, n in numbers.get("redo", {}).items() if kind != "pending"}
        if redo:
            stand = "the earlier results stand"
            lines.append(f"{one_line(name)} failed when run again: {by_class(redo)}; {stand}")
    return lines


def masked_words(summary: Mapping[str, Any]) -> list[str]:
    """Return what is to be said of secrets that were masked on disk, a line each."""
    said = []
    if masked := summary.get("masked"):
        said.append(f"secrets are masked in {count(masked, 'line')} on disk")
    for name, numbers in summary.get("evaluators", {}).items():
        if saw := numbers.get("saw_masked"):
            said.append(f"{one_line(name)} scored {count(saw, 'answer')} with secrets masked")
    return said
