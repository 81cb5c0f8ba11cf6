"""What was said, as a person reads it: Markdown, chats, JSON, images, and the raw text of all.

What would break "it is read well, and what a model wrote does nothing":

| promise | what would break it | tested by |
|---|---|---|
| text stays text | HTML, scripts and styles in Markdown, in chats, in JSON, in names of images | `test_hostile_markdown…`, `test_hostile_chats…` |
| a link goes where it says | `javascript:`, `data:text/html`, a text that is another address, bidi | `test_hostile_markdown…` |
| nothing is requested | images of Markdown and chats by address, SVG | `test_hostile_markdown…`, `test_images_in_answers…` |
| the page answers | a megabyte of one word, 10,000 brackets or quotes, deep lists, huge tables, deep JSON, very many keys | `test_the_page_answers…`, `test_json_is_a_tree…` |
| JSON is shown as it is | `__proto__` as a key, numbers of many digits, a role that is an object | `test_hostile_chats…`, `test_json_is_a_tree…` |
| images of the dataset alone | links, `..`, hidden and absolute paths, another dataset, SVG, a bomb, a text with the name of an image | `test_images_of_the_dataset…`, tests/unit/view/test_images.py |
| raw text is the text | characters replaced on the page; a redraw that folds what was unfolded, or empties a note | `test_the_raw_text…` |
"""  # noqa: E501 - a table

import base64
import json
import os
import re
import struct
import zlib

import pytest

import limpet
from browser.page_runs import HOSTILE
from limpet.view.html_report import write_report

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=20_000)


def png(width, height, rows=None):
    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    rows = (b"\0" + bytes(3 * width)) * height if rows is None else rows
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def data_url(content, kind="png"):
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


SAYS = """# Returns

You can **return** it, see [the policy](https://shop.example/returns).

- in a shop
- by mail

| item | days |
|---|---:|
| shoes | 30 |

```python
refund = "<b>all</b>"
```
"""
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": data_url(png(6, 4))}},
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}},
    ]},
    {"role": "assistant", "content": "Let me look.", "tool_calls": [
        {"id": "c1", "type": "function",
         "function": {"name": "look_up", "arguments": '{"size": [6, 4]}'}},
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"found": "black"}'},
    {"role": "assistant", "content": [
        {"type": "tool_use", "id": "t1", "name": "paint", "input": {"with": "red"}},
        {"type": "text", "text": "It was **black**."},
    ]},
]  # fmt: skip


def evaluated(server, name, answers, rows=None, evaluators=(), dataset=None):
    """Make a run whose items are answered with the given values, and return its folder."""
    rows = rows or [{"id": id_, "question": id_} for id_ in answers]
    folder = server.directory / name
    limpet.evaluate(
        dataset or rows, lambda item: answers[item.id], list(evaluators), version="1", show=False,
        run=limpet.Run(folder, durability="flush"),
    )  # fmt: skip
    return folder


def output(page, run, id_, more=""):
    page.show(f"#/item?run={run}&id={id_}{more}")
    expect(page.locator("h1")).to_contain_text(id_)
    return page.locator("section[data-name=output]")


def test_markdown_is_read_and_a_plain_sentence_is_not_touched(page, server):
    plain = "2 * 3 * 4 = 24 and __init__.py, [1] # no heading\nx_y_z - 1"
    evaluated(server, "markdown", {"md": SAYS, "plain": plain})
    said = output(page, "markdown", "md")
    expect(said.get_by_role("heading", name="Returns")).to_be_visible()
    expect(said.get_by_role("listitem")).to_have_text(["in a shop", "by mail"])
    expect(said.get_by_role("cell")).to_have_text(["shoes", "30"])
    expect(said.locator(".code pre")).to_have_text('refund = "<b>all</b>"')
    link = said.get_by_role("link")
    expect(link).to_have_attribute("href", "https://shop.example/returns")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(said).to_contain_text("the policy (https://shop.example/returns)")
    expect(output(page, "markdown", "plain").locator("pre.text")).to_have_text(plain)


def test_hostile_markdown_is_text_and_its_links_say_where_they_go(page, server):
    hostile = "\n\n".join([
        "**bold**", *HOSTILE,
        "<style>body { display: none }</style>",
        "[a](javascript:window.hacked=8)", "[b](data:text/html,<script>alert(1)</script>)",
        "[c](JaVaScRiPt&colon;alert(1))", "[d](vbscript:x)", "[e](/api/runs)", "[](https://no.example)",
        "[https://bank.example](https://evil.example)", "[f](https://evil.example/\u202egnp.exe)",
        "![g](http://127.0.0.1:9/pixel.png)", "![h](javascript:alert(1))",
        '[i](https://j.example "a title")', "<https://auto.example>",
        "&lt;img src=x onerror=alert(1)&gt;",
        "[k]: https://hidden.example", "```<b>\nx\n```",
    ])  # fmt: skip
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    evaluated(server, "hostile_md", {"a": hostile})
    said = output(page, "hostile_md", "a")
    expect(said.locator("strong").first).to_have_text("bold")
    hrefs = [link.get_attribute("href") for link in said.get_by_role("link").all()]
    assert all(href.startswith("https://") for href in hrefs)
    for seen in ("a (javascript:window.hacked=8)", "https://bank.example (https://evil.example)",
                 "(https://no.example)", "image: g (http://127.0.0.1:9/pixel.png)",
                 "i (https://j.example) a title", "<style>body { display: none }</style>",
                 "[k]: https://hidden.example", "␣202E"):  # fmt: skip
        expect(said).to_contain_text(seen)
    assert said.locator("img, script, style, b, iframe").count() == 0
    assert page.evaluate("window.hacked") is None
    assert all(url.startswith(server.base) for url in asked)


def test_a_chat_is_a_conversation_with_its_calls_of_tools(page, server):
    trace = [
        {"kind": "model", "name": "m", "input": {"messages": CHAT[:2], "temperature": 0},
         "output": {"choices": [{"message": CHAT[2]}]}},
        {"kind": "tool", "name": "look_up", "input": {"size": 6}, "output": {"found": "black"}},
    ]  # fmt: skip
    answers = {"a": limpet.Output(CHAT, trace=trace), "b": limpet.Output("x", trace=CHAT)}
    evaluated(server, "chats", answers, [{"id": one, "question": CHAT[:2]} for one in "ab"])
    said = output(page, "chats", "a")
    expect(said.locator(".turn > .who b")).to_have_text(
        ["system", "user", "assistant", "tool", "assistant"]
    )
    expect(said.locator(".call").nth(0)).to_contain_text("look_up")
    expect(said.locator(".call").nth(0)).to_contain_text("size [6,4]")
    expect(said.locator(".call").nth(1)).to_contain_text("paint")
    expect(said).to_contain_text("image, not loaded: http://127.0.0.1:9/x.png")
    expect(said.locator("img")).to_have_count(1)
    assert said.locator("img").evaluate("(img) => img.decode().then(() => img.naturalWidth)") == 6
    expect(said.locator("strong")).to_have_text("black")
    page.locator(".trace .name").evaluate_all("(all) => all.forEach((one) => one.click())")
    expect(page.locator(".event").nth(0).locator(".turn > .who b")).to_have_text(
        ["system", "user", "assistant"]
    )
    expect(page.locator(".event").nth(0)).to_contain_text("temperature 0")
    expect(page.locator(".event").nth(1).locator("h4")).to_have_text(["arguments", "result"])
    # Of a trace of messages, a call has its result, and what was said beside it is there.
    output(page, "chats", "b")
    expect(page.locator(".event .name")).to_have_text(
        [
            "system",
            "user",
            "assistant",
            'look_up {"size": [6, 4]} → {"found": "black"}',
            "assistant",
        ]
    )


def test_hostile_chats_and_json_do_nothing(page, server):
    def nested(depth):
        text = {"role": "user", "content": "end"}
        for _ in range(depth):
            text = {"role": "user", "content": [{"type": "tool_result", "content": [text]}]}
        return text

    answers = {
        "roles": [{"role": {"x": 1}, "content": "<b>1</b>"}, {"role": "user", "content": "y"}],
        "parts": [{"role": text, "name": text, "content": [{"type": text}, {"type": "image"},
                   {"type": "text", "text": {"a": [text]}}],
                   "tool_calls": [None, text, {"function": text}]}
                  for text in HOSTILE],
        "proto": '{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"x": 2}}}',
        "deep": nested(40),
        "brackets": "[" * 100_000 + "]" * 100_000,
        "digits": '{"id": 12345678901234567890}',
    }  # fmt: skip
    evaluated(server, "hostile_chats", answers)
    expect(output(page, "hostile_chats", "roles").locator(".tree").first).to_contain_text(
        "<b>1</b>"
    )
    expect(output(page, "hostile_chats", "parts").locator(".turn")).to_have_count(len(HOSTILE))
    assert page.locator(".readable :is(b:not(.who b), img, script)").count() == 0
    expect(output(page, "hostile_chats", "proto").locator(".key").first).to_have_text("__proto__")
    expect(output(page, "hostile_chats", "deep").locator(".turn").first).to_be_visible()
    expect(output(page, "hostile_chats", "brackets").locator("pre, .tree").first).to_be_visible()
    expect(output(page, "hostile_chats", "digits")).to_contain_text("12345678901234567890")
    assert page.evaluate("[window.hacked, ({}).polluted, ({}).x]") == [None] * 3


HUGE = {
    "word": "a" * 2**20, "bold": "**a** " + "b" * 2**20, "brackets": "**a**\n" + "[" * 10_000,
    "quotes": "**a**\n\n" + ">" * 10_000, "stars": "**a**" + "*a " * 16_000,
    "bangs": "**a**" + "![" * 20_000,
    "lists": "\n".join(f"{' ' * 2 * n}- a" for n in range(200)),
    "columns": "|" + "a|" * 5_000 + "\n|" + "-|" * 5_000 + "\n" + "|\n" * 5_000,
    "rows": "|a|b|\n|-|-|\n" + "|a|b|\n" * 8_000, "headings": "# a\n\n" * 9_000,
    "cells": "|a|b|\n|-|-|\n|1|2|\n|1|2|nobody would see this|\n",
}  # fmt: skip


def test_the_page_answers_whatever_the_size_and_shape_of_a_text(page, server):
    evaluated(server, "huge_md", HUGE)
    for name in HUGE:
        said = output(page, "huge_md", name)
        expect(said.locator(".text").first).to_be_visible()
        page.keyboard.press("r")
        expect(said.get_by_role("button", name="Copy")).to_have_count(1)
        expect(said.locator("pre.text")).to_contain_text(HUGE[name][:5])
        page.keyboard.press("r")
        expect(said.get_by_role("button", name="Copy")).to_have_count(0)
    cells = "shown as text: a row of its table has more cells than its head"
    expect(output(page, "huge_md", "cells")).to_contain_text(cells)
    expect(output(page, "huge_md", "quotes")).to_contain_text("shown as text: nested too deeply")
    expect(output(page, "huge_md", "columns")).to_contain_text(
        "shown as text: its table is too large"
    )


def test_json_is_a_tree_that_unfolds_and_stays_unfolded(page, server):
    value = {"name": "x", "list": list(range(1_000)),
             "deep": {"a": {"b": [{"c": n, "text": SAYS} for n in range(60)]}}}  # fmt: skip
    evaluated(server, "trees", {"a": value, "many": {f"k{n}": n for n in range(100_000)}})
    said = output(page, "trees", "a")
    expect(said.locator("summary", has_text="list")).to_contain_text("[1,000 entries]")
    said.locator("summary", has_text="list").click()
    expect(said.get_by_role("listitem").filter(has_text=re.compile("^99 99$"))).to_be_visible()
    expect(said.get_by_text("100 more of 900")).to_be_visible()
    said.get_by_text("100 more of 900").click()
    expect(said.get_by_text("100 more of 800")).to_be_visible()
    expect(said.get_by_role("listitem").filter(has_text=re.compile("^199 199$"))).to_be_visible()
    page.locator("summary", has_text="everything as JSON").click()  # draws the page again
    page.locator("details[open] pre").last.wait_for()
    expect(said.get_by_role("listitem").filter(has_text=re.compile("^199 199$"))).to_be_visible()
    assert page.locator("section[data-name=output] li").count() < 500


def test_images_in_answers_are_data_of_four_kinds_and_no_others(page, server):
    bad = {
        "svg": "data:image/svg+xml;base64," + base64.b64encode(b"<svg onload=alert(1)>").decode(),
        "liar": data_url(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        "html": data_url(b"GIF89a<script>alert(1)</script>\0" * 20)[:200] + "!",
        "bomb": data_url(png(60_000, 60_000, b"")),
        "remote": '[{"role": "user", "content": [{"type": "image_url", "image_url": "http://127.0.0.1:9/"}]}]',
    }  # fmt: skip
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    noise = png(300, 300, os.urandom(300 * 901))
    chat = [{**CHAT[0], "content": [{"type": "input_image", "image_url": data_url(noise)}]}]
    evaluated(server, "images", {**bad, "good": data_url(png(3, 2)), "large": chat})
    for name in bad:
        said = output(page, "images", name)
        expect(said.locator(".unseen")).to_be_visible()
        assert said.locator("img").count() == 0, name
    expect(output(page, "images", "bomb")).to_contain_text("too many pixels, 60000 × 60000")
    expect(output(page, "images", "good").locator("img")).to_have_attribute("width", "3")
    # It is far larger than a text that is shown, and is no text.
    large = output(page, "images", "large").locator("img")
    expect(large).to_have_attribute("width", "300")
    page.keyboard.press("r")
    expect(page.locator("section[data-name=output] .unseen")).to_contain_text("copy it for all")
    assert all(url.startswith((server.base, "data:image/png")) for url in asked)


def test_images_of_the_dataset_are_shown_until_it_changes_and_a_report_says_they_are_not_there(
    page, server, tmp_path
):
    folder = server.directory.parent / "photos"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "a.png").write_bytes(png(5, 7))
    (folder / "b.gif").write_text("<svg onload=alert(1)>")
    (folder / "c.png").symlink_to(folder / "in" / "a.png")
    rows = [{"id": "q", "question": "What is it?", "photo": "in/a.png",
             "others": ["b.gif", "c.png", "../out.png", "http://127.0.0.1:9/d.png"]}]  # fmt: skip
    dataset = folder / "rows.jsonl"
    dataset.write_text(json.dumps(rows[0]))
    run = evaluated(server, "photos", {"q": "a"}, rows, dataset=dataset)
    page.show("#/item?run=photos&id=q")
    given = page.locator("section[data-name=input]")
    image = given.locator("img")
    expect(image).to_have_attribute("alt", "in/a.png")
    assert image.evaluate(
        "(img) => img.decode().then(() => [img.naturalWidth, img.naturalHeight])"
    ) == [5, 7]
    expect(given.locator(".unseen")).to_have_text([
        "b.gif: not shown: is no PNG, JPEG, WebP or GIF",
        "c.png: not shown: no such file in the dataset's folder",
    ])  # fmt: skip
    made = write_report(run, tmp_path / "photos.html")
    assert "3 images of the dataset are not in this file: in/a.png, b.gif, c.png." in made.left_out
    dataset.write_text(json.dumps({**rows[0], "more": 1}))
    page.reload()
    expect(given.locator(".unseen").first).to_contain_text("the dataset has changed since the run")
    assert given.locator("img").count() == 0


def test_the_raw_text_is_one_key_away_stays_in_the_address_and_is_copied_exactly(page, server):
    text = "**bold** \u202e \u0000 <b>x</b>\n\n- a\n- b\n"
    trace = [{"kind": "tool", "name": "t", "input": {"n": 1}, "output": "**x**"}]

    def judge(output):
        return limpet.Score(0.5, "so", "**why**", metadata={"m": 1})

    evaluated(server, "raw", {one: limpet.Output(text, trace=trace) for one in "ab"}, None, [judge])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    said = output(page, "raw", "a")
    expect(said.locator("strong")).to_have_text("bold")
    page.locator(".trace .name").click()
    page.get_by_label("Note").fill("half a note")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="raw text")).to_have_attribute("aria-pressed", "true")
    expect(said.locator("pre.text")).to_contain_text("**bold** ␣202E")
    expect(page.locator(".reason")).to_contain_text("**why**")
    expect(page.locator(".event pre.text").first).to_have_text('{\n  "n": 1\n}')
    expect(page.get_by_label("Note")).to_have_value("half a note")
    said.get_by_role("button", name="Copy").click()
    expect(said.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == text
    assert "raw=1" in page.url
    page.keyboard.press("j")
    expect(page.locator("h1")).to_contain_text("b")
    expect(said.locator("pre.text")).to_contain_text("**bold**")
    page.keyboard.press("r")
    expect(said.locator("strong")).to_have_text("bold")
    assert "raw=" not in page.url


def test_expected_is_beside_the_output_which_is_wider_and_short_texts_show_their_difference(
    page, server
):
    rows = [
        {"id": one, "question": "q", "answer": "It is **red** now"} for one in ("short", "long")
    ]
    evaluated(server, "sides", {"short": "It is **blue** now", "long": "word " * 300}, rows)
    said = output(page, "sides", "short")
    expect(said.locator("del")).to_have_text("**red** ")
    expect(said.locator("ins")).to_have_text("**blue** ")
    expect(said.locator("strong")).to_have_text("blue")
    boxes = [
        page.locator(f"section[data-name={one}]").bounding_box()
        for one in ("input", "expected", "output")
    ]
    assert boxes[0]["width"] < boxes[1]["width"] < boxes[2]["width"]
    assert boxes[0]["y"] == boxes[1]["y"] == boxes[2]["y"]
    page.set_viewport_size({"width": 375, "height": 800})
    boxes = [
        page.locator(f"section[data-name={one}]").bounding_box()
        for one in ("input", "expected", "output")
    ]
    assert boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    said = output(page, "sides", "long")
    expect(said.locator("ins")).to_have_count(0)
    page.get_by_role("button", name="compare with expected").click()
    expect(said.locator("ins")).to_have_count(1)


def test_an_id_of_two_halves_of_a_character_opens(page, server):
    ids = ["\ud800\udc00", "x\ud800\udc00\ud800", "\udc00"]
    evaluated(server, "halves", dict.fromkeys([*ids, "\U00010000", "x\U00010000\ud800"], "said"),
              [{"id": id_, "question": "q"} for id_ in ids])  # fmt: skip
    page.show("#/items?run=halves")
    for number in range(len(ids)):
        page.locator("tbody tr[data-name=row]").nth(number).click()
        expect(page.locator("section[data-name=output]")).to_contain_text("said")
        expect(page.locator("header.of-item")).to_contain_text(f"{number + 1} of {len(ids)}")
        page.keyboard.press("Escape")


def test_an_item_with_an_empty_field_is_shown(page, server):
    rows = [{"id": "a", "question": "q", "photo": None, "notes": 5}]
    evaluated(server, "empty_field", {"a": "said"}, rows)
    expect(output(page, "empty_field", "a")).to_contain_text("said")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_report_reads_the_same_from_disk(browser, server, tmp_path):
    run = evaluated(server, "filed", {"md": SAYS, "chat": CHAT, "json": {"a": {"b": 1}}})
    write_report(run, tmp_path / "filed.html")
    context = browser.new_context(offline=True)
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: message.type == "error" and faults.append(message.text))
    address = (tmp_path / "filed.html").as_uri()
    page.goto(f"{address}#/item?id=md")
    expect(page.locator(".prose table")).to_contain_text("shoes")
    page.goto(f"{address}#/item?id=chat")
    expect(page.locator("section[data-name=output] .turn")).to_have_count(5)
    assert page.locator("img").evaluate("(img) => img.decode().then(() => img.naturalWidth)") == 6
    page.goto(f"{address}#/item?id=json")
    expect(page.locator("section[data-name=output] .tree").first).to_contain_text("b 1")
    page.keyboard.press("r")
    expect(page.locator("section[data-name=output] pre")).to_contain_text('"b": 1')
    context.close()
    assert faults == []
