"""What axe-core finds on each page: nothing that keeps somebody from using it.

A new page adds its address to `VIEWS`, or to `IN_FILE` if a report has it, too.
"""

from pathlib import Path

import pytest

from browser.conftest import leave, new_page, use
from browser.page_runs import make
from limpet.view.html_report import write_report

axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is missing")
AXE = (Path(axe.__file__).parent / "axe.min.js").read_text("utf-8")
IN_FILE = ("run?run=plain", "items?run=plain", "item?run=plain&id=q003", "item?run=plain&id=q007",
           "compare?base=plain&new=better", "pair?base=plain&new=better&id=q004",
           "item?run=plain&id=q003&raw=1")  # fmt: skip
VIEWS = ("runs", *IN_FILE, "compare?base=plain&new=better&new=other",
         "compare?base=plain&new=better&by=topic", "run?run=drawn",
         "items?run=drawn&columns=id&columns=field:topic",
         "item?run=drawn&id=q001&trial=1")  # fmt: skip
SIZES = {"wide": (1280, 800), "narrow": (375, 700)}
FIND = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, impact, nodes }) => [impact, id, nodes.map(({ html }) => html.slice(0, 200))]);
}"""  # noqa: E501
BAD = ("serious", "critical")
ALSO = ("empty-table-header", "link-in-text-block")
"""Less than serious to axe, but once found here by people."""


@pytest.fixture(scope="module")
def runs(server):
    make(server.directory / "plain")

    async def better(item):
        return item.expected if int(item.id[1:]) % 4 else "worse than before"

    make(server.directory / "better", better)
    make(server.directory / "other", better)
    drawn = make(server.directory / "drawn", lambda item: item.expected, 4, trials=2)
    drawn.sample(2, server.directory.parent / "drawn.csv", seed=1)
    return server.directory


@pytest.fixture(scope="module")
def report(runs):
    file = runs.parent / "report.html"
    write_report(runs / "better", file, runs / "plain")
    return file


def faults_of(page):
    """Return what axe finds. It runs as the browser's own tools do: the page forbids scripts."""
    session = page.context.new_cdp_session(page)
    session.send("Runtime.evaluate", {"expression": AXE})
    found = session.send(
        "Runtime.evaluate",
        {"expression": f"({FIND})()", "awaitPromise": True, "returnByValue": True},
    )
    session.detach()
    assert "exceptionDetails" not in found, found
    return [
        f"{impact} {name}: {' '.join(nodes)}"
        for impact, name, nodes in found["result"]["value"]
        if impact in BAD or name in ALSO
    ]


def look(page, scheme, size):
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    page.locator("main table, main pre").first.wait_for()
    page.locator("summary").evaluate_all("(all) => all.forEach((one) => one.click())")
    return faults_of(page)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_a_page(page, runs, scheme, size):
    found = []
    for view in VIEWS:
        page.show(f"#/{view}")
        found += [f"{view}: {fault}" for fault in look(page, scheme, size)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_serious_in_a_report(browser, report, size):
    context = browser.new_context(offline=True)
    page = new_page(context)
    use(page)
    found = []
    for view in IN_FILE:
        address = view.replace("plain", "better") if "compare" not in view else "compare"
        page.goto(f"{report.as_uri()}#/{address}")
        found += [f"{view}: {fault}" for fault in look(page, "light", size)]
    assert not found, "\n".join(found)
    assert leave(page, Path(__file__).as_uri()) == []
    context.close()
