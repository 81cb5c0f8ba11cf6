"""Who keeps closest to a provider's limit: ours, or the peers' own controllers?

The models of `pacing.CASES` in virtual time, and five servers over real HTTP on loopback. Each cell
(a model and a peer) is a process of its own with a limit for its time, as a peer might never end.
Each finished cell is written to a file at once, and the next start skips it.

  make bench-pacing                                    all of it, in less than an hour
  python benchmarks/league.py --only P1,P2 --part virtual
  python benchmarks/league.py --table                  print the tables and draw what is there
"""

import argparse
import asyncio
import json
import random
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import league_peers as peers
import league_servers as servers
import pacing
import providers as p
from machine import describe, print_table

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import virtual_time

ROOT = Path(__file__).parents[1]
CELLS = ROOT / ".league" / "cells.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "league.svg"
SEEDS = 3
COUNT = 4_000
LONG_COUNT = 10_000
CPU_S = 150
"""The CPU time of a cell: a limit in wall time would depend on who else is working."""
PROCESSES = 2
HTTP_PROCESSES = 3
"""More than cores: they mostly wait."""
HTTP_NOISE = 0.02
"""Who is closer than this to the best of a row shares the first place."""
OURS = "limpet auto"
OURS_LONG = "limpet auto, 20,000 calls"
NO_END = "–"


@dataclass(frozen=True)
class Column:
    """A peer in the table: how it is run, and which package it is from."""

    run: peers.Peer
    package: str
    count: int | None = None
    virtual: bool = True
    over_http: bool = True


COLUMNS = {
    OURS: Column(peers.run_limpet, "limpet"),
    OURS_LONG: Column(peers.run_limpet, "limpet", count=20_000, over_http=False),
    "Inspect adaptive": Column(peers.run_inspect, "inspect-ai"),
    "MLflow auto": Column(peers.run_mlflow, "mlflow"),
    "Phoenix, 3": Column(peers.phoenix(3), "arize-phoenix-evals", over_http=False),
    "Phoenix, 20": Column(peers.phoenix(20), "arize-phoenix-evals"),
    "AWS adaptive, 32": Column(peers.aws(32, attempts=3), "botocore"),
    "openai SDK, 10": Column(peers.openai(10), "openai", virtual=False),
    "openai SDK, 32": Column(peers.openai(32), "openai"),
    "tenacity, 32": Column(peers.tenacity(32), "tenacity", over_http=False),
}
PROMPTFOO = servers.NPM / "promptfoo" / "package.json"
if PROMPTFOO.exists():
    COLUMNS["promptfoo, 32"] = Column(servers.promptfoo(32), "promptfoo", virtual=False)
# By prefix, the most telling first. These take 50 minutes on a busy machine; all 61 would take more
# than an hour.
ROWS = (
    "P1a bucket", "P1b", "P1c", "P1d", "P1e", "P1f", "P2 ", "P2b cap of 3", "P2b cap of 8", "P3a",
    "P4 ", "P4b", "P4c", "P4d", "P5 ", "P5b", "P6", "P7a", "P7b", "P8",
    "P9 5% by chance, calls of 2 s", "P9 5% by chance, calls of 200", "P9 20%",
    "P11a", "P11b", "P11c", "P10a", "P12a", "P1a, calls of 10", "P12d", "P10b", "P12o",
)  # fmt: skip
PACED: list[type[p.Provider]] = [*(case.model for case in pacing.CASES), p.Knee, p.Batching]
MODELS = {model.name: model for row in ROWS for model in PACED if model.name.startswith(row)}
# What they do begins after 200 s: 4,000 calls would be over.
LONG = (p.MovingRate, p.MovingCap, p.Outage, p.HangingOutage)


@dataclass(frozen=True)
class Cell:
    """What one peer reached on one model, in the worst of the seeds; None: it did not end."""

    model: str
    column: str
    version: str
    efficiency: float | None
    refused: float = 0.0
    lost: int = 0
    took_s: float = 0.0
    """How long the measurement took; over HTTP, how long the peer took."""

    def show(self, *, over_http: bool) -> str:
        if self.efficiency is None:
            return NO_END
        first = f"{self.took_s:.1f} s" if over_http else f"{self.efficiency:.1%}"
        return f"{first} / {self.refused:.1%}" + (f" ✗{self.lost}" if self.lost else "")


def version_of(column: str) -> str:
    """Return the version of the peer's package."""
    package = COLUMNS[column].package
    if package == "promptfoo":
        return str(json.loads(PROMPTFOO.read_text(encoding="utf-8"))["version"])
    return version(package)


def run_virtual(model: p.Provider, peer: peers.Peer) -> tuple[float, float, int]:
    """Run a peer on a model; return its efficiency, what was refused, and what was lost."""
    work = peers.Work(model.call, model.items, model.timeout_s, model.costs)

    async def main() -> peers.Outputs:
        return await asyncio.wait_for(peer(work), 40 * model.oracle() + 1_000)

    random.seed(model.seed)
    outputs = virtual_time.run(main())
    done = sum(output == index for index, output in enumerate(outputs))
    return (
        model.oracle() / max(model.done_at) * done / len(outputs) if done else 0.0,
        (model.seen["429"] + model.seen["timeout"]) / len(outputs),
        len(outputs) - done,
    )


def measure_virtual(name: str, column: str) -> Cell:
    started = time.monotonic()
    peer, model = COLUMNS[column], MODELS[name]
    count = peer.count or (LONG_COUNT if model in LONG else COUNT)
    results = [run_virtual(model(seed, count), peer.run) for seed in range(SEEDS)]
    efficiency, refused, lost = zip(*results, strict=True)
    took_s = time.monotonic() - started
    at = version_of(column)
    return Cell(name, column, at, min(efficiency), max(refused), max(lost), took_s)


def measure_http(name: str, column: str) -> Cell:
    peer = COLUMNS[column]
    took_s, refused, lost = servers.measure(name, peer.run)
    efficiency = servers.MODELS[name](0, servers.COUNT).oracle() / took_s
    return Cell(name, column, version_of(column), efficiency, refused, lost, took_s)


def measure_here(name: str, column: str) -> Cell:
    """Measure one cell in this process."""
    try:
        over_http = name in servers.MODELS
        return measure_http(name, column) if over_http else measure_virtual(name, column)
    except TimeoutError:
        return Cell(name, column, version_of(column), None)


def measure_apart(name: str, column: str) -> Cell:
    """Measure one cell in a process of its own, and write it to the file."""
    command = [sys.executable, __file__, "--cell", name, column]
    patience_s = servers.PATIENCE_S if name in servers.MODELS else 10 * CPU_S
    try:
        done = subprocess.run(  # noqa: S603 - this very script
            command, stdout=subprocess.PIPE, text=True, timeout=patience_s, check=True
        )
        cell = Cell(**json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        if getattr(error, "returncode", -signal.SIGXCPU) != -signal.SIGXCPU:
            raise
        cell = Cell(name, column, version_of(column), None)
    with CELLS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(cell)) + "\n")
    print(name, column, cell.show(over_http=name in servers.MODELS), file=sys.stderr, flush=True)
    return cell


def read_cells() -> dict[tuple[str, str], Cell]:
    """Return what is measured, without what another version of a peer did."""
    if not CELLS.exists():
        return {}
    cells = (Cell(**json.loads(line)) for line in CELLS.read_text(encoding="utf-8").splitlines())
    return {
        (cell.model, cell.column): cell
        for cell in cells
        if cell.column in COLUMNS and cell.version == version_of(cell.column)
    }


def columns_of(*, over_http: bool) -> list[str]:
    """Return the columns of one of the two tables."""
    return [
        name
        for name, column in COLUMNS.items()
        if (column.over_http if over_http else column.virtual)
    ]


def winners(row: dict[str, Cell], noise: float) -> list[str]:
    """Return those that reach the best of the row; who loses a call does not win."""
    # The long run is another job.
    reached = {
        column: round(cell.efficiency, 3)
        for column, cell in row.items()
        if cell.efficiency is not None and not cell.lost and column != OURS_LONG
    }
    least = max(reached.values(), default=0.0) * (1 - noise)
    return [column for column, efficiency in reached.items() if efficiency >= least]


def print_league(cells: dict[tuple[str, str], Cell], *, over_http: bool) -> None:
    """Print one of the two tables; the best of each row is bold."""
    models = servers.MODELS if over_http else MODELS
    columns = columns_of(over_http=over_http)
    rows, won = [], 0
    for name in models:
        row = {column: cells[name, column] for column in columns if (name, column) in cells}
        if not row:
            continue
        best = winners(row, HTTP_NOISE if over_http else 0.0)
        won += OURS in best
        shown = {
            column: f"**{cell.show(over_http=over_http)}**"
            if column in best
            else cell.show(over_http=over_http)
            for column, cell in row.items()
        }
        rows.append([name, *(shown.get(column, "") for column in columns)])
    print_table(["model", *columns], rows)
    print(f"\nOurs is best, alone or with others, in {won} of {len(rows)} rows.\n")


def draw(cells: dict[tuple[str, str], Cell]) -> None:
    """Draw what each peer reached on each model: a dot, hollow if it lost items."""
    import matplotlib as mpl  # noqa: PLC0415 - a cell does without it
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from pacing_pictures import BLUE, GREY, STYLE, VERMILION  # noqa: PLC0415

    mpl.rcParams.update(STYLE)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5), sharey=True, layout="constrained")
    columns = columns_of(over_http=False)[::-1]
    for height, column in enumerate(columns):
        own = [cell for (name, of), cell in cells.items() if of == column and name in MODELS]
        ended = [(cell.efficiency, cell.refused, cell.lost) for cell in own if cell.efficiency]
        if not ended:
            continue
        color = BLUE if column.startswith(OURS) else VERMILION
        # Spread by a fixed sequence, so that equal ones are seen and the picture stays the same.
        spread = [height + 0.5 * ((n * 0.618) % 1 - 0.5) for n in range(len(ended))]
        fills = ["none" if lost else color for _, _, lost in ended]
        for axes, values in (
            (left, [min(105.0, 100 * efficiency) for efficiency, _, _ in ended]),
            (right, [100 * refused for _, refused, _ in ended]),
        ):
            axes.scatter(values, spread, s=16, c=fills, edgecolors=color, linewidths=0.8)
            median = sorted(values)[len(values) // 2]
            axes.vlines(median, height - 0.35, height + 0.35, color=GREY, linewidth=2)
    left.set_yticks(range(len(columns)), columns)
    left.set_xlabel("efficiency, % of the shortest possible time (above: at the edge)")
    left.set_xlim(0, 108)
    right.set_xscale("symlog", linthresh=1)
    right.set_xlim(-0.05, 400)
    right.set_xlabel("refused and timed out, % of the calls")
    right.xaxis.set_major_formatter("{x:g}")
    figure.suptitle(
        "Each dot is a provider: hollow where calls were lost for good; the bar is the median"
    )
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def measure_all(part: str, prefixes: tuple[str, ...]) -> None:
    """Measure the cells that are not in the file yet."""
    CELLS.parent.mkdir(exist_ok=True)
    done = read_cells()
    for over_http, models, processes in (
        (False, MODELS, PROCESSES),
        (True, servers.MODELS, HTTP_PROCESSES),
    ):
        if part not in ("all", "http" if over_http else "virtual"):
            continue
        with ThreadPoolExecutor(processes) as pool:
            left = [
                pool.submit(measure_apart, name, column)
                for name in models
                for column in columns_of(over_http=over_http)
                if name.startswith(prefixes) and (name, column) not in done
            ]
            for one in left:
                one.result()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="rows, by prefix")
    parser.add_argument("--part", choices=["all", "virtual", "http"], default="all")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
        print(json.dumps(asdict(measure_here(*options.cell))))
        return
    if options.fresh:
        CELLS.unlink(missing_ok=True)
    if not options.table:
        measure_all(options.part, tuple(options.only.split(",")))
    cells = read_cells()
    versions = {COLUMNS[column].package: version_of(column) for column in COLUMNS}
    print("## The league\n\n" + describe("limpet") + ";")
    print(", ".join(f"{package} {at}" for package, at in versions.items()) + "\n")
    print(f"The worst of {SEEDS} seeds; {COUNT:,} calls, or {LONG_COUNT:,} in P5 and P7\n")
    print(f"Efficiency / refused and timed out per call; ✗: calls lost; {NO_END}: did not end\n")
    print_league(cells, over_http=False)
    print(f"Over HTTP, {servers.COUNT} calls: time / refused per call; ✗: calls lost\n")
    print_league(cells, over_http=True)
    draw(cells)


if __name__ == "__main__":
    main()
