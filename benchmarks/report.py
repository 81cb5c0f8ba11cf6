"""How long does it take to make a report, to open it from disk, to open an item and to scroll?

Making it is in CPU seconds, opening in seconds of the browser's own clock, each the least or the
median of several: others may use the machine.

    python benchmarks/report.py [ITEMS]
"""

import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import describe, print_table, verdict
from playwright.sync_api import Browser, sync_playwright

import limpet
from limpet.view.html_report import write_report

READY = """
    new MutationObserver((_, observer) => {
        if (!document.querySelector("main .card")) return;
        window.readyAt ??= performance.now();
        observer.disconnect();
    }).observe(document, { childList: true, subtree: true });
"""
OPEN = """async (id) => {
    const began = performance.now();
    location.hash = `#/item?id=${id}`;
    while (!document.querySelector("article.item h1")?.textContent.endsWith(` ${id}`)) {
        await new Promise(requestAnimationFrame);
    }
    return performance.now() - began;
}"""
SCROLL = """async (step) => {
    location.hash = "#/items";
    const later = (ms) => new Promise((done) => setTimeout(done, ms));
    while (!document.querySelector("tbody tr[data-name=row]")) await later(10);
    await later(1000);
    const long = [], frames = [];
    const observer = new PerformanceObserver((list) => long.push(...list.getEntries()));
    observer.observe({ type: "longtask" });
    const scroll = document.querySelector(".scroll");
    for (let before = performance.now(), at = 0; at < 180; at += 1) {
        scroll.scrollTop += step;
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - before);
        before = now;
    }
    await later(500);
    const longest = Math.max(0, ...long.map(({ duration }) => duration));
    return [longest / 1000, frames.sort((a, b) => a - b)[90] / 1000];
}"""


async def answer(item: limpet.Item) -> limpet.Output:
    number = int(item.id[1:])
    said = " ".join(f"word{(number * 31 + at * 17) % 4999}" for at in range(150))
    trace = [
        {
            "kind": "model",
            "name": "m",
            "id": "1",
            "started": 0.0,
            "ended": 1.0,
            "input": item.input,
        },
        {"kind": "tool", "name": "look_up", "id": "2", "parent": "1", "output": said[:300]},
    ]
    return limpet.Output(said, limpet.Usage(300, 150, cost=0.001), trace)


def length(output: str) -> limpet.Score:
    return limpet.Score(len(output) % 97 / 97, "long" if len(output) % 2 else "short", output[:100])


def make(run: Path, items: int) -> None:
    rows = [
        {"id": f"q{n}", "question": f"What is {n}? {'A sentence. ' * 20}", "answer": f"{n}"}
        for n in range(items)
    ]
    limpet.evaluate(
        rows, answer, {"length": length, "exact": limpet.exact_match()},
        run=limpet.Run(run, durability="flush"), version="1", pace=64, fail_fast=False, show=False,
    )  # fmt: skip


def ready_s(browser: Browser, file: Path) -> float:
    """Return when the first numbers were on the page, from the beginning of opening it."""
    context = browser.new_context(offline=True)
    context.add_init_script(READY)
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator("main .card").first.wait_for()
    seconds: float = page.evaluate("window.readyAt") / 1000
    context.close()
    return seconds


def item_s(browser: Browser, file: Path, ids: list[str]) -> float:
    """Return the median of how long items take that were not open before, far from one another."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator("main .card").first.wait_for()
    seconds: float = statistics.median(page.evaluate(OPEN, id_) for id_ in ids) / 1000
    context.close()
    return seconds


def scroll_s(browser: Browser, file: Path, step: int) -> tuple[float, float]:
    """Return the longest task while the items scroll, and the median time between two frames."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator("main .card").first.wait_for()
    longest, frame = page.evaluate(SCROLL, step)
    context.close()
    return longest, frame


def main() -> None:
    items = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    folder = Path(tempfile.mkdtemp(dir=".")).resolve()
    file = folder / "report.html"
    try:
        make(folder / "run", items)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.process_time()
        made = write_report(folder / "run", file)
        making = time.process_time() - began
        memory = max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
        options: dict[str, Any] = {"executable_path": shutil.which("chromium")}
        options["args"] = ["--no-sandbox"] if os.geteuid() == 0 else []
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(**options)
            ready = min(ready_s(browser, file) for _ in range(3))
            ids = [f"q{number}" for number in range(0, items, max(1, items // 20))]
            opened = item_s(browser, file, ids)
            # A wheel passes a few rows a frame, a dragged scrollbar hundreds.
            scrolled = [scroll_s(browser, file, step) for step in (60, 29 * items // 180)]
            browser.close()
    finally:
        shutil.rmtree(folder)
    print(f"\n{describe('limpet', 'playwright')}; {items:,} items\n")
    print(f"{made.bytes / 1e6:.1f} MB, {memory:,.0f} MB of memory more. {made.left_out}\n")
    figures = [
        ("the file is made, CPU", making, 10.0),
        ("it is ready in Chromium", ready, 1.5),
        ("an item opens", opened, 0.1),
        ("the longest task while the items scroll", max(one for one, _ in scrolled), 0.1),
        ("a frame while they scroll, median", max(one for _, one in scrolled), 0.017),
    ]
    table = [
        [name, f"{seconds:.3f} s", f"≤ {limit:g} s", verdict(seconds <= limit)]
        for name, seconds, limit in figures
    ]
    print_table(["report", "measured", "must reach", "reached"], table)
    sys.exit(any(line[-1] == "NO" for line in table))


if __name__ == "__main__":
    main()
