"""How close to a provider's limit does the peer run, beside `concurrency="auto"`?

The models of `providers` in virtual time: Phoenix's executor at three concurrencies, and ours. The
peer asks the module `time` for the time; it is given the virtual clock. Each run is a process of
its own, two at a time, and is ended after a minute: a run of the peer might never end.

  python benchmarks/pacing_peers.py
  python benchmarks/pacing_peers.py --models P2,P4 --count 4000
"""

import argparse
import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pacing
import providers as p
from machine import describe, print_table

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import virtual_time

AUTO = "auto"
COLUMNS = {
    "3": "Phoenix, concurrency 3",
    "20": "Phoenix, concurrency 20",
    "100": "Phoenix, concurrency 100",
    AUTO: 'limpet "auto"',
}
LEFT_OUT = (p.Slow, p.VerySlow, p.FewPerMinute)
MODELS = {case.model.__name__: case.model for case in pacing.CASES if case.model not in LEFT_OUT}
PROCESSES = 2
PATIENCE_S = 60.0
NO_END = "–"


def show(efficiency: float, refused: float, lost: int) -> str:
    return f"{efficiency:.1%} / {refused:.1%}" + (f" ✗{lost}" if lost else "")


def run_ours(model: p.Provider) -> str:
    result = pacing.run(model)
    return show(result.efficiency, result.refused, result.lost)


def run_peer(model: p.Provider, concurrency: int) -> str:
    """Run the model's items through Phoenix's executor."""
    # Not at the top: our own runs do without it.
    from phoenix.evals import executors as peer  # noqa: PLC0415
    from phoenix.evals.rate_limiters import RateLimitError  # noqa: PLC0415

    replaced: Any = peer
    replaced.time = SimpleNamespace(time=lambda: asyncio.get_running_loop().time())
    replaced.tqdm.write = lambda *_, **__: None

    async def call(item: p.Item) -> int:
        try:
            return await model.call(item)
        except p.HTTPStatusError as error:
            if error.response.status_code == 429:
                raise RateLimitError from error
            raise

    async def main() -> tuple[list[Any], list[Any]]:
        executor = peer.AsyncExecutor(
            call,
            concurrency,
            max_retries=10,
            exit_on_error=False,
            fallback_return_value=None,
            termination_signal=None,
            timeout=int(model.timeout_s),
        )
        return await asyncio.wait_for(executor.execute(model.items), 40 * model.oracle())

    outputs, _ = virtual_time.run(main())
    done = sum(output == index for index, output in enumerate(outputs))
    return show(
        efficiency=model.oracle() / max(model.done_at) * done / len(outputs) if done else 0.0,
        refused=(model.seen["429"] + model.seen["timeout"]) / len(outputs),
        lost=len(outputs) - done,
    )


def run_here(name: str, column: str, count: int) -> str:
    """Run one cell in this process."""
    model = MODELS[name](0, count)
    try:
        return run_ours(model) if column == AUTO else run_peer(model, int(column))
    except TimeoutError:
        print(f"{model.name}, {column}: not done in 40 × the oracle's time", file=sys.stderr)
        return NO_END


def run_apart(name: str, column: str, count: int) -> str:
    """Run one cell in a process of its own, for a minute at most."""
    command = [sys.executable, __file__, "--count", str(count), "--cell", name, column]
    try:
        done = subprocess.run(  # noqa: S603 - this very script
            command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=True
        )
    except subprocess.TimeoutExpired:
        print(f"{MODELS[name].name}, {column}: stopped after a minute", file=sys.stderr)
        return NO_END
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        name, column = options.cell
        print(run_here(name, column, options.count))
        return
    prefixes = tuple(options.models.split(","))
    names = [name for name, model in MODELS.items() if model.name.startswith(prefixes)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        cells = {
            (name, column): pool.submit(run_apart, name, column, options.count)
            for name in names
            for column in COLUMNS
        }
        rows = []
        for name in names:
            rows.append([MODELS[name].name, *(cells[name, column].result() for column in COLUMNS)])
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print("## Pacing, beside the peer\n")
    print(describe("limpet", "arize-phoenix-evals") + f"; {options.count:,} items, seed 0\n")
    print(
        "Efficiency / refused and timed-out requests per item; "
        f"✗: items lost; {NO_END}: did not end\n"
    )
    print_table(["model", *COLUMNS.values()], rows)


if __name__ == "__main__":
    main()
