"""The rows that `run.py` measured, as tables and a picture, in docs/benchmarks.md.

Rows of a smaller size prove that it runs: they are printed, and the page stays as it is.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peer_list import EDITS, PEERS, ROOT, SIZES, version_of

sys.path.append(str(ROOT / "benchmarks"))
from machine import describe

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "pictures" / "peers.svg"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
SETTINGS = {"default": "", "docs": ", as recommended", "cache": ", with its cache"}
NEEDED = {"a row": (1, 1), "the judge's prompt": (0, None), "a helper": (None, 0)}
"""The calls of the bot and of the judge that an edit makes necessary; None: one for each item."""
LIMIT = {
    "time": ("took_s", "{:.0f} s"), "answered": ("calls", "{:,}"), "refused": ("refused", "{:,}"),
    "without a score": ("lost", "{:,}"), "failures scored as 0": ("below_1", "{:,}"),
}  # fmt: skip
WEIGHT = {
    "import, CPU": ("import_s", "{:.2f} s"), "`--help`, CPU": ("help_s", "{:.2f} s"),
    "installed": ("mb", "{:,.0f} MB"),
}  # fmt: skip

Row = dict[str, Any]


def of_table(rows: list[Row], table: str, items: int | None = None) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a table with their labels, in the order of the peers."""
    for peer, about in PEERS.items():
        for setting, words in SETTINGS.items():
            for row in rows:
                same = (row["table"], row["peer"], row["setting"]) == (table, peer, setting)
                if same and items in {None, row["items"]}:
                    yield about.label + words, row


def table_of(header: list[str], lines: list[list[str]]) -> str:
    """Return a Markdown table; what a line lacks at its end is empty."""
    wide = [line + [""] * (len(header) - len(line)) for line in lines]
    every = [header, ["---"] * len(header), *wide]
    return "\n".join("| " + " | ".join(line) + " |" for line in every)


def cost(rows: list[Row], sizes: tuple[int, ...]) -> str:
    ours = [row for label, row in of_table(rows, "cost", sizes[-1]) if label == "Limpet"]
    unit = ours[0]["found"][0]["cpu_s"] if ours and ours[0]["found"] else float("nan")
    lines: dict[str, list[str]] = {}
    for size in sizes:
        for label, row in of_table(rows, "cost", size):
            cells = [f"cut: {row.get('cut')}", "", ""]
            for one in row["found"]:
                lost = f" ✗{size - one['scored']}" if one["scored"] < size else ""
                ratio = f" ({one['cpu_s'] / unit:.2f} ×)" if size == sizes[-1] else ""
                cells = [f"{one['cpu_s'] * 1000 / size:.1f} ms{ratio}{lost}",
                         f"{one['peak_mb']:.0f} MB", f"{one['took_s']:.0f} s"]  # fmt: skip
            lines.setdefault(label, [label]).extend(cells)
    header = ["peer"]
    for size in sizes:
        header += [f"CPU per item, {size:,}", "memory", "time"]
    return table_of(header, list(lines.values()))


def kill(rows: list[Row]) -> str:
    lines = []
    for label, row in of_table(rows, "kill"):
        found = row["found"]
        names = ("finished", "kept", "scored")
        cells = [" ".join(str(one[name]) for one in found) for name in names]
        finished = sum(one["finished"] for one in found)
        share = f"{sum(one['kept'] for one in found) / finished:.1%}" if finished else ""
        cut = f", cut after {len(found)}: {row['cut']}" if "cut" in row else ""
        lines.append([label + cut, share, *cells])
    header = ["peer", "kept", "finished before each kill", "of these kept", "scored at the end"]
    return table_of(header, lines)


def edits(rows: list[Row]) -> str:
    lines = []
    for label, row in of_table(rows, "edits"):
        cells = [label]
        for one in row["found"]:
            made = (one["bot"], one["judge"])
            needed = NEEDED.get(one["case"], (0, 0))
            least = [row["items"] if count is None else count for count in needed]
            stale = sum(max(0, n - m) for n, m in zip(least, made, strict=True))
            text = f"{made[0]} + {made[1]}"
            if one["code"] and not one["scored"]:
                text += ": stops" if not any(made) else ": fails"
            elif stale:
                text += f", **{stale} stale**"
            cells.append(text)
        cells += [f"cut: {row['cut']}"] if "cut" in row else []
        lines.append(cells)
    return table_of(["peer", *EDITS], lines)


def plain(rows: list[Row], table: str, columns: dict[str, tuple[str, str]]) -> str:
    """Return a table with one figure in each column."""
    lines = []
    for label, row in of_table(rows, table):
        cells = [f"cut: {row.get('cut')}"]
        for one in row["found"]:
            cells = [form.format(one[name]) if name in one else ""
                     for name, form in columns.values()]  # fmt: skip
        lines.append([label, *cells])
    return table_of(["peer", *columns], lines)


def better(rows: list[Row], sizes: dict[str, tuple[int, ...]]) -> str:
    """Return which peers have a lower figure than Limpet with its defaults."""
    figures = {
        "CPU per item": ("cost", "cpu_s"), "memory": ("cost", "peak_mb"),
        "time": ("cost", "took_s"), "finished answers asked again": ("kill", "again"),
        "time at the limit": ("limit", "took_s"), "calls refused there": ("limit", "refused"),
        "import": ("weight", "import_s"), "`--help`": ("weight", "help_s"),
        "installed size": ("weight", "mb"),
    }  # fmt: skip
    lines = []
    every = [(words, *of, size) for words, of in figures.items() for size in sizes[of[0]]]
    for words, table, name, size in every:
        values = {
            label: sum(one[name] for one in row["found"]) / len(row["found"])
            for label, row in of_table(rows, table, size)
            if "cut" not in row and row["found"] and name in row["found"][0]
            and not any(one.get("lost") or one.get("below_1") for one in row["found"])
        }  # fmt: skip
        ours = values.get("Limpet", 0)
        who = [label for label in values if values[label] < ours and "Limpet" not in label]
        of = f", {size:,} items" if len(sizes[table]) > 1 else ""
        lines.append(f"- {words}{of}: {'; '.join(who) or 'nobody'}")
    return "\n".join(lines)


def draw(rows: list[Row], items: int) -> None:
    """Draw the CPU time and the memory of each peer as dots."""
    import matplotlib as mpl  # noqa: PLC0415 - the tables do without it
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import LogLocator  # noqa: PLC0415
    from pacing_pictures import BLUE, STYLE, VERMILION  # noqa: PLC0415

    mpl.rcParams.update(STYLE)
    dots = [(label, one) for label, row in of_table(rows, "cost", items) for one in row["found"]]
    colors = [BLUE if label.startswith("Limpet") else VERMILION for label, _ in dots]
    heights = range(len(dots), 0, -1)
    figure, sides = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
    for axes, name, scale in zip(sides, ("cpu_s", "peak_mb"), (1000 / items, 1), strict=True):
        axes.scatter([one[name] * scale for _, one in dots], heights, c=colors)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter("")
        axes.grid(axis="y", linewidth=0.4)
        axes.set_axisbelow(True)
    sides[0].set_xlabel("CPU time per item, ms")
    sides[1].set_xlabel("memory, MB")
    sides[0].set_yticks(heights, [label.replace("`", "") for label, _ in dots])
    figure.suptitle(f"{items:,} items, one call and one exact match each: less is better")
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def page(rows: list[Row], sizes: dict[str, tuple[int, ...]], picture: str) -> str:
    """Return the tables, each under its title."""
    versions = "; ".join(f"`{version_of(name)}`" for name in PEERS)  # [extra] is no link
    minutes = sum(row["took_s"] for row in rows) / 60
    parts = [
        f"{describe('limpet')}; {versions}. The rows took {minutes:.0f} minutes, several at once.",
        "### What an item costs",
        "One model call and one exact match. The whole process, its start included.",
        cost(rows, sizes["cost"]),
        picture,
        "### After a kill",
        f"`kill -9` after a random number of replies to {sizes['kill'][0]} items, five times.",
        kill(rows),
        "### The same command again",
        f"{sizes['edits'][0]} items; calls of the bot + calls of the judge.",
        edits(rows),
        "### A judge at a limit",
        f"{sizes['limit'][0]:,} items at a server that allows 20 calls a second.",
        plain(rows, "limit", LIMIT),
        "### What there is before the first item",
        plain(rows, "weight", WEIGHT),
        "### Who is better than Limpet",
        "Lower than Limpet with its defaults, of those who were not cut and lost nothing:",
        better(rows, sizes),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=Path)
    parser.add_argument("--items", type=int)
    small = parser.parse_args().items
    sizes = {table: (small,) if small and size[0] else size for table, size in SIZES.items()}
    every = map(json.loads, parser.parse_args().rows.read_text().splitlines())
    rows = [
        row
        for row in every
        if row["items"] in sizes[row["table"]] and row["of"] == version_of(row["peer"])
    ]
    if not small and rows:
        draw(rows, sizes["cost"][-1])
        tables = page(rows, sizes, "![CPU time and memory of each peer](pictures/peers.svg)")
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}", encoding="utf-8")
    else:
        print(page(rows, sizes, ""))


if __name__ == "__main__":
    main()
