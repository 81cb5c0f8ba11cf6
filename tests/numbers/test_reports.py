"""What a comparison writes: Markdown for a pull request, a screen, JSON; and hostile texts."""

import shutil

import pytest
from markdown_it import MarkdownIt

import limpet as library
from tests.numbers.command import limpet
from tests.numbers.reading import compare, flips
from tests.numbers.runs import rows

HOSTILE = {
    "a table's bar": "a | b | c",
    "a new line": "one\ntwo\r\nthree",
    "a script": "<script>alert(1)</script>",
    "an image that calls home": "<img src=x onerror=alert(1)> ![x](http://evil.example/x.png)",
    "a link": "[click](javascript:alert(1))",
    "a fence": "```\n# not a heading\n```",
    "a comment that hides the rest": "<!-- hidden",
    "the end of a details block": "</details></td></table>",
    "a heading": "# HUGE",
    "a backslash before a bar": "a \\| b",
    "escape codes": "\x1b]0;owned\x07\x1b[2J\x9b31m",
    "text from right to left": "\u202eevil\u2066",
    "a null and a vertical tab": "nul\x00 vt\x0b",
    "half a pair": "half \ud800 pair",
    "a formula": "=HYPERLINK(1)",
    "many backticks": "`` ` ``` ````",
}
FORBIDDEN = ["\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\x00", "\x0b"]


@pytest.fixture(scope="module")
def hostile(shelf):
    """Two runs in which every item flipped, with hostile texts wherever there is text."""
    texts = list(HOSTILE.values())
    dataset = [
        {
            "id": f"{n} {text}".encode("utf-8", "replace").decode(),
            "question": text.encode("utf-8", "replace").decode(),
            "answer": "x",
            "topic": text.encode("utf-8", "replace").decode(),
        }
        for n, text in enumerate(texts)
    ]

    def say(id_, score):
        return f"{texts[int(id_.split()[0])]} {score}"

    count = len(texts)
    return [shelf(letter * count, dataset=dataset, say=say) for letter in "10"]


def rendered(text):
    return MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)


def inline(tokens):
    for token in tokens:
        yield token
        yield from inline(token.children or [])


@pytest.fixture(scope="module")
def report(hostile, tmp_path_factory):
    """What came of a comparison of the two hostile runs, and where its Markdown should be."""
    file = tmp_path_factory.mktemp("markdown") / "report.md"
    done = limpet("compare", *hostile, "--markdown", file, "--flips", 50, "--by", "topic",
                  "--fail-if-worse", "correct=0.05")  # fmt: skip
    return done, file


def markdown(report):
    done, file = report
    assert done.code in {1, 4}, done.said
    return file.read_text(encoding="utf-8")


def test_no_text_of_a_dataset_becomes_html(report):
    page = markdown(report)
    html = "".join(
        token.content for token in inline(rendered(page)) if token.type.startswith("html")
    )
    assert not [word for word in ("script", "img", "onerror", "<!-- hidden") if word in html]
    assert html.count("</details>") == html.count("<details")


def test_no_text_of_a_dataset_becomes_a_link_or_an_image(report):
    page = markdown(report)
    found = [
        token.attrs for token in inline(rendered(page)) if token.type in {"link_open", "image"}
    ]
    assert "javascript" not in str(found)
    assert "evil.example" not in str(found)


def test_no_text_of_a_dataset_breaks_a_table_or_adds_a_heading(report):
    page = markdown(report)
    tokens = rendered(page)
    widths = []
    for token in tokens:
        if token.type == "table_open":
            widths.append([])
        elif token.type == "tr_open":
            widths[-1].append(0)
        elif token.type in {"td_open", "th_open"}:
            widths[-1][-1] += 1
    assert widths
    assert all(len(set(table)) == 1 for table in widths)
    headings = [tokens[n + 1].content for n, one in enumerate(tokens) if one.type == "heading_open"]
    assert not [text for text in headings if "HUGE" in text or "not a heading" in text]


def test_the_page_has_no_control_characters(report):
    page = markdown(report)
    assert not [character for character in FORBIDDEN if character in page]


def test_the_page_says_verdict_delta_and_interval(report):
    page = markdown(report)
    assert "correct" in page
    assert "worse" in page
    assert "95%" in page


def test_nobody_is_notified_by_an_answer(shelf, tmp_path):
    # An answer is shown from where it differs.
    runs = [
        shelf(letter * 4, say=lambda *_, name=name: f"{name} @octocat, see #12")
        for letter, name in (("1", "ask"), ("0", "tell"))
    ]
    limpet("compare", *runs, "--markdown", tmp_path / "report.md")
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    plain = [token.content for token in inline(rendered(page)) if token.type == "text"]
    assert "octocat" in page
    assert not [text for text in plain if "@octocat" in text]


def test_a_page_of_huge_answers_fits_a_pull_request(shelf, tmp_path):
    runs = [shelf(letter * 12, say=lambda id_, _: f"{id_} {'ü' * 60_000}") for letter in "10"]
    done = limpet("compare", *runs, "--markdown", tmp_path / "report.md", "--flips", 1000)
    assert done.code == 0, done.said
    page = (tmp_path / "report.md").read_bytes()
    assert 100 < len(page) < 1_048_576
    page.decode()  # not cut in the middle of a character


def test_an_existing_page_is_replaced_since_a_pipeline_writes_it_again(shelf, tmp_path):
    (tmp_path / "report.md").write_text("of yesterday", encoding="utf-8")
    done = limpet("compare", shelf("1101"), shelf("1111"), "--markdown", tmp_path / "report.md")
    assert done.code == 0, done.said
    assert "yesterday" not in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_screen_has_no_control_characters(hostile):
    done = limpet("compare", *hostile, "--flips", 50, "--by", "topic")
    assert done.code == 0, done.said
    assert not [character for character in FORBIDDEN if character in done.said]


def test_json_has_the_texts_as_they_are(hostile):
    found = flips(compare(*hostile, "--flips", 50))
    ids = {flip["id"] for flip in found}
    assert "2 <script>alert(1)</script>" in ids
    assert len(ids) == len(HOSTILE)


def test_stdout_is_one_object_and_talk_goes_to_stderr(shelf):
    done = limpet("compare", shelf("1101"), shelf("110f"), "--json")
    assert done.code == 0, done.said
    assert isinstance(done.json, dict)
    assert len(done.out.splitlines()) == 1


def test_unicode_ids_pair_by_what_they_are_and_not_by_how_they_look(shelf):
    names = ["é", "e\u0301", "日本", "🦪", " q", "Q", "q", "٣"]
    dataset = [{**row, "id": name} for row, name in zip(rows(8), names, strict=True)]
    new = shelf("11111110", dataset=dataset)
    found = compare(shelf("1" * 8, dataset=dataset), new)
    assert [flip["id"] for flip in flips(found)] == ["٣"]


def test_a_masked_answer_is_compared_by_its_score_and_its_secret_is_nowhere(tmp_path):
    from tests.numbers.runs import make

    secret = "tr0ub4dor-and-3"  # noqa: S105
    for name, answers in (("a", "1100"), ("b", "1010")):
        said = f"{name}: {secret}"
        make(tmp_path / name, answers, say=lambda *_, said=said: said, secrets=[secret])
    done = limpet("compare", tmp_path / "a", tmp_path / "b", "--markdown", tmp_path / "report.md")
    assert done.code == 0, done.said
    written = done.said + (tmp_path / "report.md").read_text(encoding="utf-8")
    assert secret not in written
    assert "[redacted]" in written


def test_runs_whose_names_are_values_of_a_matrix_are_compared(shelf, tmp_path):
    for name, answers in (("model=a,prompt=p1.txt", "1100"), ("model=b,prompt=p1.txt", "1111")):
        shutil.copytree(shelf(answers), tmp_path / "runs/bot" / name)
    found = compare(
        "runs/bot/model=a,prompt=p1.txt", "runs/bot/model=b,prompt=p1.txt", cwd=tmp_path
    )
    assert found["new"][0]["scores"]["correct"]["better"] == 2


def test_a_run_is_found_by_its_name_under_runs(shelf, tmp_path):
    for name, answers in (("base", "1100"), ("new", "1111")):
        shutil.copytree(shelf(answers), tmp_path / "runs" / name)
    found = compare("base", "new", cwd=tmp_path)
    assert "base" in str(found["base"])
    assert "new" in str(found["new"][0]["run"])


def test_compare_is_a_public_name():
    assert "compare" in library.__all__
