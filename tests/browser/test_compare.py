"""Runs compared in a real browser: all changes, one change, more than two runs, and in a report.

| promise | what would break it | tested by |
|---|---|---|
| the totals are links to what they count | another filter, another number of rows | `test_a_total_leads_to_the_answers_it_counts…` |
| a link shows the same | a filter, an order or a search that is not in the address | the same |
| next and previous among the changed | another order, the ends, back to the same row | `test_keys_walk_through_the_changes…` |
| both answers side by side | below each other on a phone; an answer that failed | `test_one_change_shows_both…`, `test_on_a_phone…` |
| bars on one scale | two scores of one range drawn to two scales | `test_bars_of_one_range_share_a_scale…` |
| no p without an interval | a p of a score without a range | the same |
| several runs | a thirteenth; another base; a matrix of one, two, three axes | `test_several_runs…`, `test_a_matrix…` |
| a report says the same | other order, filter, totals than the server | `test_a_report_lists_the_changes_as_the_server_does` |
| hostile texts do nothing | markup in ids, answers, reasons, labels, names of scores and runs | `test_hostile_texts_do_nothing_beside_each_other` |
| an unchanged answer does not redraw | a list that is drawn anew each second | `test_an_unchanged_comparison_is_not_drawn_anew` |
"""  # noqa: E501 - a table

import json
import re

import pytest

import limpet
from browser.page_runs import HOSTILE, blocks_of, closeness, first_rows, make, rows
from limpet.report.comparison import VERDICTS
from limpet.view.html_report import write_report

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=20_000)


def told(seed):
    """Return a workflow: answers, failures and traces that depend on the seed."""

    async def answer(item):
        number = int(item.id[1:])
        if (number + seed) % 9 == 7:
            raise ValueError("not answered today")
        said = item.expected if (number * (seed + 2)) % 5 < 3 else f"another {number} whale"
        trace = [{"kind": "tool", "name": f"look_up_{seed}", "id": "1", "started": 0, "ended": 1}]
        return limpet.Output(said, limpet.Usage(10, 5 + seed, cost=0.001 * (number + 1)), trace)

    return answer


def tone(output):
    return limpet.Score(None, ["kind", "rude", "odd"][len(output) % 3], f"it sounds {len(output)}")


def length(output):
    return float(len(output))


EVALUATORS = {"closeness": closeness, "tone": tone, "length": length}
BOTH = "compare?base=first&new=second"


@pytest.fixture(scope="module")
def two(server):
    for seed, name in enumerate(("first", "second", "third")):
        make(server.directory / name, told(seed), many=60, evaluators=EVALUATORS)
    return server.directory


def totals(page):
    page.locator(".totals li").first.wait_for()
    return page.locator(".totals")


def test_a_total_leads_to_the_answers_it_counts_and_its_link_shows_the_same(
    page, context, server, two
):
    score = limpet.compare(two / "first", two / "second").new[0].scores["closeness"]
    page.show(f"#/{BOTH}")
    line = totals(page).locator("li", has_text="closeness")
    for word in ("better", "worse", "same"):
        number = getattr(score, word)
        line.get_by_role("link", name=re.compile(rf"\b{number} {word}")).click()
        expect(page.locator("[aria-live=polite]")).to_contain_text(f"{number} answers · closeness")
        assert f"score=closeness&direction={word}" in page.url
        rows = page.get_by_role("table", name="Changed answers")
        expect(rows).to_have_attribute("aria-rowcount", str(number + 1))
    line.get_by_role("link", name=re.compile("worse")).click()
    page.get_by_role("button", name="change", exact=True).click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("change")
    page.keyboard.press("/")
    page.keyboard.type("WHALE")
    page.keyboard.press("Enter")
    expect(page.locator("[aria-live=polite]")).not_to_contain_text("left to search")
    expect(page.locator(".totals [aria-current]")).to_contain_text("worse")
    shown = first_rows(page, 9)
    other = context.new_page()
    other.goto(page.url)
    assert first_rows(other, 9) == shown
    other.close()
    page.get_by_role("link", name="no filters").click()
    expect(page.locator(".totals [aria-current]")).to_contain_text("changed answers")
    # Both directions at once: the first rows go up and down in turn.
    signs = page.locator("tbody tr[data-name=row] td:nth-child(2)")
    for number, sign in enumerate("▲▼"):
        expect(signs.nth(number)).to_contain_text(sign)


def test_keys_walk_through_the_changes_and_back_to_the_same_row(page, two):
    page.show(f"#/{BOTH}&score=closeness")
    ids = first_rows(page, 3)
    page.locator(".list .scroll").focus()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(ids[1])
    expect(page.locator("header.of-item")).to_contain_text(re.compile(r"2 of \d+ · closeness"))
    page.keyboard.press("j")
    expect(page.locator("h1")).to_contain_text(ids[2])
    page.keyboard.press("k")
    expect(page.locator("h1")).to_contain_text(ids[1])
    expect(page.get_by_role("button", name="Previous change")).to_be_enabled()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("h1")).to_contain_text(ids[0])
    expect(page.get_by_role("button", name="Previous change")).to_be_disabled()
    page.get_by_role("button", name="Next change").click()
    expect(page.locator("h1")).to_contain_text(ids[1])
    page.keyboard.press("Escape")
    expect(page.locator("tr[aria-selected=true] th")).to_have_text(ids[1])
    assert "score=closeness" in page.url


def test_one_change_shows_both_answers_with_reasons_traces_and_costs(page, two):
    page.show("#/pair?base=first&new=second&id=q003")
    base, new = page.locator("section[data-name=base]"), page.locator("section[data-name=new]")
    expect(base.locator("del").or_(new.locator("ins")).first).to_be_visible()
    assert base.locator("ins").count() == new.locator("del").count() == 0
    expect(page.locator("section[data-name=input]")).to_contain_text("question 3")
    expect(page.locator("section[data-name=expected]")).to_contain_text("answer 3")
    reasons = page.locator("section[data-name='score tone'] .card")
    expect(reasons.first).to_contain_text("it sounds")
    expect(reasons.last).to_contain_text("it sounds")
    expect(page.locator("section[data-name='base trace']")).to_contain_text("look_up_0")
    expect(page.locator("section[data-name='new trace']")).to_contain_text("look_up_1")
    used = page.get_by_role("table", name="Both answers")
    expect(used.get_by_role("row").nth(1)).to_contain_text("$0.0040")
    expect(used.get_by_role("row").nth(2)).to_contain_text("16")
    page.show("#/pair?base=first&new=second&id=q007")
    expect(page.locator("section[data-name=base]")).to_contain_text("not answered today")
    used.get_by_role("link", name="second").click()
    expect(page.locator("h1")).to_contain_text("second / items / q007")


def test_bars_of_one_range_share_a_scale_and_no_p_is_without_an_interval(page, server):
    def exactly(output, expected):
        return float(output == expected)

    def third(output, expected):
        return 0.3 if output == expected else 0.0

    def constant(output):
        return 100.0 if "whale" in output else 101.0

    evaluators = {"exactly": exactly, "third": third, "constant": constant}
    for name, word in (("scale-a", ""), ("scale-b", " whale")):

        async def answer(item, word=word):
            right = int(item.id[1:]) % 4 or not word
            return f"{item.expected if right else 'no'}{word if not right else ''}"

        make(server.directory / name, answer, many=40, evaluators=evaluators)

    async def all_whales(item):
        return "whale"

    make(server.directory / "scale-c", all_whales, many=40, evaluators=evaluators)
    page.show("#/compare?base=scale-a&new=scale-b")
    table = page.get_by_role("table", name="Differences")
    expect(table.locator("tr.scale")).to_have_count(2)  # 0 to 1, and the one without a range

    def width(name):
        band = table.locator(f"tr[data-name={name}] .mean")
        middle = table.locator(f"tr[data-name={name}] .zero")
        return abs(float(band.get_attribute("x")) + 0.5 - float(middle.get_attribute("x")))

    table.locator("tr[data-name=third] .mean").wait_for()
    assert width("third") == pytest.approx(0.3 * width("exactly"), abs=1)
    expect(table.locator("tr.scale").first).to_contain_text("scores from 0 to 1")
    expect(table.locator("tr.scale .tick").nth(2)).to_have_text("0")
    # Each changed by the same amount: without a range, that says nothing about others.
    page.show("#/compare?base=scale-a&new=scale-c")
    row = table.locator("tr[data-name=constant]")
    expect(row).to_contain_text("no interval: all 40 items changed by the same amount")
    assert row.locator("td").all_inner_texts()[3:8] == ["–", "0", "0", "40", "–"]


def test_several_runs_are_ticked_found_by_tag_and_any_is_the_base(page, server, two):
    make(server.directory / "tagged", told(3), many=60, evaluators=EVALUATORS)
    (server.directory / "tagged" / "tags").mkdir()
    (server.directory / "tagged" / "tags" / "spring").touch()
    page.show("#/compare")
    page.locator("summary", has_text="More than two runs").click()
    boxes = page.locator(".ticked")
    for name in ("first", "second"):
        boxes.get_by_label(name, exact=True).check()
    page.get_by_label("Search names and tags").fill("spr")
    expect(boxes.get_by_role("checkbox")).to_have_count(1)
    boxes.get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare 3 runs").click()
    table = page.get_by_role("table", name="Runs compared")
    found = limpet.compare(*(server.directory / name for name in ("first", "second", "tagged")))
    for at, run in enumerate(found.new, 2):
        score = run.scores["closeness"]
        row = table.get_by_role("row").nth(at)
        expect(row).to_contain_text(f"{score.delta:+.3f}".replace("-", "−"))
        expect(row).to_contain_text(VERDICTS[score.verdict])
    expect(table.get_by_role("row").nth(1)).to_contain_text("base")
    table.get_by_role("row", name=re.compile("tagged")).get_by_role("link", name="as base").click()
    expect(table.get_by_role("row").nth(1)).to_contain_text("tagged")
    assert page.url.endswith("#/compare?base=tagged&new=first&new=second")
    table.get_by_role("row", name=re.compile("second")).get_by_role("link", name="changes").click()
    expect(page.get_by_role("table", name="Differences")).to_be_visible()
    assert page.url.endswith("#/compare?base=tagged&new=second")


def variants(server, name, axes):
    """Make a matrix: the runs are copies of one another in all but their answers."""
    folder = server.directory / name
    listed = []
    for at, values in enumerate(axes):
        run = ",".join(f"{axis}={value}" for axis, value in values.items())
        make(folder / run, told(at), many=12, evaluators={"closeness": closeness})
        listed.append({"name": run, "values": values})
    (folder / "matrix.json").write_text(json.dumps({"variants": listed}))
    return [f"{name}/{one['name']}" for one in listed]


def test_a_matrix_is_a_grid_and_each_cell_opens_its_comparison(page, server, two):
    axes = [{"model": model, "prompt": prompt} for model in ("s", "l") for prompt in ("a", "b")]
    runs = variants(server, "grid", axes)
    page.show("#/compare")
    page.locator("summary", has_text="More than two runs").click()
    page.get_by_role("button", name="all 4 of grid").click()
    page.get_by_role("button", name="Compare 4 runs").click()
    grid = page.get_by_role("table", name="closeness of grid")
    expect(grid.get_by_role("row")).to_have_count(3)
    assert grid.get_by_role("columnheader").all_inner_texts() == ["model \\ prompt", "a", "b"]
    expect(grid.locator(".cell")).to_have_count(4)
    for cell in grid.locator(".cell").all():  # told by more than a colour
        assert re.search(r"\d\.\d{3}", cell.inner_text())
    grid.get_by_role("link").last.click()
    expect(page.get_by_role("table", name="Differences")).to_be_visible()
    assert runs[3].split("=")[-1] in page.url


@pytest.mark.slow  # the grid of two axes has the rest
def test_a_matrix_of_three_axes_shows_two_and_lists_the_third(page, server, two):
    axes = [{"x": x, "y": y, "z": z} for x in "ab" for y in "cd" for z in "ef"]
    base, *new = variants(server, "cube", axes)
    page.show("#/compare?base=" + base + "".join(f"&new={one}" for one in new))
    grid = page.get_by_role("table", name="closeness of cube")
    assert grid.get_by_role("columnheader").first.inner_text() == "x \\ z"
    expect(grid.locator("td").first).to_contain_text("y c")
    expect(grid.locator("td").first).to_contain_text("y d")
    page.get_by_label("rows").select_option("y")
    expect(grid.get_by_role("columnheader").first).to_have_text("y \\ z")
    assert "rows=y" in page.url


def test_a_thirteenth_run_is_said_to_be_too_many(page, server, two):
    for number in range(13):
        make(server.directory / f"many-{number:02}", many=2)
    page.show("#/compare")
    page.locator("summary", has_text="More than two runs").click()
    page.get_by_label("Search names and tags").fill("many-")
    boxes = page.locator(".ticked").get_by_role("checkbox")
    expect(boxes).to_have_count(13)
    for at in range(12):
        boxes.nth(at).check()
    boxes.nth(12).click()
    expect(page.locator(".choose [role=status]")).to_contain_text("At most 12 runs")
    expect(boxes.nth(12)).not_to_be_checked()
    expect(page.get_by_role("button", name="Compare 12 runs")).to_be_enabled()
    page.show("#/compare?base=many-00" + "".join(f"&new=many-{n:02}" for n in range(1, 13)))
    expect(page.get_by_role("alert")).to_contain_text("at most 12 are compared at once")
    page.faults[:] = [fault for fault in page.faults if "400" not in fault]


QUERIES = [
    "", "sort=change", "sort=-change", "sort=position", "sort=-position", "direction=better",
    "direction=worse&sort=change", "direction=failed", "direction=recovered", "direction=same",
    "direction=changed", "score=tone", "score=tone&direction=changed&sort=-position",
    "score=closeness", "score=closeness&direction=same&sort=-change", "score=length&sort=-change",
    "score=nothing", "direction=up", "direction=none", "sort=size", "text=WHALE",
    "text=q01&sort=position", "text=sounds%208&direction=worse", "text=not%20answered",
]  # fmt: skip


@pytest.mark.parametrize("trials", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_report_lists_the_changes_as_the_server_does(browser, server, tmp_path, trials):
    base, new = server.directory / f"was-{trials}", server.directory / f"is-{trials}"
    shared = rows(30)
    make(base, told(0), dataset=shared, evaluators=EVALUATORS, trials=trials)
    later = [*shared[:3], {**shared[3], "answer": "answer 33"}, *rows(34)[30:], *shared[5:][::-1]]
    make(new, told(1), dataset=later, evaluators=EVALUATORS, trials=trials)
    made = write_report(new, tmp_path / "both.html", base)
    blocks = blocks_of(made.path)
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.address)
    found = page.evaluate(
        """async ([blocks, queries, names]) => {
            const { ServerSource } = await import("./source.js");
            const { FileSource } = await import("./file_source.js");
            const sources = [new ServerSource(), await FileSource.open((name) => blocks[name])];
            const tell = (ask) => ask().catch(() => "refused");
            const all = [];
            for (const text of queries) {
                const query = new URLSearchParams([...names, ...new URLSearchParams(text)]);
                const both = [];
                for (const source of sources) {
                    const near = await tell(() => source.changeNear(query, "q006", 0));
                    const ask = () => tell(() => source.changes(query, 0, 200));
                    let list = await ask();
                    while (list.left_to_search) list = await ask();
                    both.push({ list, near: query.has("text") ? null : near });
                }
                all.push([text, ...both]);
            }
            return all;
        }""",
        [blocks, QUERIES, [["base", base.name], ["new", new.name]]],
    )
    context.close()

    def plain(value):
        ours = ("received", "not_searched", "not_here", "from")
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items() if name not in ours}
        return value

    lengths = {}
    for question, by_server, by_file in found:
        assert plain(by_file) == plain(by_server), question
        if by_file["list"] != "refused":
            lengths[question] = len(by_file["list"]["rows"])
    assert set(QUERIES) - set(lengths) == {
        "score=nothing", "direction=up", "direction=none", "sort=size",
    }  # fmt: skip
    assert min(lengths["direction=failed"], lengths["text=WHALE"], lengths["score=tone"]) > 0


def test_a_report_lists_changes_and_opens_one_from_disk(page, two, tmp_path):
    made = write_report(two / "second", tmp_path / "both.html", two / "first")
    page.goto(made.path.as_uri() + "#/compare")
    totals(page).locator("li", has_text="closeness").get_by_role(
        "link", name=re.compile("failed now")
    ).click()
    expect(page.locator("[aria-live=polite]")).to_contain_text("closeness failed now")
    ids = first_rows(page)
    page.locator("tbody tr[data-name=row]").first.click()
    expect(page.locator("h1")).to_contain_text(ids[0])
    expect(page.locator("section[data-name=new]")).to_contain_text("not answered today")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_contain_text(ids[1])
    page.keyboard.press("Escape")
    expect(page.locator("tr[aria-selected=true] th")).to_have_text(ids[1])


def test_hostile_texts_do_nothing_beside_each_other(page, server):
    word = "W" * 60_000
    texts = [*HOSTILE, word]

    def judge(output):
        return {text: limpet.Score(len(output["text"]) % 7 / 7, text, text) for text in HOSTILE[:2]}

    for at, name in enumerate(("bad <b>a", "bad <i>b")):
        dataset = [{"id": f"{n} {text[:99]}", "question": text, "answer": text}
                   for n, text in enumerate(texts)]  # fmt: skip

        async def answer(item, at=at):
            trace = [{"kind": item.input, "name": item.input, "input": item.input, "id": "1"}]
            said = item.input + "<img src=x onerror='window.hacked=9'>" * at
            return limpet.Output({"text": said}, None, trace)

        make(server.directory / name, answer, dataset=dataset, evaluators={"judge": judge})
    page.show("#/compare?base=bad+<b>a&new=bad+<i>b")
    expect(totals(page)).to_contain_text("<script>")
    first_rows(page)
    assert page.locator("main script, main img, main i, main .list b").count() == 0
    page.locator("tbody tr[data-name=row]").first.click()
    expect(page.locator("header.of-item")).to_contain_text(re.compile(r"1 of \d"))
    many = int(re.search(r"of (\d+)", page.locator("header.of-item").inner_text())[1])
    assert many > 5
    for number in range(2, many + 1):
        page.keyboard.press("j")
        expect(page.locator("header.of-item")).to_contain_text(f"{number} of {many}")
        page.locator("summary").evaluate_all("(all) => all.forEach((one) => one.click())")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert page.locator("main script, main img, main b:has-text('a'), main i").count() == 0
    page.show("#/compare?base=bad+<b>a&new=bad+<i>b&text=<script>")
    expect(page.locator("[aria-live=polite]")).to_contain_text("answer")
    assert page.evaluate("window.hacked") is None


def test_an_unchanged_comparison_is_not_drawn_anew(page, two):
    page.show(f"#/{BOTH}")
    first_rows(page)
    page.evaluate("""() => {
        window.drawn = 0;
        new MutationObserver((all) => { window.drawn += all.length; })
            .observe(document.querySelector("main"),
                { childList: true, subtree: true, attributes: true, characterData: true });
    }""")
    for _ in range(2):
        with page.expect_response(lambda response: "api/changes" in response.url) as asked:
            pass
        assert asked.value.status == 304
    assert page.evaluate("window.drawn") == 0


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_on_a_phone_both_answers_are_below_each_other_and_nothing_is_cut(page, two, scheme):
    page.set_viewport_size({"width": 375, "height": 700})
    page.emulate_media(color_scheme=scheme)
    for view in (BOTH, f"{BOTH}&new=third", "pair?base=first&new=second&id=q003"):
        page.show(f"#/{view}")
        page.locator("main table").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, view
    base, new = (
        page.locator(f"section[data-name={one}]").bounding_box() for one in ("base", "new")
    )
    assert new["y"] >= base["y"] + base["height"]


def test_a_field_divides_the_differences_as_the_terminal_does(page, server):
    for seed, name in enumerate(("by-one", "by-two")):
        make(server.directory / name, told(seed), many=20)
    page.show("#/compare?base=by-one&new=by-two")
    page.get_by_label("By field").select_option("topic")
    table = page.get_by_role("table", name="closeness by topic")
    found = limpet.compare(server.directory / "by-one", server.directory / "by-two", by="topic")
    slices = found.new[0].scores["closeness"].slices
    assert len(slices) == 2
    for one in slices:
        row = table.locator(f'tr[data-name="{one.value}"]')
        expect(row).to_contain_text(str(one.difference.n))
        expect(row).to_contain_text(f"{one.difference.delta:+.3f}".replace("-", "−"))
    assert page.url.endswith("by=topic")
    expect(page.locator("section.changes tbody tr[data-name=row]").first).to_be_visible()
