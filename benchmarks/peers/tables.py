"""The rows that `run.py` measured, as tables and a picture, in docs/benchmarks.md.

Rows of a smaller size prove that it runs: they are printed, and the page stays as it is.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from peer_list import PEERS, ROOT, version_of

sys.path.append(str(ROOT / "benchmarks"))
from machine import describe

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "pictures" / "peers.svg"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
SIZES = {"weight": (0,), "cost": (500, 2_000), "kill": (500,), "edits": (100,), "limit": (2_000,)}
SETTINGS = {"default": "", "docs": ", as recommended", "cache": ", with its cache"}

Row = dict[str, Any]


def of_size(table: str, items: int | None) -> tuple[int, ...]:
    """Return how many items a table's rows have."""
    if not items or table == "weight":
        return SIZES[table]
    return (items,)


def kinds(rows: list[Row], table: str) -> Iterator[tuple[str, list[Row]]]:
    """Yield each peer and setting with its rows of a table, in the order of the peers."""
    for peer, about in PEERS.items():
        for setting, words in SETTINGS.items():
            own = [
                row for row in rows
                if (row["table"], row["peer"], row["setting"]) == (table, peer, setting)
            ]  # fmt: skip
            if own:
                yield about.label + words, own


def table_of(header: list[str], lines: list[list[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(
        "| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines]
    )


def cut_or(own: list[Row], shown: Callable[[list[Row]], list[str]], width: int) -> list[str]:
    """Return the cells of a line, or why there are none."""
    cuts = [row["cut"] for row in own if "cut" in row]
    return (
        [f"cut: {cuts[0]}", *[""] * (width - 1)] if cuts else shown([row["found"] for row in own])
    )


def cost(rows: list[Row], sizes: tuple[int, ...]) -> str:
    def per_item(row: Row) -> float:
        return float(row["found"]["cpu_s"]) * 1000 / int(row["items"])

    [ours] = [
        per_item(row)
        for row in rows
        if (row["table"], row["peer"], row["setting"]) == ("cost", "limpet", "default")
        and row["items"] == sizes[-1]
    ] or [float("nan")]
    lines = []
    for label, own in kinds(rows, "cost"):
        cells = [label]
        for size in sizes:
            row = next((row for row in own if row["items"] == size), None)
            if row is None or "cut" in row:
                cells += ["" if row is None else f"cut: {row['cut']}", "", ""]
                continue
            found = row["found"]
            lost = row["items"] - found["scored"]
            ratio = f" ({per_item(row) / ours:.2f} ×)" if size == sizes[-1] else ""
            cells.append(f"{per_item(row):.1f} ms{ratio}" + (f" ✗{lost}" if lost else ""))
            cells += [f"{found['peak_mb']:.0f} MB", f"{found['took_s']:.0f} s"]
        lines.append(cells)
    header = ["peer"]
    for size in sizes:
        header += [f"CPU per item, {size:,}", "peak memory", "time"]
    return table_of(header, lines)


def kill(rows: list[Row]) -> str:
    def shown(found: list[Row]) -> list[str]:
        names = ("finished", "kept", "again", "again_late", "scored")
        return [" ".join(str(one[name]) for one in found) for name in names]

    lines = [[label, *cut_or(own, shown, 5)] for label, own in kinds(rows, "kill")]
    header = ["peer", "finished before the kill", "kept", "asked again",
              "of these, replied over a second before", "scored at the end"]  # fmt: skip
    return table_of(header, lines)


NEEDED = {
    "nothing": (0, 0), "a row": (1, 1), "the judge's prompt": (0, None), "a helper": (None, 0),
    "a comment": (0, 0),
}  # fmt: skip
"""The calls of the bot and of the judge that an edit makes necessary; None: one for each item."""


def edits(rows: list[Row]) -> str:
    def shown(found: list[Row]) -> list[str]:
        [one], items = found, own[0]["items"]
        cells = []
        for case, needed in NEEDED.items():
            made = (one[case]["bot"], one[case]["judge"])
            least = [items if count is None else count for count in needed]
            stale = sum(max(0, n - m) for n, m in zip(least, made, strict=True))
            text = f"{made[0]} + {made[1]}"
            if one[case]["code"]:
                text += ": stops" if not any(made) else ": fails"
            elif stale:
                text += f", **{stale} stale**"
            cells.append(text)
        return cells

    lines = []
    for label, own in kinds(rows, "edits"):
        lines.append([label, *cut_or(own, shown, len(NEEDED))])
    return table_of(["peer", *NEEDED], lines)


def limit(rows: list[Row]) -> str:
    def shown(found: list[Row]) -> list[str]:
        [one] = found
        return [f"{one['took_s']:.0f} s", f"{one['calls']:,}", f"{one['refused']:,}",
                str(one["lost"]), str(one["below_1"])]  # fmt: skip

    lines = [[label, *cut_or(own, shown, 5)] for label, own in kinds(rows, "limit")]
    header = ["peer", "time", "answered", "refused", "without a score", "failures scored as 0"]
    return table_of(header, lines)


def weight(rows: list[Row]) -> str:
    def shown(found: list[Row]) -> list[str]:
        [one] = found
        times = [f"{one[name]:.2f} s" if name in one else "" for name in ("import_s", "help_s")]
        return [*times, f"{one['packages']}", f"{one['mb']:,.0f} MB"]

    lines = [[label, *cut_or(own, shown, 4)] for label, own in kinds(rows, "weight")]
    return table_of(["peer", "import, CPU", "`--help`, CPU", "packages", "installed"], lines)


def draw(rows: list[Row], items: int) -> None:
    """Draw the CPU time and the memory of each peer as dots."""
    import matplotlib as mpl  # noqa: PLC0415 - the tables do without it
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import LogLocator  # noqa: PLC0415
    from pacing_pictures import BLUE, STYLE, VERMILION  # noqa: PLC0415

    mpl.rcParams.update(STYLE)
    own = [
        (label, row["found"])
        for label, of in kinds(rows, "cost")
        for row in of
        if row["items"] == items and "found" in row
    ][::-1]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
    colors = [BLUE if label.startswith(PEERS["limpet"].label) else VERMILION for label, _ in own]
    heights = range(len(own))
    left.scatter([1000 * one["cpu_s"] / items for _, one in own], heights, c=colors)
    right.scatter([one["peak_mb"] for _, one in own], heights, c=colors)
    left.set_yticks(heights, [label for label, _ in own])
    left.set_xlabel("CPU time per item, ms")
    right.set_xlabel("peak memory, MB")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter("")
        axes.grid(axis="y", linewidth=0.4)
        axes.set_axisbelow(True)
    figure.suptitle(f"{items:,} items, one call and one exact match each: less is better")
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def page(rows: list[Row], items: int | None) -> str:
    """Return the tables, each under its title."""
    sizes = {table: of_size(table, items) for table in SIZES}
    versions = "; ".join(version_of(name) for name in PEERS)
    parts = [
        f"{describe('limpet')}; {versions}",
        "### What an item costs",
        "One model call and one exact match. The whole process, its start included.",
        cost(rows, sizes["cost"]),
        "" if items else "![CPU time and memory of each peer](pictures/peers.svg)",
        "### After a kill",
        f"`kill -9` after a random number of replies to {sizes['kill'][0]} items, five times.",
        kill(rows),
        "### The same command again",
        f"{sizes['edits'][0]} items; calls of the bot + calls of the judge.",
        edits(rows),
        "### A judge at a limit",
        f"{sizes['limit'][0]:,} items at a server that allows 20 calls a second.",
        limit(rows),
        "### What there is before the first item",
        weight(rows),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=Path)
    parser.add_argument("--items", type=int)
    options = parser.parse_args()
    sizes = {table: of_size(table, options.items) for table in SIZES}
    rows = [
        row
        for row in map(json.loads, options.rows.read_text().splitlines())
        if row["items"] in sizes[row["table"]] and row["of"] == version_of(row["peer"])
    ]
    tables = page(rows, options.items)
    print(tables)
    if options.items or not rows:
        return
    draw(rows, sizes["cost"][-1])
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
