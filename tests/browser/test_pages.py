"""The pages as a person uses them, in a real browser."""

import asyncio
import json
import multiprocessing
import re
import threading

import pytest

import limpet
from browser.page_runs import HOSTILE, first_rows, make

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=20_000)  # on a busy machine, a page may wait for its turn


@pytest.fixture(scope="module")
def plain(server):
    make(server.directory / "plain")


def wait_for_answers(page, run, worker):
    column = run / "workflow_output.jsonl"
    while worker.is_alive() and not (column.exists() and column.stat().st_size):
        page.wait_for_timeout(20)


def test_a_live_run_goes_from_nothing_to_done(page, server):
    go_on, begun = threading.Event(), threading.Event()

    async def waits(item):
        begun.set()
        if int(item.id[1:]) >= 10:
            await asyncio.to_thread(go_on.wait)
        return item.expected

    thread = threading.Thread(target=make, args=(server.directory / "live", waits, 30))
    thread.start()
    try:
        begun.wait()
        page.show("#/run?run=live")
        expect(page.locator("h1 + .state")).to_have_text("running")
        expect(page.get_by_role("table", name="Steps")).to_contain_text("10 of 30")
        expect(page.get_by_role("table", name="In flight")).to_contain_text("q010")
        expect(page.locator(".card")).to_contain_text("so far")
        expect(page.locator(".card")).to_contain_text(" not scored yet")
        expect(page.locator(".card")).not_to_contain_text("counted as worst")
        heading = page.locator("h1").element_handle()
        go_on.set()
        expect(page.locator("h1 + .state")).to_have_text("finished")
        expect(page.get_by_role("table", name="Steps")).to_contain_text("30")
        expect(page.locator(".card")).not_to_contain_text("so far")
        # It was not drawn anew: the same element is still there.
        assert page.evaluate("heading => heading.isConnected", heading)
    finally:
        go_on.set()
        thread.join()
    page.show("#/runs")
    expect(page.get_by_role("row", name=re.compile("live"))).to_contain_text("finished")


def test_a_page_that_takes_long_to_read_is_there_at_once_and_says_that_it_reads(
    page, server, plain
):
    held, is_open = [], threading.Event()

    def hold(route):
        if is_open.is_set():
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/run?*", hold)
    page.show("#/run?run=plain")
    reading = page.get_by_text("Reading …")
    expect(reading).to_be_visible()
    expect(page.get_by_role("navigation")).to_be_visible()
    is_open.set()
    for route in held:
        route.continue_()
    expect(page.locator("h1 + .state")).to_have_text("finished")
    expect(reading).to_be_hidden()
    page.unroute("**/api/run?*")


def test_a_page_says_what_the_terminal_warns_of_and_time_calls_and_cost_of_all_sessions(
    page, server
):
    run, rows = server.directory / "mixed", [{"id": "q1", "question": "1", "answer": "1"}]
    bad = [{"id": "q2", "answer": "2"}]

    def session(rows, **options):
        dataset = limpet.Dataset(rows, input="question", on_bad_row="skip")
        scored = {"correct": limpet.exact_match()}
        limpet.evaluate(dataset, paid, scored, run=run, show=False, **options)

    def paid(question):
        return limpet.Output(question, usage={"total_tokens": 7, "cost": 0.25})

    session(rows, version="1")
    more = [*rows, {"id": "q3", "question": "3", "answer": "3"}, *bad]
    session(more, version="2", on_change="keep")
    about = json.loads((run / "run.json").read_bytes())
    about["sessions"][0]["began"] = "2026-01-01T00:00:00Z"  # the first one took two hours
    about["sessions"][0]["ended"] = "2026-01-01T02:00:00Z"
    (run / "run.json").write_text(json.dumps(about))
    page.show("#/run?run=mixed")
    head = page.locator("section.head")
    expect(head).to_contain_text(re.compile(r"took 2\D.* in 2 sessions · 4 calls · \$0\.50"))
    expect(head).to_contain_text("1 of 2 answers are from the current version")
    expect(head).to_contain_text("1 row skipped: ")
    page.show("#/runs")
    row = page.get_by_role("row", name=re.compile("mixed"))
    expect(row).to_contain_text("1 of 2 answers current")


def test_the_worst_item_is_found_and_its_link_shows_the_same(page, context, server, plain):
    page.show("#/run?run=plain")
    expect(page.get_by_role("table", name="Failures")).to_contain_text("seven is not answered")
    page.get_by_role("link", name="worst first").click()
    assert first_rows(page) == ["q000", "q030", "q021"]
    page.get_by_label("Below").fill("0.4")
    page.get_by_label("Below").press("Enter")
    expect(page.locator("[aria-live=polite]")).to_contain_text("11 of 40")
    page.get_by_label("Field", exact=True).select_option("topic")
    page.get_by_label("Value of the field").fill("b")
    page.get_by_label("Value of the field").press("Enter")
    expect(page.locator("[aria-live=polite]")).to_contain_text("5 of 40")
    assert first_rows(page) == ["q021", "q003", "q033"]
    fresh = context.browser.new_context()
    other = fresh.new_page()
    other.goto(server.address)
    other.goto(page.url)
    assert first_rows(other, 6) == first_rows(page, 6)
    page.get_by_role("cell", name="another 21").click()
    expect(page.locator("h1")).to_contain_text("q021")
    expect(page.locator(".card")).to_contain_text("because of 21")
    other.goto(page.url)
    expect(other.locator("h1")).to_contain_text("q021")
    expect(other.locator("pre").first).to_have_text("question 21")
    fresh.close()


def test_texts_are_searched_and_labels_filter(page, plain):
    page.show("#/items?run=plain")
    first_rows(page)
    page.keyboard.press("/")
    page.keyboard.type("another 3")
    page.keyboard.press("Enter")
    expect(page.locator("[aria-live=polite]")).to_contain_text("5 of 40")
    assert first_rows(page, 9) == ["q003", "q030", "q033", "q036", "q039"]
    page.show("#/run?run=plain")
    page.get_by_role("link", name="25 right").click()
    expect(page.locator("[aria-live=polite]")).to_contain_text("25 of 40")
    page.get_by_role("button", name=re.compile("Remove the filter")).click()
    expect(page.locator("[aria-live=polite]")).to_have_text("40 items")


def test_one_item_shows_why_and_what_happened_inside(page, plain):
    page.show("#/item?run=plain&id=q003")
    expect(page.locator("del")).to_have_text("answer ")
    expect(page.locator("ins")).to_have_text("another ")
    expect(page.locator(".trace .events").first).to_contain_text('look_up {"n":3} → found')
    page.locator(".trace .name", has_text="look_up").click()
    expect(page.locator(".trace .tree").first).to_have_text("n 3")
    page.get_by_role("button", name="compare with expected").click()
    expect(page.locator("del")).to_have_count(0)
    expect(page.locator(".trace .tree").first).to_be_visible()
    page.locator("summary", has_text="everything as JSON").click()
    page.get_by_role("button", name="Copy").wait_for()
    assert json.loads(page.locator("details[open] pre").last.inner_text())["id"] == "q003"
    page.show("#/item?run=plain&id=q007")
    expect(page.locator("pre.bad")).to_contain_text("seven is not answered")
    expect(page.locator("summary", has_text="traceback")).to_be_visible()


def test_failures_lead_to_their_trials_and_to_those_of_one_step(page, server):
    def a_score_with_a_long_name(output, expected):
        if expected.endswith("2"):
            raise ValueError("two is not scored")
        return 0.5

    evaluators = {"a_score_with_a_long_name": a_score_with_a_long_name}
    make(server.directory / "trials", many=10, trials=2, evaluators=evaluators)
    page.show("#/run?run=trials")
    failures = page.get_by_role("table", name="Failures")
    expect(failures.get_by_role("link", name="q007 trial 1")).to_be_visible()
    page.get_by_role("link", name="2 failed").click()
    expect(page.locator("[aria-live=polite]")).to_contain_text("2 of 20 answers")
    assert first_rows(page) == ["q002", "q002"]
    page.get_by_role("button", name="a_score_with_a_long_name", exact=True).click()
    arrow = page.locator("th[aria-sort=ascending] .sort")
    expect(arrow).to_contain_text("↑")
    assert arrow.evaluate("(button) => button.scrollWidth <= button.clientWidth")
    page.show("#/run?run=trials")
    failures.get_by_role("link", name="q007 trial 1").click()
    expect(page.locator("[aria-current=page]")).to_have_text("1")


def test_times_are_written_with_whole_minutes(page):
    words = page.evaluate("""async () => {
        const { seconds } = await import("./format.js");
        return [0.9996, 59.94, 59.97, 119.7, 3599.6, 3661].map(seconds);
    }""")
    assert words == ["1 s", "59.9 s", "1 min 0 s", "2 min 0 s", "1 h 0 min", "1 h 1 min"]


def test_keys_walk_through_the_items(page, plain):
    page.show("#/items?run=plain&sort=-cost")
    assert first_rows(page, 2) == ["q039", "q038"]
    for key in "jjjk":
        page.keyboard.press(key)
    expect(page.locator("tr[aria-selected=true] th")).to_have_text("q038")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("q038")
    expect(page.locator("header.of-item")).to_contain_text("2 of 40")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_contain_text("q037")
    page.keyboard.press("Escape")
    expect(page.locator("tr[aria-selected=true] th")).to_have_text("q037")
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text("plain")


def test_two_runs_are_compared(page, server, plain):
    async def better(item):
        return item.expected if int(item.id[1:]) % 4 else "worse than before"

    make(server.directory / "better", better)
    page.show("#/compare")
    page.get_by_label("base", exact=True).select_option("plain")
    page.get_by_label("new", exact=True).select_option("better")
    expect(page.get_by_role("table", name="Differences")).to_contain_text("closeness")
    assert page.url.endswith("#/compare?base=plain&new=better")
    page.locator("tbody tr[data-name=row]").nth(1).click()
    expect(page.locator("ins").first).to_be_visible()


def test_hostile_texts_do_nothing(page, server):
    deep = "[" * 200 + "]" * 200
    dataset = [
        {"id": f"{n} {text}", "question": text, "answer": text, text: text, "__proto__": {"x": 1}}
        for n, text in enumerate(HOSTILE)
    ]

    def judge(output):
        return {text: limpet.Score(0.5, text, text) for text in ("<b>part</b>", "constructor")}

    async def fails(item):
        if item.id.startswith("3"):
            raise ValueError(item.input)
        trace = [
            {"kind": item.input, "name": item.input, "input": item.input, "id": "1", "parent": "1"}
        ]
        return limpet.Output({"text": item.input, "deep": json.loads(deep)}, None, trace)

    make(server.directory / "hostile", fails, dataset=dataset, evaluators={"judge": judge})
    for view in ("runs", "run?run=hostile", "items?run=hostile"):
        page.show(f"#/{view}")
        page.locator("main table").first.wait_for()
    first_rows(page)
    assert page.locator("main script, main img, main b:has-text('part')").count() == 0
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    for number in range(1, len(HOSTILE) + 1):
        expect(page.locator("header.of-item")).to_contain_text(f"{number} of {len(HOSTILE)}")
        page.locator("summary").evaluate_all("(all) => all.forEach((one) => one.click())")
        page.keyboard.press("j")
    page.keyboard.press("Escape")
    first_rows(page)
    page.show("#/items?run=hostile&text=<script>alert(1)</script>&where=__proto__:x")
    page.locator("main table").wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("({}).x") is None
    page.show("#/item?run=hostile&id=" + "4%20a%E2%80%AEb%E2%81%A6c%00d%1B%5B2J%1B%5D0%3Btitle%07")
    expect(page.locator("pre").first).to_contain_text("␣202E")


def killed(run):
    async def hangs(item):
        await asyncio.sleep(0 if int(item.id[1:]) < 5 else 600)
        return item.expected

    make(run, hangs, 10)


def test_a_run_that_is_killed_while_one_looks_is_said_to_be_cut_off(page, server):
    process = multiprocessing.get_context("spawn").Process(
        target=killed, args=(server.directory / "killed",)
    )
    process.start()
    try:
        wait_for_answers(page, server.directory / "killed", process)
        page.show("#/run?run=killed")
        expect(page.locator("h1 + .state")).to_have_text("running")
        expect(page.get_by_role("table", name="Steps")).to_contain_text("5 of 10")
    finally:
        process.kill()
        process.join()
    expect(page.locator("h1 + .state")).to_have_text("cut off")
    expect(page.get_by_role("table", name="Steps")).to_contain_text("5 of 10")


def test_a_run_that_is_removed_is_said_and_the_rest_goes_on(page, server):
    run = server.directory / "gone"
    make(run, many=2)
    page.show("#/run?run=gone")
    page.locator("main table").first.wait_for()
    run.rename(server.directory.parent / "gone")
    expect(page.get_by_role("alert")).to_contain_text("there is no run gone")
    page.get_by_role("link", name="Runs").click()
    expect(page.get_by_role("alert")).to_be_hidden()
    page.faults[:] = [fault for fault in page.faults if "404" not in fault]


NARROW = ("runs", "run?run=plain", "items?run=plain", "item?run=plain&id=q003",
          "compare?base=plain&new=plain")  # fmt: skip


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_a_narrow_page_does_not_scroll_sideways(page, plain, scheme):
    page.set_viewport_size({"width": 360, "height": 700})
    page.emulate_media(color_scheme=scheme)
    for view in NARROW:
        page.show(f"#/{view}")
        page.locator("main table, main pre").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        if view == "runs":  # the name of a run is not broken
            name = page.get_by_role("link", name="plain", exact=True)
            assert name.evaluate("link => link.getClientRects().length") == 1
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.search(r"\d+", paper)[0]) < 100) == (scheme == "dark")


def test_every_column_of_the_items_is_in_view_and_texts_give_way(page, server):
    three = {name: lambda output, expected: output == expected for name in ("one", "two", "three")}
    make(server.directory / "columns", many=3, evaluators=three, trials=2)
    page.set_viewport_size({"width": 1120, "height": 700})
    page.show("#/items?run=columns")
    first_rows(page)
    edge = page.locator(".scroll").bounding_box()
    for name in ("id", "trial", "input", "output", "one", "two", "three", "time", "cost"):
        head = page.get_by_role("columnheader", name=name, exact=True).bounding_box()
        assert head["x"] + head["width"] <= edge["x"] + edge["width"], name
    # Trials are counted from nought, as every command and file does.
    trials = page.locator("tbody tr[data-name=row] td:nth-child(2)").all_inner_texts()
    assert trials == ["0", "1"] * 3
    cost = page.locator("tbody tr[data-name=row] .one-line").last
    assert cost.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def test_what_is_unfolded_and_selected_stays_so_while_the_page_refreshes(page, server):
    go_on = threading.Event()

    async def waits(item):
        if item.id != "q000":
            await asyncio.to_thread(go_on.wait)
        return item.expected

    thread = threading.Thread(target=make, args=(server.directory / "unfolded", waits, 3))
    thread.start()
    try:
        wait_for_answers(page, server.directory / "unfolded", thread)
        page.show("#/items?run=unfolded")
        expect(page.locator("tbody tr[data-name=row]").first).to_contain_text("answer 0")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.evaluate("document.querySelector('.scroll').marked = true")
        go_on.set()
        expect(page.locator("tbody tr[data-name=row]").last).to_contain_text("answer 2")
        assert page.evaluate("document.querySelector('.scroll').marked")
        assert page.evaluate("document.activeElement.className") == "scroll"
        expect(page.locator("tr[aria-selected=true] th")).to_have_text("q001")
    finally:
        go_on.set()
        thread.join()


def test_without_the_token_the_page_says_where_it_is(browser, server):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.base)
    expect(page.locator("body")).to_contain_text("Open the address that limpet view printed")
    context.close()


@pytest.mark.slow
def test_a_hundred_thousand_items_scroll(page, server):
    dataset = [{"id": f"q{n}", "question": f"{n}", "answer": f"{n % 7}"} for n in range(100_000)]
    make(
        server.directory / "large",
        lambda question: question,
        dataset=dataset,
        evaluators=[limpet.exact_match()],
        pace=64,
    )
    page.show("#/items?run=large")
    first_rows(page)
    for share in (0.5, 0.123, 1.0):
        page.evaluate(
            """share => {
                const scroll = document.querySelector(".scroll");
                scroll.scrollTop = share * (scroll.scrollHeight - scroll.clientHeight);
            }""",
            share,
        )
        number = round(share * 99_999)
        expect(page.locator("tbody")).to_contain_text(re.compile(rf"q{str(number)[:3]}\d"))
    expect(page.locator("tbody tr[data-name=row]").last).to_contain_text("q99999")
    assert page.locator("tbody tr").count() < 100
    assert page.locator("table").get_attribute("aria-rowcount") == "100001"


@pytest.mark.slow
def test_a_text_of_fifty_megabytes_is_cut_and_said(page, server):
    make(
        server.directory / "huge",
        lambda question: "<b>x" * 12_500_000,
        many=1,
        evaluators=[limpet.exact_match()],
    )
    page.show("#/items?run=huge")
    first_rows(page)
    page.show("#/item?run=huge&id=q000")
    expect(page.locator(".warn")).to_contain_text("Long texts are shortened: 49.9 MB")
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".warn")).to_contain_text("49.7 MB")
