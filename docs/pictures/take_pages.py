"""Take pictures of the pages of `limpet view` and of a report: light, dark, and dark and narrow.

Run it from the project's directory: `.venv/bin/python docs/pictures/take_pages.py [FOLDER]`.
"""

import asyncio
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from demo_runs import make
from playwright.async_api import async_playwright, expect

import limpet
from limpet.view.html_report import write_report
from limpet.view.server import serving

ROOT = Path(__file__).parent
expect.set_options(timeout=30_000)  # on a busy machine, a page may wait for its turn
WIDE, LOW, NARROW = (
    {"width": width, "height": height} for width, height in ((1120, 720), (1120, 560), (360, 740))
)
VIEWS = {
    "runs": "#/runs",
    "run": "#/run?run=support-bot-v1",
    "items": "#/items?run=support-bot-v1&sort=helpful",
    "item": "#/items?run=support-bot-v1&sort=helpful",
    "compare": "#/compare?base=support-bot-v1&new=support-bot-v2",
    "label": "#/run?run=support-bot-v4",
}
KEPT = ("live-light", "live-dark", "live-narrow", "runs-light", "items-light", "item-light",
        "compare-light", "label-light", "report-light")  # fmt: skip
"""The pictures in the documents."""
_MOST_BYTES = 150_000


async def take(runs: Path, folder: Path, kept: tuple[str, ...]) -> None:
    """Take all pictures; of those in `kept`, small ones, for the documents."""
    report = runs.parent / "report.html"
    write_report(runs / "support-bot-v2", report, runs / "support-bot-v1")
    async with serving(runs) as server, async_playwright() as playwright:
        options: Any = {"executable_path": "/usr/bin/chromium", "args": ["--no-sandbox"]}
        browser = await playwright.chromium.launch(**options)
        for look, size in (("light", WIDE), ("dark", WIDE), ("narrow", NARROW)):
            scheme: Any = {"color_scheme": "light" if look == "light" else "dark"}
            context = await browser.new_context(viewport=size, **scheme)
            page = await context.new_page()
            page.on("console", lambda message: print("console:", message.text))
            page.on("pageerror", lambda error: print("error:", error))
            await page.goto(server.address)
            others = {"live": "#/run?run=support-bot-v3", "report": "#/compare"}
            for name, view in {**VIEWS, **others}.items():
                if kept and f"{name}-{look}" not in kept:
                    continue
                place = report.as_uri() if name == "report" else f"http://127.0.0.1:{server.port}/"
                # Of items that are full of texts, a lower picture is small enough.
                await page.set_viewport_size(LOW if kept and name == "items" else size)
                await page.goto(place + view)
                await page.locator("main table, main pre").first.wait_for()
                if name == "item":  # the worst answer, not any trial of its item
                    await page.locator("tbody tr[data-name=row]").first.click()
                    await page.get_by_role("button", name="compare with expected").click()
                    await page.locator(".trace summary").nth(1).click()
                if name == "label":
                    await label(page)
                await asyncio.sleep(1.2)
                picture = folder / f"{name}-{look}.png"
                await page.screenshot(path=picture, full_page=not kept)
                if kept and picture.stat().st_size > _MOST_BYTES:
                    raise SystemExit(f"{picture.name}: larger than {_MOST_BYTES:,} bytes")
            await context.close()
        await browser.close()


async def label(page: Any) -> None:
    """Label some of the drawn answers, and begin with the next."""
    await page.get_by_role("link", name="Label: ").click()
    for key in ("1", "1", "2"):
        before = await page.locator("h1").inner_text()
        await page.keyboard.press(key)
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).not_to_have_text(before)
    await page.keyboard.press("2")
    await page.get_by_label("Note").fill("right, but it does not say what to do next")
    await page.keyboard.press("Escape")


def main() -> None:
    """Make the runs and take the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    kept = () if len(sys.argv) > 1 else KEPT
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "runs"
        make(runs / "support-bot-v1", 0.62, 300)
        make(runs / "support-bot-v2", 0.78, 300)
        make(runs / "support-bot-v4", 0.7, 300)
        limpet.load_run(runs / "support-bot-v4").sample(40, Path(place) / "humans.csv", seed=7)
        running = multiprocessing.get_context("spawn").Process(
            target=make, args=(runs / "support-bot-v3", 0.81, 2_000), kwargs={"pause_s": 0.15}
        )
        running.start()
        time.sleep(12)
        try:
            asyncio.run(take(runs, folder, kept))
        finally:
            running.kill()
            running.join()


if __name__ == "__main__":
    main()
