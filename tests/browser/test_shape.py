"""The shape of a run on its page, in a real browser, live and in a report."""

import re
import threading

import pytest

import limpet
from browser.page_runs import HOSTILE, make, rows
from limpet.report.items import difference_lines
from limpet.version import VERSION
from limpet.view import run_answers
from limpet.view.html_report import write_report

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=20_000)


def quality(item):
    return int(item.id[1:]) / 40


def tone(item):
    return limpet.Score(None, ["kind", "rude", "a:b"][int(item.id[1:]) % 3])


def parts(item):
    return {"to:ne": ["kind", "rude"][int(item.id[1:]) % 2]}


def right(item):
    return item.row["topic"] == "a"


@pytest.fixture(scope="module")
def shaped(server):
    make(server.directory / "shaped", evaluators={
        "quality": quality, "tone": tone, "parts": parts, "right": right,
    })  # fmt: skip
    return server.directory / "shaped"


@pytest.fixture(scope="module", params=["live", "report"])
def at(request, shaped, server, tmp_path_factory):
    """The beginning of each address: of the live page, or of a report."""
    if request.param == "live":
        return server.base
    file = tmp_path_factory.mktemp("shape") / "shaped.html"
    write_report(shaped, file)
    return file.as_uri()


@pytest.fixture
def run_page(page, at):
    page.goto(f"{at}#/run?run=shaped")
    expect(page.locator(".card .bars, .card .label-bars").first).to_be_visible()
    return page


def test_each_bar_leads_to_as_many_items_as_it_says(run_page):
    page = run_page
    links = page.locator(".bars a, .label-bars a")
    found = [(link.get_attribute("href"), link.get_attribute("aria-label")) for link in links.all()]
    names = [name for _, name in found]
    assert {"0 to 0.05: 2 answers", "0.15 to 0.2: 1 answer", "kind: 14 answers"} <= set(names)
    assert {"0: 19 answers", "1: 20 answers"} <= set(names)
    assert len(found) > 15
    for href, name in found:
        number = re.search(r": (\d+) answers?$", name)[1]
        page.evaluate("href => { location.hash = href }", href)
        expect(page.locator("[aria-live=polite]")).to_contain_text(f"{number} of 40")


def test_bars_are_one_stop_of_the_tab_key_and_arrows_go_on(run_page):
    page = run_page
    bars = page.get_by_role("list", name="right: bars")
    bars.get_by_role("link").first.focus()
    page.keyboard.press("ArrowRight")
    expect(bars.get_by_role("link", name="1: 20 answers")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(bars.get_by_role("link", name="1: 20 answers")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Remove the filter right at least 1")).to_be_visible()
    page.get_by_role("button", name="Remove the filter right at least 1").click()
    expect(page.locator("[aria-live=polite]")).to_contain_text("39 of 40")


def test_what_is_in_no_bar_is_said_beside_them(run_page):
    expect(run_page.locator(".card", has_text="quality")).to_contain_text(
        "Bars: 39 answers, 1 without a score"
    )


def test_a_table_by_field_says_what_the_terminal_says_and_leads_to_the_items(run_page, shaped):
    page = run_page
    groups = limpet.load_run(shaped).by("topic")
    page.get_by_label("Score of the tables").select_option("right")
    page.locator(".fields summary", has_text="topic").click()
    table = page.get_by_role("table", name="By topic")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table).to_contain_text("above the rest (p < 0.0001)")
    for line in difference_lines(groups)[-1:]:
        expect(page.locator(".fields")).to_contain_text(line)
    table.get_by_role("link", name="b", exact=True).click()
    expect(page.locator("[aria-live=polite]")).to_contain_text("20 of 40")


def test_the_first_traceback_and_the_configuration_unfold(run_page):
    page = run_page
    traceback = page.get_by_text('raise ValueError("seven is not answered")')
    expect(traceback).to_be_hidden()
    page.get_by_text("traceback of the first").click()
    expect(traceback).to_be_visible()
    page.get_by_text("Configuration, and what changed").click()
    expect(page.locator(".setup")).to_contain_text("unchanged; no earlier version recorded")
    expect(page.locator(".setup")).to_contain_text(f"limpet {VERSION}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(run_page, scheme):
    page = run_page
    page.set_viewport_size({"width": 375, "height": 700})
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_hostile_fields_labels_and_values_do_nothing(page, server):
    dataset = [{**row, **dict.fromkeys(HOSTILE, HOSTILE[n % 8])} for n, row in enumerate(rows(32))]
    of = {row["id"]: HOSTILE[n % 8] for n, row in enumerate(dataset)}
    make(
        server.directory / "evil", dataset=dataset,
        evaluators={"said": lambda item: limpet.Score(None, of[item.id])},
    )  # fmt: skip
    page.show("#/run?run=evil")
    expect(page.locator(".label-bars li")).to_have_count(8)
    for summary in page.locator(".fields summary").all():
        summary.click()
    expect(page.locator(".fields tbody tr")).to_have_count(8 * 8 + 2)
    assert page.evaluate("window.hacked") is None


def test_a_live_run_moves_its_bars_without_drawing_them_anew(page, server):
    go_on, begun = threading.Event(), threading.Event()

    def slow(item):
        if int(item.id[1:]) >= 10:
            begun.set()
            go_on.wait()
        return item.expected

    thread = threading.Thread(
        target=make,
        args=(server.directory / "moving", slow, 30),
        kwargs={"evaluators": {"right": right}},
    )
    thread.start()
    try:
        begun.wait()
        page.show("#/run?run=moving")
        bar = page.get_by_role("list", name="right: bars").get_by_role("link").last
        expect(bar).to_have_attribute("aria-label", "1: 5 answers")
        page.locator(".fields summary", has_text="topic").click()
        expect(page.get_by_role("table", name="By topic")).to_be_visible()
        bar.focus()
        kept = bar.element_handle()
        go_on.set()
        expect(bar).to_have_attribute("aria-label", "1: 15 answers")
        expect(page.locator("h1 + .state")).to_have_text("finished")
        assert page.evaluate("bar => bar === document.activeElement", kept)
        expect(page.get_by_role("table", name="By topic")).to_be_visible()
    finally:
        go_on.set()
        thread.join()


def test_name_and_progress_of_a_large_run_are_there_before_its_scores(page, shaped, monkeypatch):
    monkeypatch.setattr(run_answers, "_MOST_AT_ONCE", 10)
    copy = shaped.with_name("large")
    copy.mkdir()
    for file in shaped.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    held, is_open = [], threading.Event()
    page.route(
        re.compile(r"api/run\?run=large$"),
        lambda route: route.continue_() if is_open.is_set() else held.append(route),
    )
    page.show("#/run?run=large")
    expect(page.locator("h1")).to_have_text("large")
    expect(page.get_by_role("table", name="Steps")).to_contain_text("39 of 40")
    expect(page.get_by_text("Reading the results …")).to_be_visible()
    is_open.set()
    for route in held:
        route.continue_()
    expect(page.locator(".card .bars").first).to_be_visible()
    expect(page.get_by_text("Reading the results …")).to_have_count(0)
    page.unroute(re.compile(r"api/run\?run=large$"))
