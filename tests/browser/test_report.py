"""A report in a real browser, opened from disk with the network off.

What would break "one file that can be mailed, opens anywhere, shows the same numbers, and cannot run
what a model wrote", as a stranger would try it:

| promise | what would break it | tested by |
|---|---|---|
| one file | a script, style, picture or font from elsewhere; the run is gone when it opens | every test: only the file itself is asked for; `test_it_opens_from_disk…` |
| can be mailed | too large; silent about what is left out; another name with `#`, `?`, `%` | `test_what_there_is_no_room_for…`, `test_it_opens_from_disk_under_any_name…` |
| | it arrived cut off | `test_a_file_that_arrived_cut_off…` |
| opens anywhere | 360 pixels, dark; a run without items or scores, of a map, with trials, still running | `test_it_is_readable_on_a_phone…`, `test_runs_of_every_kind…`, `test_a_run_that_is_running…` |
| the same numbers | another rounding, order or filter than the server's, ties, missing values, names like `-x`, `a.b`, `a:b` | `test_it_answers_as_the_server_does`, `test_it_opens_from_disk…` |
| | an interval other than that of `limpet compare` | `test_two_runs_are_compared…` |
| runs nothing | markup in texts, ids, names of runs, scores, labels, fields; `</script>` in data; bidi, ANSI, lone surrogates; deep JSON; 50 MB | `test_hostile_texts_do_nothing`, `test_a_text_of_fifty_megabytes…` |
| | a script that gets in all the same | `test_the_policy_stops_scripts_and_addresses…` |
"""  # noqa: E501 - a table

import asyncio
import json
import random
import re
import threading
from pathlib import Path

import pytest

import limpet
from browser.conftest import leave, new_page, use
from browser.page_runs import HOSTILE, blocks_of, closeness, first_rows, make, rows
from limpet.run.results.score_words import headline
from limpet.view.html_report import write_report

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def offline(browser):
    context = browser.new_context()
    context.set_default_timeout(20_000)
    context.set_offline(True)
    yield context
    context.close()


@pytest.fixture(scope="module")
def one_page(offline):
    page = new_page(offline)
    page.on("request", lambda request: page.asked.append(request.url.partition("#")[0]))
    return page


@pytest.fixture
def page(one_page):
    """A page without a network. What it complains about, and whatever it asks for, fails it."""
    use(one_page)
    one_page.asked = []
    one_page.show = lambda file, view="": one_page.goto(file.as_uri() + view)
    yield one_page
    asked = one_page.asked.copy()
    assert leave(one_page, Path(__file__).as_uri()) == []
    assert all(re.match(r"file:///.*\.html$|data:", url) for url in asked)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    make(folder / "runs" / "plain")

    async def better(item):
        return item.expected if int(item.id[1:]) % 4 else "worse than before"

    make(folder / "runs" / "better", better)
    write_report(folder / "runs" / "plain", folder / "plain.html")
    write_report(folder / "runs" / "better", folder / "both.html", folder / "runs" / "plain")
    return folder


def test_it_opens_from_disk_under_any_name_and_shows_the_numbers_of_the_summary(
    page, folder, tmp_path
):
    summary = limpet.load_run(folder / "runs" / "plain").summary
    renamed = tmp_path / "a #1 100%25 ü&x=<b>.html"
    renamed.write_bytes((folder / "plain.html").read_bytes())
    page.show(renamed)
    expect(page.locator("h1")).to_have_text("plain")
    assert page.title() == "plain · Limpet"
    expect(page.locator(".card .big")).to_have_text(headline(summary["scores"]["closeness"]))
    expect(page.get_by_role("table", name="Steps")).to_contain_text("39 of 40")
    expect(page.get_by_role("table", name="Failures")).to_contain_text("seven is not answered")
    assert page.evaluate("typeof uPlot") == "function"
    expect(page.get_by_role("link", name="Compare")).to_have_count(0)
    page.get_by_role("link", name="worst first").click()
    assert first_rows(page) == ["q000", "q030", "q021"]


@pytest.mark.slow  # test_pages has it; the next one shows that a file answers as its server
def test_items_are_sorted_filtered_searched_and_a_link_shows_the_same(page, offline, folder):
    page.show(folder / "plain.html")
    page.get_by_role("link", name="worst first").click()
    assert first_rows(page) == ["q000", "q030", "q021"]
    page.get_by_label("Below").fill("0.4")
    page.get_by_label("Below").press("Enter")
    expect(page.locator("[aria-live=polite]")).to_contain_text("11 of 40")
    page.get_by_label("Field", exact=True).select_option("topic")
    page.get_by_label("Value of the field").fill("b")
    page.get_by_label("Value of the field").press("Enter")
    expect(page.locator("[aria-live=polite]")).to_contain_text("5 of 40")
    other = offline.new_page()
    other.goto(page.url)
    assert first_rows(other, 6) == first_rows(page, 6) == ["q021", "q003", "q033", "q015", "q027"]
    page.get_by_role("cell", name="another 21").click()
    expect(page.locator("h1")).to_contain_text("q021")
    expect(page.locator(".card")).to_contain_text("because of 21")
    expect(page.locator("header.of-item")).to_contain_text("1 of 5")
    other.goto(page.url)
    expect(other.locator("pre").first).to_have_text("question 21")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_contain_text("q003")
    page.locator(".trace .name", has_text="look_up").click()
    expect(page.locator(".trace .tree").first).to_have_text("n 3")
    page.locator("summary", has_text="everything as JSON").click()
    page.get_by_role("button", name="Copy").wait_for()
    assert json.loads(page.locator("details[open] pre").last.inner_text())["id"] == "q003"
    page.show(folder / "plain.html", "#/items?run=plain&text=SEVEN%20IS")
    assert first_rows(page, 5) == ["q007"]


QUERIES = [
    "", "sort=-position", "failed=1", "sort=closeness", "sort=-closeness&failed=1", "sort=-seconds",
    "sort=-cost", "below=closeness:0.3&sort=-closeness", "above=closeness:0.3", "below=closeness:1",
    "label=closeness:right&sort=-label", "sort=odd.-x", "sort=-odd.-x", "below=odd.-x:1",
    "above=odd.a:b:0", "sort=odd.a:b", "sort=label", "sort=-label", "label=label:c",
    "label=label:none", "text=another", "text=ANSWER%203&sort=-cost", "text=because%20of%201",
    "text=stra%C3%9Fe", "text=STRASSE", "where=topic:a", "where=topic:a&where=topic:b", "where=n:3",
    "where=deep.in:7", "where=tags:x3", "where=is:yes", "where=none:null", "where=id:q004",
    "where=trial:1", "where=status:failed", "where=nothing:1", "text=q01&failed=1",
    "failed=workflow", "failed=odd", "failed=nobody", "below=closeness:Infinity",
]  # fmt: skip


def test_it_answers_as_the_server_does(browser, server, tmp_path):
    """Both sources get the same questions; of a report, the answers must be the same JSON."""

    def odd(output, expected):
        number = int(expected.split()[1])
        return {**({"-x": number % 3} if number % 4 else {}), "a:b": number % 5 - 2}

    def label(output, expected):
        return limpet.Score(None, "abc"[int(expected.split()[1]) % 3])

    async def answers(item):
        number = int(item.id[1:])
        if number == 7:
            raise ValueError("seven is not answered")
        said = item.expected if number % 3 else f"another {number} Straße"
        return limpet.Output(said, limpet.Usage(10, 5, cost=0.001 * (number % 11)))

    dataset = [
        {**row, "n": number, "deep": {"in": number}, "tags": [f"x{number}"], "is": number % 2 == 0,
         "none": None}
        for number, row in enumerate(rows(12))
    ]  # fmt: skip
    evaluators = {"closeness": closeness, "odd": odd, "label": label}
    run = server.directory / "same"
    make(run, answers, dataset=dataset, evaluators=evaluators, trials=2)
    write_report(run, tmp_path / "same.html")
    blocks = blocks_of(tmp_path / "same.html")
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.address)
    found = page.evaluate(
        """async ([blocks, queries]) => {
            const { ServerSource } = await import("./source.js");
            const { FileSource } = await import("./file_source.js");
            const server = new ServerSource();
            const file = await FileSource.open((name) => blocks[name]);
            const all = [];
            const tell = (ask) => ask().catch(() => "refused");
            for (const text of queries) {
                const query = new URLSearchParams(text);
                const both = [];
                for (const source of [server, file]) {
                    const items = await tell(() => source.items("same", query, 0, 100));
                    const near = await tell(() => source.near("same", query, "q004", 1));
                    both.push({ items, near });
                }
                all.push([text, ...both]);
            }
            for (const id of ["q000", "q007", "q011", "none"]) {
                const both = [];
                for (const source of [server, file]) {
                    both.push(await tell(() => source.item("same", id, 1)));
                }
                all.push([id, ...both]);
            }
            all.push(["run", await server.run("same"), await file.run("same")]);
            return all;
        }""",
        [blocks, QUERIES],
    )
    context.close()
    ours = (
        "received", "not_searched", "raw", "earlier", "can_compare", "labelled", "unlabelled",
        "labelling", "can_label", "cannot_label",
    )  # fmt: skip

    def plain(value):
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items() if name not in ours}
        return value

    matching = {}
    for question, by_server, by_file in found:
        assert plain(by_file) == plain(by_server), question
        if isinstance(by_file, dict) and isinstance(by_file.get("items"), dict):
            matching[question] = by_file["items"]["matching"]
    assert matching["text=STRASSE"] == matching["text=stra%C3%9Fe"] > 0
    assert matching["where=is:yes"] == 12
    assert matching["failed=1"] == matching["failed=workflow"] == 2
    assert matching["failed=odd"] == 0


@pytest.mark.slow  # the test on a phone opens such links
def test_a_link_that_names_no_run_is_about_the_run_of_the_report(page, folder):
    page.show(folder / "plain.html", "#/item?id=q003")
    expect(page.locator("h1")).to_have_text("plain / items / q003")
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text("plain items")


@pytest.mark.slow  # test_pages compares two; a file answers as its server does
def test_two_runs_are_compared_with_both_answers(page, folder):
    page.show(folder / "both.html", "#/compare")
    found = limpet.compare(folder / "runs" / "plain", folder / "runs" / "better")
    ends = found.new[0].scores["closeness"].headline
    row = page.get_by_role("table", name="Differences")
    expect(row).to_contain_text(f"{ends.low:.2f} to {ends.high:.2f}".replace("-", "−"))
    page.locator("tbody tr[data-name=row]").nth(1).click()
    expect(page.locator("ins").first).to_be_visible()
    page.get_by_role("table", name="Both answers").get_by_role("link", name="plain").click()
    expect(page.locator("h1")).to_contain_text("plain / items / q")
    expect(page.locator("pre").first).to_contain_text("question")
    page.get_by_role("link", name="Run", exact=True).click()
    expect(page.locator("h1")).to_have_text("better")


def test_what_there_is_no_room_for_is_said_and_the_rest_works(page, tmp_path):
    chance = random.Random(1)

    async def noise(item):
        if item.id == "q299":
            raise ValueError("the last has failed")
        return chance.randbytes(6_000).hex() + item.expected

    def score(output):
        return float(int(output.split()[-1]) != 298)

    make(tmp_path / "large", noise, 300, evaluators={"score": score})
    made = write_report(tmp_path / "large", tmp_path / "large.html", max_mb=1)
    assert made.bytes == (tmp_path / "large.html").stat().st_size <= 1_000_000
    full = int(re.search(r"the texts of (\d+) of 300 answers", made.left_out)[1])
    assert 50 < full < 150
    page.show(tmp_path / "large.html")
    expect(page.locator("body > .warn").first).to_have_text(made.left_out)
    page.show(tmp_path / "large.html", "#/items?run=large&sort=-position")
    assert first_rows(page) == ["q299", "q298", "q297"]
    expect(page.locator("tbody tr[data-name=row]").nth(2)).to_contain_text("completed")
    expect(page.locator("[aria-live=polite]")).to_have_text("300 items")
    # The one that failed and the worst are there, others with their numbers alone.
    page.show(tmp_path / "large.html", "#/item?run=large&id=q299")
    expect(page.locator("pre.bad")).to_contain_text("the last has failed")
    page.show(tmp_path / "large.html", "#/item?run=large&id=q298")
    expect(page.locator("pre").nth(2)).to_contain_text("answer 298")
    page.show(tmp_path / "large.html", "#/item?run=large&id=q297")
    expect(page.locator("article .warn")).to_contain_text("are not in this file")
    expect(page.locator(".card .big")).to_have_text("1")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_contain_text("q298")
    page.show(tmp_path / "large.html", "#/items?run=large&text=question")
    expect(page.locator("[aria-live=polite]")).to_contain_text(f"{300 - full} not searched")


@pytest.mark.parametrize("share", [0.5, pytest.param(0.97, marks=pytest.mark.slow)])
def test_a_file_that_arrived_cut_off_says_so(page, folder, tmp_path, share):
    whole = (folder / "plain.html").read_bytes()
    (tmp_path / "cut.html").write_bytes(whole[: int(share * len(whole))])
    page.show(tmp_path / "cut.html")
    expect(page.locator("body")).to_contain_text("the file is incomplete")
    page.faults.clear()


def test_a_run_that_is_running_is_reported_so_far(page, tmp_path):
    go_on, answered = threading.Event(), threading.Event()

    async def waits(item):
        if int(item.id[1:]) >= 10:
            answered.set()
            await asyncio.to_thread(go_on.wait)
        return item.expected

    run = tmp_path / "live"
    thread = threading.Thread(target=make, args=(run, waits, 30))
    thread.start()
    try:
        answered.wait()
        while (run / "closeness_output.jsonl").read_bytes().count(b"\n") < 10:
            page.wait_for_timeout(20)
        write_report(run, tmp_path / "live.html")
    finally:
        go_on.set()
        thread.join()
    page.show(tmp_path / "live.html")
    expect(page.locator("body > .warn")).to_contain_text("interim")
    expect(page.locator("h1 + .state")).to_have_text("running")
    expect(page.get_by_role("table", name="Steps")).to_contain_text("10 of 30")
    expect(page.locator(".card")).to_contain_text("so far")
    page.show(tmp_path / "live.html", "#/items?run=live&where=status:completed")
    expect(page.locator("[aria-live=polite]")).to_contain_text("10 of 30")
    page.show(tmp_path / "live.html", "#/item?run=live&id=q029")
    expect(page.locator("header.of-item")).to_contain_text("not run")


def test_runs_of_every_kind_can_be_reported(page, tmp_path):
    make(tmp_path / "none", evaluators=[limpet.exact_match()], dataset=rows(3), trials=2)
    page_of = {}
    page_of["trials"] = write_report(tmp_path / "none", tmp_path / "trials.html")
    limpet.evaluate(rows(2), str.upper, run=limpet.Run(tmp_path / "bare", durability="flush"))
    page_of["no scores"] = write_report(tmp_path / "bare", tmp_path / "bare.html")
    limpet.map(str.upper, ["a", "b"], journal=tmp_path / "map.jsonl")
    page_of["map"] = write_report(tmp_path / "map.jsonl", tmp_path / "map.html")
    for name, made in page_of.items():
        page.show(made.path)
        page.locator("main table").first.wait_for()
        page.get_by_role("link", name="Items", exact=True).first.click()
        assert len(first_rows(page, 9)) == {"trials": 6, "no scores": 2, "map": 2}[name]
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.locator("article.item h1").wait_for()


@pytest.mark.slow  # test_pages has a narrow page in the dark
def test_it_is_readable_on_a_phone_in_the_dark(page, folder):
    page.set_viewport_size({"width": 360, "height": 700})
    page.emulate_media(color_scheme="dark")
    for view in ("run", "items", "item?id=q003", "compare"):
        page.show(folder / "both.html", f"#/{view}")
        page.locator("main table, main pre").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert int(re.search(r"\d+", paper)[0]) < 100


def test_hostile_texts_do_nothing(page, tmp_path):
    nasty = [
        *HOSTILE,
        "<!--<script>",
        "]]>--!><svg onload=window.hacked=7>",
        "a\u2028b\u2029c\ud800d",
    ]
    dataset = [
        {"id": f"{n} {text}", "question": text, "answer": text, text: text, "__proto__": {"x": 1}}
        for n, text in enumerate(nasty)
    ]
    deep = json.loads("[" * 200 + "]" * 200)

    def judge(output):
        return {text: limpet.Score(0.5, text, text) for text in ("</script><b>", "__proto__")}

    async def fails(item):
        if item.id.startswith("3"):
            raise ValueError(item.input)
        trace = [
            {"kind": item.input, "name": item.input, "input": item.input, "id": "1", "parent": "1"}
        ]
        return limpet.Output({"text": item.input, "deep": deep, "__proto__": {"x": 2}}, None, trace)

    run = tmp_path / "<img src=x onerror=window.hacked=8>&quot;"
    make(run, fails, dataset=dataset, evaluators={"judge": judge})
    made = write_report(run, tmp_path / "hostile.html", run)
    page.show(made.path)
    expect(page.locator("h1")).to_have_text(run.name)
    assert page.title() == f"{run.name} · Limpet"
    page.get_by_role("link", name="Items", exact=True).first.click()
    first_rows(page)
    assert page.locator("main script, main img, main svg[onload], main b").count() == 0
    # Those that could end the script with the data. The others are walked through in test_pages.
    page.show(made.path, "#/items?sort=-position")
    first_rows(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    for number in range(1, 4):
        expect(page.locator("header.of-item")).to_contain_text(f"{number} of {len(nasty)}")
        page.locator("summary").evaluate_all("(all) => all.forEach((one) => one.click())")
        page.keyboard.press("j")
    page.keyboard.press("Escape")
    first_rows(page)
    for view in ("items?text=<script>alert(1)</script>&where=__proto__:x",
                 "items?sort=judge.__proto__", "items?below=judge.__proto__:1", "compare",
                 "runs", "<b>?run=<b>"):  # fmt: skip
        page.show(made.path, f"#/{view}")
        page.locator("header.top").wait_for()
    assert page.evaluate("[window.hacked, ({}).x]") == [None, None]
    raw = made.path.read_bytes()
    assert b"onerror" not in raw.replace(b"&lt;img src=x onerror=window.hacked=8&gt;", b"")


def test_the_policy_stops_scripts_and_addresses_that_get_in_all_the_same(page, folder):
    page.show(folder / "plain.html")
    page.locator("main table").first.wait_for()
    failures = []
    page.on("requestfailed", lambda request: failures.append(request.failure))
    page.evaluate(
        """() => {
            const make = (tag) => document.createElement(tag);
            const add = (tag, about) => document.body.append(Object.assign(make(tag), about));
            add("script", { textContent: "window.hacked = 1" });
            add("script", { src: "data:text/javascript,window.hacked=2" });
            add("script", { src: "http://127.0.0.1:9/x.js" });
            add("img", { src: "http://127.0.0.1:9/x.png" });
            add("iframe", { src: "http://127.0.0.1:9/" });
            document.body.insertAdjacentHTML("beforeend", "<b onclick='window.hacked = 3'>x</b>");
            document.body.lastChild.click();
        }"""
    )
    assert (
        page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'stopped')")
        == "stopped"
    )
    assert page.evaluate("window.hacked") is None
    assert len(page.faults) >= 6
    assert all("Content Security Policy" in fault or "Refused" in fault for fault in page.faults)
    page.faults.clear()
    assert set(failures) == {"csp"}
    page.asked.clear()


@pytest.mark.slow
def test_a_text_of_fifty_megabytes_is_cut_and_said(page, tmp_path):
    make(tmp_path / "huge", lambda question: "<b>x" * 12_500_000, many=1,
         evaluators=[limpet.exact_match()])  # fmt: skip
    made = write_report(tmp_path / "huge", tmp_path / "huge.html")
    assert made.bytes < 1_000_000
    page.show(made.path, "#/item?id=q000")
    expect(page.locator("article .warn")).to_contain_text("Long texts are shortened: 49.9 MB")
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
