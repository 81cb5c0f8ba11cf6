"""What does pacing look like? Draws two providers for the documentation, beside AIMD.

The models of `providers` in virtual time, through the public AsyncExecutor: the same picture on
every machine.

  python benchmarks/pacing_pictures.py              into docs/explanation/
"""

import argparse
import math
import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import providers as p

from limpet import AsyncExecutor

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import virtual_time

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

HERE = Path(__file__).parents[1] / "docs" / "explanation"
# Okabe and Ito's palette: told apart by everybody.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#555555"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "limpet",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
    "figure.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
}
Steps = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Picture:
    """What is drawn of which model.

    Attributes:
        per_second: The provider's limit, from each moment on.
        in_flight: The same, of calls at once.
        tops: Where the axes end; what is higher is cut, and its height is written there.
    """

    file: str
    title: str
    model: type[p.Provider]
    count: int
    bin_s: float
    until_s: float
    per_second: Steps
    in_flight: Steps
    tops: tuple[float, float, float]


def per_second(cap: int) -> float:
    """Return what a cap lets through, as the model counts it."""
    return cap / (p.Provider.latency_s * p.MEAN_FACTOR + 2 * p.ONE_WAY_S)


PICTURES = [
    Picture(
        file="pacing-bucket.svg",
        title='A limit of 20 requests a second: "auto" keeps to it, AIMD falls and climbs back',
        model=p.TokenBucket,
        count=4000,
        bin_s=2.0,
        until_s=120.0,
        per_second=((0.0, 20.0),),
        in_flight=(),
        tops=(40, 30, 10),
    ),
    Picture(
        file="pacing-cap.svg",
        title='A cap of 32 calls at once, 16 for a while: "auto" follows it, AIMD saws below it',
        model=p.MovingCap,
        count=16_000,
        bin_s=5.0,
        until_s=math.inf,
        per_second=((0.0, per_second(32)), (250.0, per_second(16)), (600.0, per_second(32))),
        in_flight=((0.0, 32.0), (250.0, 16.0), (600.0, 32.0)),
        tops=(40, 35, 10),
    ),
]


def run(picture: Picture, concurrency: int | Literal["auto"]) -> p.Provider:
    """Run the model's items and return the model, which remembers."""
    model = picture.model(0, picture.count)

    async def main() -> None:
        executor: AsyncExecutor[p.Item, int] = AsyncExecutor(
            model.call,
            concurrency,
            timeout=model.timeout_s,
            exit_on_error=False,
            termination_signal=None,
        )
        await executor.execute(model.items)

    virtual_time.run(main())
    return model


def per_bin(times: Iterable[float], bin_s: float, until_s: float) -> list[int]:
    """Count the moments in each bin."""
    counts = [0] * math.ceil(until_s / bin_s)
    for moment in times:
        if moment < until_s:
            counts[int(moment / bin_s)] += 1
    return counts


def draw_limit(axes: Axes, steps: Steps, until_s: float) -> None:
    """Draw the provider's limit, if it has this one."""
    if not steps:
        return
    times = [moment for moment, _ in steps] + [until_s]
    values = [value for _, value in steps]
    axes.step(
        times,
        [*values, values[-1]],
        where="post",
        color=GREY,
        linestyle="--",
        linewidth=1,
        label="the provider's limit",
    )


def note_cut(axes: Axes, top: float, starts: list[float], heights: list[int]) -> None:
    """Write the greatest height at the top, where the axis cuts it."""
    height = max(heights, default=0)
    if height > top:
        axes.annotate(
            f"↑ {height}",
            (starts[heights.index(height)], top),
            xytext=(7, -1),
            textcoords="offset points",
            va="top",
            color=GREY,
        )


def draw_column(column: list[Axes], picture: Picture, model: p.Provider, until_s: float) -> None:
    """Draw one run: in flight, answered, refused."""
    sent = sorted(moment for moment, what, _ in model.story if what == "sent")
    refused = sorted(moment for moment, what, _ in model.story if what == "refused")
    failed = [moment for moment, what, _ in model.story if what == "failed"]
    ended = sorted([*refused, *failed, *model.done_at])
    end_s = min(until_s, max(model.done_at))
    bin_s = picture.bin_s

    grid = [index * bin_s / 5 for index in range(int(end_s / bin_s * 5) + 1)]
    in_flight = [bisect_right(sent, moment) - bisect_right(ended, moment) for moment in grid]
    column[0].plot(grid, in_flight, color=BLUE)
    draw_limit(column[0], picture.in_flight, until_s)
    note_cut(column[0], picture.tops[0], grid, in_flight)

    # The last bin is left out where it is not a whole one: it would look like a fall.
    answered = per_bin(model.done_at, bin_s, end_s)[: int(end_s / bin_s)]
    middles = [(index + 0.5) * bin_s for index in range(len(answered))]
    column[1].plot(middles, [number / bin_s for number in answered], color=BLUE)
    draw_limit(column[1], picture.per_second, until_s)

    heights = per_bin(refused, bin_s, until_s)
    bars = {index * bin_s: height for index, height in enumerate(heights) if height}
    starts, heights = list(bars), list(bars.values())
    column[2].bar(starts, heights, width=bin_s, align="edge", color=VERMILION, edgecolor=VERMILION)
    note_cut(column[2], picture.tops[2], starts, heights)
    if end_s < until_s:
        for axes in column:
            axes.axvline(end_s, color=GREY, linewidth=0.8, linestyle=":")
        column[0].annotate(
            "all done",
            (end_s, picture.tops[0] / 2),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=GREY,
        )
    column[2].set_xlabel("seconds")
    column[2].set_xlim(0, until_s)


def draw(picture: Picture) -> Figure:
    """Draw a picture: our pacing on the left, AIMD on the right."""
    runs = {'limpet "auto"': run(picture, "auto"), "AIMD, from 100": run(picture, 100)}
    until_s = min(picture.until_s, max(max(model.done_at) for model in runs.values()))
    figure, grid = plt.subplots(
        3, 2, figsize=(10, 6), sharex=True, sharey="row", layout="constrained"
    )
    for number, (name, model) in enumerate(runs.items()):
        column = [row[number] for row in grid]
        draw_column(column, picture, model, until_s)
        answered = bisect_right(sorted(model.done_at), until_s)
        refused = sum(what == "refused" and at <= until_s for at, what, _ in model.story)
        took_s = min(until_s, max(model.done_at))
        column[0].set_title(
            f"{name}: {answered:,} answered in {took_s:,.0f} s, {refused:,} refused"
        )
    labels = "calls in flight", "answered per second", f"refused per {picture.bin_s:.0f} s"
    for row, label, top in zip(grid, labels, picture.tops, strict=True):
        row[0].set_ylabel(label)
        row[0].set_ylim(0, top)
    grid[1, 0].legend(loc="lower right")
    figure.align_ylabels()
    figure.suptitle(picture.title)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--into", type=Path, default=HERE)
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    mpl.rcParams.update(STYLE)
    for picture in PICTURES:
        path = options.into / picture.file
        figure = draw(picture)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        print(path)


if __name__ == "__main__":
    main()
