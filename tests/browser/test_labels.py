"""Labels as a person gives them: in a real browser, by the keyboard alone."""

import json
import os
import re

import pytest
from click.testing import CliRunner

import limpet
from limpet.cli.commands import cli

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=20_000)
ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(30)]


@limpet.evaluator(name="right")
def judge(output):
    """Say that every third answer is bad."""
    is_good = int(output) % 3 > 0
    return limpet.Score(is_good, "good" if is_good else "bad", f"the judge's reason {output}")


@limpet.evaluator(range=(0, 10))
def length(output):
    return len(output) / 2


def make(server, name, drawn=10, evaluators=(judge,)):
    folder = server.directory / name
    result = limpet.evaluate(
        ROWS, lambda question: question.split()[-1], list(evaluators), version="1", show=False,
        run=limpet.Run(folder, durability="flush"),
    )  # fmt: skip
    result.sample(drawn, server.directory.parent / f"{name}.csv", seed=1)
    return folder


def lines(folder):
    return [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]


def tab_to(page, name):
    for _ in range(30):
        page.keyboard.press("Tab")
        if re.search(name, page.evaluate("document.activeElement.innerText") or ""):
            return
    raise AssertionError(f"no key leads to {name}")


def test_ten_drawn_answers_are_labelled_with_the_keyboard_alone(page, server):
    folder = make(server, "drawn")
    page.show("#/run?run=drawn")
    page.get_by_role("link", name="Label: 0 of 10 done").wait_for()
    tab_to(page, "Label: 0 of 10")
    page.keyboard.press("Enter")
    seen = []
    for number in range(10):
        expect(page.locator(".label")).to_contain_text(f"{number} of 10 labelled")
        output = page.locator("section[data-name=output] pre").inner_text()
        seen.append(output)
        assert "the judge's reason" not in page.content()
        page.keyboard.press("1" if int(output) % 3 or int(output) < 6 else "2")
        if number == 4:
            page.keyboard.press("n")
            page.keyboard.type("j, k and 1 are letters here")
        page.keyboard.press("Enter")
        if number < 9:
            expect(page.locator(".label")).to_contain_text(re.compile(f"saved: .* {number + 1} of"))
    expect(page.locator(".label")).to_contain_text("10 of 10 labelled")
    expect(page.locator(".card")).to_contain_text("the judge's reason")
    assert len(set(seen)) == 10
    assert seen != sorted(seen, key=int)
    kept = lines(folder)
    assert [line.get("seen") for line in kept] == [None] * 10
    assert kept[4]["note"] == "j, k and 1 are letters here"
    result = CliRunner().invoke(cli, ["calibrate", os.fspath(folder), "right", "--json"])
    found = json.loads(result.stdout)
    assert (found["drawn"], found["corrected"]["n_labelled"]) == (10, 10)
    assert found["corrected"]["mean"] > found["corrected"]["raw"]
    assert {one["id"] for one in found["disagreements"]} == {"q0", "q3"} & {f"q{n}" for n in seen}


def test_a_label_is_changed_and_taken_back(page, server):
    folder = make(server, "changed", drawn=2, evaluators=(judge, length))
    drawn = json.loads((folder / "people.json").read_text())["draws"][0]["cells"]
    other = next(row["id"] for row in ROWS if row["id"] not in {cell["id"] for cell in drawn})
    page.show(f"#/item?run=changed&id={other}")
    expect(page.locator(".card").first).to_contain_text("the judge's reason")
    page.get_by_label("good").check()
    page.get_by_label("Note").fill("<img src=x onerror='window.hacked = 1'> a\u202eb")
    page.get_by_role("button", name="Keep").click()
    expect(page.locator(".label")).to_contain_text(f"saved: good for {other}")
    page.get_by_role("button", name="Change").wait_for()
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    expect(page.locator(".label")).to_contain_text(f"saved: bad for {other}")
    page.get_by_role("button", name="Take back").click()
    expect(page.locator(".label")).to_contain_text("taken back")
    page.get_by_role("button", name="Keep").click()
    expect(page.locator(".label [role=alert]")).to_have_text("Choose a label first.")
    page.get_by_label("Score to label").select_option("length")
    field = page.get_by_label("A number from 0 to 10")
    field.wait_for()
    page.keyboard.press("l")
    expect(field).to_be_focused()
    page.keyboard.type("3.5")
    page.keyboard.press("Enter")
    expect(page.locator(".label")).to_contain_text(f"saved: 3.5 for {other}")
    assert [line["label"] for line in lines(folder)] == ["good", "bad", None, "3.5"]
    page.show("#/items?run=changed&score=length&labelled=1")
    expect(page.locator("tbody tr[data-name=row]")).to_contain_text("3.5")
    page.show("#/items?run=changed&draw=1")
    expect(page.locator("tbody tr[data-name=row]").first).to_contain_text("hidden")
    assert page.evaluate("window.hacked") is None


def test_what_is_typed_stays_when_the_page_refreshes_and_when_a_label_is_not_kept(page, server):
    folder = make(server, "typed", drawn=1)
    cell = json.loads((folder / "people.json").read_text())["draws"][0]["cells"][0]
    page.set_viewport_size({"width": 360, "height": 700})
    page.emulate_media(color_scheme="dark")
    page.show(f"#/item?run=typed&draw=1&id={cell['id']}")
    page.get_by_label("Note").fill("a long thought")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    (folder / "precious").touch()
    (folder / "labels.jsonl").hardlink_to(folder / "precious")  # is not written to
    page.keyboard.press("Enter")
    expect(page.locator(".label [role=alert]")).to_contain_text("not saved: ")
    expect(page.get_by_label("Note")).to_have_value("a long thought")
    expect(page.get_by_label("good")).to_be_checked()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(".card").count() == 0
    (folder / "labels.jsonl").unlink()
    page.get_by_role("button", name="Keep").click()
    expect(page.locator(".label")).to_contain_text("saved: good")
    assert lines(folder)[0]["note"] == "a long thought"
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.faults[:] = [fault for fault in page.faults if "status of" not in fault]
