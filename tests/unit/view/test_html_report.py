"""A report as a file: its contents, how it is written, and which paths are refused."""

import base64
import hashlib
import json
import os
import re
import zlib
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scored_runs import make, rows, scored_by

import limpet
from limpet.journal import files
from limpet.run.calibrating.judged import output_of
from limpet.run.calibrating.labelling import Labelling
from limpet.run.calibrating.sampling import Drawn
from limpet.run.reading import RunReader
from limpet.run.results.score_words import ScoreName
from limpet.view import report_data
from limpet.view.html_report import bundle, write_report
from limpet.view.server import PAGES


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    dataset = rows(30)
    made = {"base": "1" * 20 + "0" * 9 + "f", "new": "1" * 14 + "0" * 16}
    return {name: make(folder / name, answers, dataset=dataset) for name, answers in made.items()}


def blocks_of(path):
    """Return the data of a report by block."""
    pattern = r'<script type="text/plain" id="([^"]+)">([^<]*)</script>'
    found = re.findall(pattern, path.read_text())
    return {name: json.loads(unpacked(text)) for name, text in found}


def unpacked(text):
    return zlib.decompress(base64.b64decode(text), 31)


class Tags(HTMLParser):
    """The scripts and styles of a page, its policy, and everything that names an address."""

    def __init__(self, text):
        super().__init__()
        self.inline, self.addresses, self.policy, self._in = [], [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        self.addresses += [attributes[name] for name in ("src", "href") if name in attributes]
        self._in = tag if tag in ("script", "style") and "type" not in attributes else None

    def handle_data(self, data):
        if self._in:
            self.inline.append(data)

    def handle_endtag(self, tag):
        self._in = None


# ---- what is in it ------------------------------------------------------------------------------


def test_it_names_no_address_and_its_policy_allows_its_own_scripts_alone(runs, tmp_path):
    made = write_report(runs["new"], tmp_path / "one.html")
    tags = Tags(made.path.read_text())
    assert tags.addresses == ["data:,"]
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()) for one in tags.inline]
    assert len(digests) == 5
    # What others wrote comes with its licence, and cannot end its element.
    assert all(
        any(name in one for one in tags.inline) for name in ("Leon Sorokin", "Vitaly Puzrin")
    )
    assert not any(
        re.search("</?script|sourceMappingURL", one, re.IGNORECASE) for one in tags.inline
    )
    assert set(re.findall(r"'sha256-([^']+)'", tags.policy)) == {one.decode() for one in digests}
    rest = re.sub(r"'sha256-[^']+' ?", "", tags.policy)
    assert "default-src 'none'" in rest
    assert "unsafe" not in rest
    assert "http" not in rest


def test_it_has_the_numbers_of_the_summary_and_every_item(runs, tmp_path):
    made = write_report(runs["new"], tmp_path / "one.html")
    blocks = blocks_of(made.path)
    run = blocks["head"]["runs"][0]
    summary = limpet.load_run(runs["new"]).summary
    numbers = summary["scores"]["correct"]
    assert run["about"]["summary"]["scores"]["correct"]["mean"] == numbers["mean"]
    assert run["about"]["scores"][0]["mean"] == numbers["mean"]
    assert blocks["table-0"]["ids"] == [f"q{n}" for n in range(30)]
    bodies = {body["id"]: body for body in blocks["texts-0-0"]}
    assert len(bodies) == 30
    assert bodies["q29"]["output"] == {"say": "q29 is False", "score": False}
    assert not any(body["can_label"] for body in bodies.values())
    assert made.left_out == blocks["head"]["note"] == ""
    assert made.bytes == made.path.stat().st_size


def test_with_a_base_it_has_both_runs_and_their_comparison(runs, tmp_path):
    made = write_report(runs["new"], tmp_path / "two.html", runs["base"])
    blocks = blocks_of(made.path)
    assert [run["about"]["run"] for run in blocks["head"]["runs"]] == ["new", "base"]
    compared = blocks["head"]["compare"]["new"][0]
    found = limpet.compare(runs["base"], runs["new"]).new[0].scores["correct"]
    assert compared["scores"]["correct"]["delta"] == found.delta
    changes = blocks["changes"]
    (name, digits), (_, totals) = changes["scores"][0], changes["totals"][0]
    assert name == "correct"
    assert [digits.count(str(at)) for at in range(7)] == list(totals.values())
    assert (totals["better"], totals["same"], totals["worse"]) == (
        found.better, found.same, found.worse,
    )  # fmt: skip
    in_base = [body["id"] for name, body_list in blocks.items() if name.startswith("texts-1")
               for body in body_list]  # fmt: skip
    assert sorted(in_base) == sorted(f"q{n}" for n in range(30))


def test_runs_of_the_same_name_are_told_apart(runs, tmp_path):
    same = tmp_path / "other" / "new"
    same.parent.mkdir()
    make(same, "1" * 30, dataset=rows(30))
    head = blocks_of(write_report(runs["new"], tmp_path / "x.html", same).path)["head"]
    assert [run["about"]["run"] for run in head["runs"]] == ["new", "new (base)"]
    assert head["compare"]["base"]["run"] == "new (base)"


def test_failures_changes_and_the_worst_have_room_first(tmp_path, monkeypatch):
    def loss(output):
        return float(output["say"].split()[-1])

    low_is_good = scored_by(loss, "loss", higher_is_better=False)
    answers = ["f" if n == 39 else n for n in range(40)]

    def say(_, score):
        return f"{os.urandom(8_000).hex()} {score}"

    run = make(tmp_path / "run", answers, evaluators=[low_is_good], dataset=rows(40), say=say)
    monkeypatch.setattr(report_data, "_CHUNK_ITEMS", 4)
    whole = write_report(run, tmp_path / "whole.html")
    most = (whole.bytes - 40_000) / 1_000_000
    made = write_report(run, tmp_path / "part.html", max_mb=most)
    assert made.bytes <= most * 1_000_000
    blocks = blocks_of(made.path)
    ids = [row["id"] for row in blocks["head"]["runs"][0]["rows"]]
    assert ids[:4] == ["q39", "q38", "q37", "q36"]
    assert 0 < len(ids) < 40
    assert f"the texts of {len(ids)} of 40 answers" in made.left_out
    assert len(blocks["table-0"]["ids"]) == 40
    assert blocks["head"]["note"] == made.left_out


def test_of_a_run_whose_numbers_have_no_room_the_last_items_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(report_data, "_OF_NUMBERS", 0.005)
    run = make(tmp_path / "run", "10f" * 100, dataset=rows(300), trials=1)
    plain = write_report(run, tmp_path / "one.html", max_mb=0.5)
    blocks = blocks_of(plain.path)
    ids, rows_there = blocks["table-0"]["ids"], blocks["head"]["runs"][0]["rows"]
    assert 0 < len(ids) < 300
    assert f"the numbers of {len(ids)}" in plain.left_out
    # Failures came first, in the order of the dataset, and positions fit the shorter table.
    assert all(int(id_[1:]) % 3 == 2 for id_ in ids[: min(len(ids), 100)]) or len(ids) > 100
    assert ids == sorted(ids, key=lambda id_: int(id_[1:]))
    assert all(ids[row["position"]] == row["id"] for row in rows_there)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """A run whose texts cannot be packed, of very different lengths."""
    texts = {f"q{n}": os.urandom((n * 7919) % 23 * 1_000).hex() for n in range(40)}
    folder = tmp_path_factory.mktemp("noisy")
    return make(folder / "run", "10" * 20, dataset=rows(40), say=lambda id_, _: texts[id_])


@settings(max_examples=2 if settings.default.derandomize else 25)  # each writes a whole report
@given(most=st.floats(0.5, 1.2))
def test_it_is_never_larger_than_asked_and_uses_its_room(noisy, most):
    path = noisy.parent / "x.html"
    made = write_report(noisy, path, max_mb=most)
    assert path.stat().st_size == made.bytes <= most * 1_000_000
    there = blocks_of(made.path)["head"]["runs"][0]["rows"]
    assert bool(made.left_out) == (len(there) < 40)
    assert not made.left_out or made.bytes > most * 1_000_000 - 100_000


@pytest.mark.slow  # a report of one run does
def test_a_comparison_of_long_texts_stays_within_the_size_too(tmp_path):
    def say(id_, score):
        return os.urandom(20_000).hex()

    for name, scores in (("base", "1" * 40), ("new", "0" * 40)):
        make(tmp_path / name, scores, dataset=rows(40), say=say)
    made = write_report(tmp_path / "new", tmp_path / "x.html", tmp_path / "base", max_mb=1)
    assert made.bytes <= 1_000_000
    blocks = blocks_of(made.path)
    assert blocks["changes"]["scores"] == [["correct", "3" * 40]]
    new, base = ([row["id"] for row in run["rows"]] for run in blocks["head"]["runs"])
    assert 0 < len(base) < len(new) < 40  # room for both answers of the same items
    assert set(base) <= set(new)


def test_an_item_with_very_many_long_texts_is_cut_shorter(tmp_path):
    trace = [{"kind": "tool", "name": "t", "input": os.urandom(9_000).hex()} for _ in range(100)]

    def chatty(question):
        return limpet.Output(question, None, trace)

    limpet.evaluate(rows(2), chatty, run=limpet.Run(tmp_path / "run", durability="flush"))
    blocks = blocks_of(write_report(tmp_path / "run", tmp_path / "x.html").path)
    bodies = [body for name in blocks if name.startswith("texts") for body in blocks[name]]
    assert all(len(body["trace"]) == 100 for body in bodies)
    assert all(body["shortened"] > 1_000_000 for body in bodies)
    assert all(len(json.dumps(body)) < 1_100_000 for body in bodies)


def test_one_item_that_is_too_large_does_not_keep_the_others_out(tmp_path):
    trace = [{"kind": "tool", "name": "t", "input": os.urandom(30_000).hex()} for _ in range(12)]

    def answer(item):
        return limpet.Output(item.id, None, trace if item.id == "q3" else None)

    def worst(item):
        return float(item.id != "q3")

    run = limpet.Run(tmp_path / "run", durability="flush")
    limpet.evaluate(rows(20), answer, [worst], run=run)
    made = write_report(tmp_path / "run", tmp_path / "x.html", max_mb=0.5)
    there = blocks_of(made.path)["head"]["runs"][0]["rows"]
    assert {row["id"] for row in there} == {f"q{n}" for n in range(20)} - {"q3"}
    assert "the texts of 19 of 20 answers" in made.left_out


def test_a_secret_is_masked_as_it_is_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "sk-Planted/0123+456789")

    def leaks(question):
        return limpet.Output(
            {"key": os.environ["MY_API_KEY"]},
            None,
            [{"kind": "x", "input": os.environ["MY_API_KEY"]}],
        )

    limpet.evaluate(rows(2), leaks, run=limpet.Run(tmp_path / "run", durability="flush"))
    made = write_report(tmp_path / "run", tmp_path / "x.html")
    everything = json.dumps(blocks_of(made.path)) + made.path.read_text()
    assert "Planted" not in everything
    assert "redacted" in everything


def test_what_people_may_know_of_the_machine_is_not_more_than_the_runs_name(runs, tmp_path):
    made = write_report(runs["new"], tmp_path / "x.html", runs["base"])
    assert str(runs["new"].parent) not in json.dumps(blocks_of(made.path))


def test_labels_are_shown_and_none_can_be_given(tmp_path):
    run = make(tmp_path / "run", "1101")
    for person, id_ in (("", "q1"), ("ann", "q2")):
        with RunReader(run) as reader:
            output = output_of(reader.item(id_)[0].item)
            labelling = Labelling(reader.layout, person)
            labelling.refresh()
            labelling.add(Drawn(id_, 0, output), ScoreName("correct"), "yes", "I asked", hides=True)
    blocks = blocks_of(write_report(run, tmp_path / "x.html").path)
    bodies = {body["id"]: body for body in blocks["texts-0-0"]}
    assert (bodies["q1"]["label"]["label"], bodies["q1"]["label"]["note"]) == ("yes", "I asked")
    assert [one["person"] for one in bodies["q2"]["labels"]] == ["ann"]
    assert not any(body["can_label"] or body["hidden"] for body in bodies.values())
    assert ["labelling" in bodies[id_] for id_ in ("q0", "q1", "q2")] == [False, True, True]
    rows_by_id = {row["id"]: row for row in blocks["head"]["runs"][0]["rows"]}
    assert rows_by_id["q1"]["label"] == "yes"


def test_every_module_can_be_part_of_the_script():
    for path in PAGES.glob("*.js"):
        assert bundle(path.stem).count("const $") >= 1


def test_a_module_that_cannot_be_bundled_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("limpet.view.html_report.PAGES", tmp_path)
    (tmp_path / "x.js").write_text('import y from "./y.js";\n')
    with pytest.raises(ValueError, match=r"x\.js: cannot be part"):
        bundle("x")


# ---- how it is written --------------------------------------------------------------------------


def test_a_report_that_exists_is_replaced_whole_or_not_at_all(runs, tmp_path, monkeypatch):
    path = tmp_path / "x.html"
    path.write_text("the old one")

    def full(fd, parts):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_all", full)
        with pytest.raises(limpet.LimpetError, match="No space left"):
            write_report(runs["new"], path)
    assert path.read_text() == "the old one"
    assert [one.name for one in tmp_path.iterdir()] == ["x.html"]
    write_report(runs["new"], path)
    assert path.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("link.html", "is a link"),
        ("gone.html", "is a link"),
        ("folder.html", "is a directory"),
        ("pipe.html", "is not a file"),
        ("report.txt", "does not end in .html"),
        ("no/such/x.html", "no such directory"),
        ("/dev/stdout", "does not end in .html"),
    ],
)
def test_it_replaces_nothing_but_a_report(runs, tmp_path, name, message):
    (tmp_path / "target.html").write_text("mine")
    (tmp_path / "link.html").symlink_to("target.html")
    (tmp_path / "gone.html").symlink_to("nowhere.html")
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    with pytest.raises(limpet.LimpetError, match=message):
        write_report(runs["new"], tmp_path / name)
    assert (tmp_path / "target.html").read_text() == "mine"


def test_reading_changes_nothing_in_the_run(runs, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in runs["new"].rglob("*")}
    write_report(runs["new"], tmp_path / "x.html", runs["base"])
    assert {path: path.stat().st_mtime_ns for path in runs["new"].rglob("*")} == before


# ---- in Python ----------------------------------------------------------------------------------


def test_a_result_makes_its_report_and_a_notebook_shows_the_link(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base, new = limpet.load_run(runs["base"]), limpet.load_run(runs["new"])
    made = new.report("a <b>.html", against=base)
    assert os.fspath(made) == "a <b>.html"
    assert 'href="a%20%3Cb%3E.html"' in made._repr_html_()
    assert "a &lt;b&gt;.html" in made._repr_html_()
    assert "compare" in blocks_of(made.path)["head"]
    elsewhere = new.report(str(tmp_path.parent / "x.html"))
    assert 'href="file:///' in elsewhere._repr_html_()
    assert str(elsewhere).startswith(str(tmp_path.parent))


@pytest.mark.parametrize("most", [0, 0.1, -1, float("nan")])
def test_a_size_that_no_report_has_is_refused(runs, tmp_path, most):
    with pytest.raises(ValueError, match="max_mb"):
        limpet.load_run(runs["new"]).report(tmp_path / "x.html", max_mb=most)


def test_a_result_that_was_not_kept_cannot_be_reported(tmp_path):
    result = limpet.evaluate(rows(1), str.upper, save=False)
    with pytest.raises(limpet.LimpetError, match="was not saved") as raised:
        result.report(tmp_path / "x.html")
    assert "run=" in raised.value.hint
