"""What people met when they used the pages for a day.

| promise | what would break it | tested by |
|---|---|---|
| what is typed stays | a label from another tab makes the form anew | `test_a_note_is_typed_on…` |
| the chosen row is an item | rows move in a sorted live table, a little or out of what is loaded | `test_the_chosen_row_is_an_item…` |
| only what is looked at is read | a dragged scrollbar asks for each chunk it passes, or for many at once | `test_a_dragged_scrollbar…` |
| labels are counted once | those read from a file are not, or show scores to somebody else | tests/unit/view/test_labels.py |
| a run is found again | by name, by tag, by a link; by keyboard; on a phone | `test_runs_are_searched…`, `test_scores_are_in_view_on_a_phone…` |
| nothing is cut in silence | a label of 400 letters; a cell that is too narrow | `test_long_labels…` |
| columns are chosen | two scores with odd names, a field, a link; by keyboard | `test_columns_are_chosen…` |
| keys lead everywhere | a search, a sorted column, a row, a way back, a comparison | `test_keys_alone…` |
| 200% | a page that scrolls sideways | `test_a_page_at_200_percent…` |
"""  # noqa: E501 - a table

import asyncio
import json
import re
import threading
from contextlib import contextmanager

import pytest

import limpet
from browser.page_runs import first_rows, make
from limpet.journal.layout import layout_at
from limpet.run.housekeeping import add_tag

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=20_000)  # on a busy machine, a page may wait for its turn
CHOSEN = "tr[aria-selected=true] th"


@pytest.fixture(scope="module")
def plain(server):
    make(server.directory / "plain")


def test_a_note_is_typed_on_while_another_tab_labels(page, context, server):
    folder = server.directory / "tabs"
    judge = limpet.exact_match()
    make(folder, lambda item: item.expected, 3, [judge])
    page.show("#/item?run=tabs&id=q001")
    page.get_by_label("Note").focus()
    page.keyboard.type("half a th")
    other = context.new_page()
    other.goto(page.url)
    other.get_by_role("radio", name=re.compile("no$")).check()
    other.get_by_label("Note").fill("of the other tab")
    other.keyboard.press("Enter")
    expect(other.locator(".label")).to_contain_text("saved: no")
    expect(page.get_by_role("button", name="Remove")).to_be_visible()
    page.keyboard.type("ought")
    expect(page.get_by_label("Note")).to_be_focused()
    expect(page.get_by_label("Note")).to_have_value("half a thought")
    page.get_by_role("radio", name=re.compile("yes$")).check()
    page.keyboard.press("Enter")
    expect(other.get_by_role("radio", name=re.compile("yes$"))).to_be_checked()
    lines = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    assert [(one["label"], one["note"]) for one in lines] == [
        ("no", "of the other tab"), ("yes", "half a thought"),
    ]  # fmt: skip


@contextmanager
def growing(server, name, many, first=10):
    """Make a run in a thread, whose later answers wait until they may go."""
    go_on = threading.Event()

    async def waits(item):
        while int(item.id[1:]) >= first and not go_on.is_set():  # noqa: ASYNC110 - of a thread
            await asyncio.sleep(0.02)
        return limpet.Output(item.expected, limpet.Usage(cost=0.001 * (int(item.id[1:]) + 1)))

    thread = threading.Thread(target=make, args=(server.directory / name, waits, many))
    thread.start()
    try:
        yield go_on
    finally:
        go_on.set()
        thread.join()


@pytest.mark.parametrize("many", [30, 250])
def test_the_chosen_row_is_an_item_and_moves_with_it(page, server, many):
    with growing(server, f"moves{many}", many) as go_on:
        while not (server.directory / f"moves{many}" / "run.json").exists():
            page.wait_for_timeout(20)
        page.show(f"#/items?run=moves{many}&sort=-cost")
        expect(page.locator("tbody tr[data-name=row]").first).to_contain_text("q009")
        for key in "jjj":
            page.keyboard.press(key)
        expect(page.locator(CHOSEN)).to_have_text("q007")
        go_on.set()
        expect(page.locator("tbody tr[data-name=row]").first).to_contain_text(f"q{many - 1:03}")
    page.keyboard.press("k")
    expect(page.locator(CHOSEN)).to_have_text("q008")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(CHOSEN)).to_have_text("q006")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("q006")
    expect(page.locator("header.of-item")).to_contain_text(f"{many - 6} of {many}")


def test_a_dragged_scrollbar_asks_once_it_rests_and_one_at_a_time(page, server):
    make(server.directory / "long", lambda item: item.expected, 3_000, [limpet.exact_match()])
    page.show("#/items?run=long")
    first_rows(page)
    asked, most = page.evaluate("""async () => {
        const { fetch } = window, asked = [];
        let now = 0, most = 0;
        window.fetch = (address, options) => {
            if (!address.startsWith("api/items")) return fetch(address, options);
            asked.push(Number(/from=(\\d+)/.exec(address)[1]));
            now += 1;
            most = Math.max(most, now);
            return fetch(address, options).finally(() => { now -= 1; });
        };
        const scroll = document.querySelector(".scroll");
        for (let at = 0; at <= 200; at += 1) {
            scroll.scrollTop = (at / 200) * scroll.scrollHeight;
            await new Promise(requestAnimationFrame);
        }
        const isThere = () => scroll.innerText.includes("q2999");
        while (!isThere()) await new Promise(requestAnimationFrame);
        window.fetch = fetch;
        return [asked, most];
    }""")
    assert most == 1
    # Only those where it rests; the live page asks once a second for the rows that it showed.
    assert set(asked) <= {0, 100, 2800, 2900}
    assert len([begin for begin in asked if begin]) <= 5


def test_runs_are_searched_by_name_and_tag_and_a_link_shows_the_same(page, server, plain):
    for number, name in enumerate(("alpha", "beta", "gamma")):
        make(server.directory / name, many=2)
        for tag in ("july", "best")[: number + 1]:
            add_tag(layout_at(server.directory / name), tag)
    page.show("#/runs")
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="gamma")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("BEST")
    expect(rows).to_have_count(2)
    expect(page.get_by_label("Search names and tags")).to_be_focused()
    page.keyboard.type(" gam")
    expect(rows).to_have_count(1)
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Delete")
    page.keyboard.press("Escape")
    rows.filter(has_text="alpha").get_by_role("button", name="july").click()
    expect(rows).to_have_count(3)
    rows.filter(has_text="gamma").get_by_role("button", name="best").click()
    expect(rows).to_have_count(2)
    link = page.url
    page.show("#/run?run=plain")
    page.goto(link)
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Remove the filter best").click()
    expect(rows).to_have_count(3)
    expect(page.locator("[aria-live=polite]")).to_contain_text(re.compile(r"3 of \d+ runs"))


def test_scores_are_in_view_on_a_phone_and_a_score_without_an_interval_has_no_place(page, server):
    @limpet.evaluator
    def points(output):
        return 7.0

    make(server.directory / "one", many=1, evaluators=[points])
    page.show("#/runs")
    row = page.get_by_role("row", name=re.compile("^one"))
    expect(row).to_contain_text("7")
    assert row.locator("svg").count() == 0
    page.set_viewport_size({"width": 375, "height": 700})
    page.show("#/run?run=one")
    page.show("#/runs")
    score = row.get_by_text("7", exact=True)
    expect(score).to_be_in_viewport(ratio=1)


def test_a_paused_run_says_so(page, server):
    with growing(server, "waits", 30) as go_on:
        while not (server.directory / "waits" / "run.json").exists():
            page.wait_for_timeout(20)
        page.show("#/run?run=waits")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("h1 + .state")).to_have_text("paused")
        page.show("#/runs")
        expect(page.get_by_role("row", name=re.compile("^waits")).locator(".state")).to_have_text(
            "paused"
        )
        page.show("#/run?run=waits")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("h1 + .state")).to_have_text("running")
        go_on.set()


def test_long_labels_stay_in_their_card_and_cut_cells_show_dots_and_a_title(page, server):
    long = "x" * 400

    def judge(output):
        return {"number": limpet.Score(0.5, long), "word": limpet.Score(None, long)}

    make(server.directory / "wide", many=3, evaluators={"judge": judge})
    page.show("#/item?run=wide&id=q001")
    card = page.locator(".card").first
    assert card.evaluate("""card => [...card.querySelectorAll("*")].every((one) =>
        one.getBoundingClientRect().right <= card.getBoundingClientRect().right)""")
    page.show("#/items?run=wide")
    first_rows(page)
    for number in (3, 4):
        cell = page.locator("tbody tr[data-name=row]").first.locator("td").nth(number - 1)
        cell.hover()
        expect(cell.locator(".one-line")).to_have_attribute("title", re.compile("x{200}"))
        assert cell.evaluate("""cell => [cell.firstChild, ...cell.firstChild.children].some((one) =>
            one.scrollWidth > one.clientWidth && getComputedStyle(one).textOverflow === "ellipsis"
            && getComputedStyle(one).display !== "flex")""")


def heads(page):
    return [head.split("↑")[0].strip() for head in page.locator("thead th").all_inner_texts()]


def test_columns_are_chosen_with_keys_and_kept_in_the_address(page, context, server):
    def judge(output):
        return {"a,b": 0.5, "input": 1.0}

    dataset = [{"id": f"q{n}", "question": f"{n}", "topic": "ab"[n % 2]} for n in range(3)]
    make(server.directory / "chosen", lambda item: item.input, dataset=dataset,
         evaluators={"judge": judge})  # fmt: skip
    page.show("#/items?run=chosen")
    first_rows(page)
    assert heads(page) == ["id", "input", "output", "judge.a,b", "judge.input", "time"]
    page.get_by_text("Columns", exact=True).first.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    for box, step in (("input", 2), ("topic", 1), ("judge.a,b", 0)):
        expect(page.get_by_label(box, exact=True)).to_be_focused()
        page.keyboard.press("Space")
        for _ in range(step):
            page.keyboard.press("Tab")
    expect(page.locator("thead th")).to_have_count(5)
    assert heads(page) == ["id", "output", "topic", "judge.input", "time"]
    expect(page.locator("tbody tr[data-name=row]").nth(1)).to_contain_text("b")
    other = context.new_page()
    other.goto(page.url)
    first_rows(other)
    assert heads(other) == heads(page)
    page.keyboard.press("Escape")
    expect(page.locator(".scroll")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("q0")
    page.keyboard.press("Escape")
    first_rows(page)
    assert heads(page) == heads(other)


def tab_to(page, words):
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == words:
            return
    raise AssertionError(f"no key leads to {words}")


def test_keys_alone_lead_from_the_runs_to_an_answer_and_to_a_comparison(page, plain):
    page.show("#/runs")
    page.get_by_role("link", name="plain", exact=True).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("plain")
    tab_to(page, "plain")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("plain")
    tab_to(page, "Items")
    page.keyboard.press("Enter")
    expect(page.locator(".scroll")).to_be_focused()
    first_rows(page)
    tab_to(page, "closeness")
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("closeness")
    first_rows(page)
    expect(page.locator(".scroll")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("q000")
    page.keyboard.press("ArrowRight")
    expect(page.locator("h1")).to_contain_text("q030")
    page.keyboard.press("Escape")
    expect(page.locator(CHOSEN)).to_have_text("q030")
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text("plain")
    tab_to(page, "Compare")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Compare")


VIEWS = ("runs", "run?run=plain", "items?run=plain", "item?run=plain&id=q003",
         "compare?base=plain&new=plain")  # fmt: skip


def test_a_page_at_200_percent_does_not_scroll_sideways(page, plain):
    page.set_viewport_size({"width": 640, "height": 400})
    for view in VIEWS:
        page.show(f"#/{view}")
        page.locator("main table, main pre").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 640, view
