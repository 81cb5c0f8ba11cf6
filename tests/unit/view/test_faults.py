"""What a page gets when something is wrong: a run, a query, or our code.

How a stranger would try to break the server, and which test holds it:

| attack | must happen | tested by |
|---|---|---|
| a defect of ours | JSON that says it, one traceback in the log, other runs go on | here |
| requests that are no HTTP, without a Host, with endless headers | 400, nothing in the log | here |
| another Host, Origin, port, method; no token, a wrong one, one in the query | refused | `test_guard.py` |
| `..`, absolute paths, encodings, links, NUL in the name of a run or a page | 404 | `test_guard.py` |
| sort, filters, offsets and trials that do not exist, `nan`, `inf`, `1_0` | 400, the run stays open | here, `test_guard.py` |
| `run.json` torn, empty, 100,000 levels deep | the copy counts, said on the page, one warning | here |
| a run removed, replaced by a longer one, renamed over another, going on | never mixed | `test_opened_runs.py`, `test_pages.py` |
| ids and directories with half a character | can be opened, labelled, counted | here, `test_pages.py` |
| labels: type, size, origin, unknown item, read-only, many pages, full disk | refused or kept whole | `test_labels.py` |
| scripts, handlers, `</script>`, bidi, ANSI, 50 MB, deep JSON in any text | shown as text | `test_pages.py`, `test_report.py` |
| many pages that compare | one comparison | here |
"""  # noqa: E501 - a table

import json
import logging
import os
import shutil
import socket
from asyncio import gather

import pytest
from label_pages import on_page

import limpet
from limpet.run.reading.description import describe
from limpet.view import server
from limpet.view.viewed_runs import ViewedRun

HALF = ["half\ud800", "half\udc00", 'half"\ud800', "whole"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")

    def answer(item):
        if item.id == "half\udc00":
            raise ValueError(f"{item.id} is not answered")
        return item.id

    for name in ("one", "two"):
        limpet.evaluate(
            [{"id": id_, "question": "a", "answer": id_} for id_ in HALF],
            answer,
            [limpet.exact_match()],
            run=limpet.Run(folder / name, durability="flush"),
            version="1",
            fail_fast=False,
            retry=0,
            show=False,
        )
    return folder


@pytest.fixture
def runs(made, tmp_path):
    return shutil.copytree(made, tmp_path / "runs")


def logged(caplog, word):
    return [one for one in caplog.records if word in one.getMessage()]


# ---- with us ------------------------------------------------------------------------------------


def test_a_defect_is_said_as_json_and_logged_once(runs, monkeypatch, caplog):
    def broken(*_):
        raise KeyError("an <b>unexpected</b> name")

    monkeypatch.setattr(server, "items_answer", broken)

    @on_page(runs)
    async def found(client):
        return [await client.get("items?run=one") for _ in range(3)]

    assert {status for status, _ in found} == {500}
    assert "KeyError: 'an <b>unexpected</b> name'" in found[0][1]["error"]
    assert "bug in Limpet" in found[0][1]["hint"]
    [record] = logged(caplog, "the request failed")
    assert record.exc_info[0] is KeyError


def test_a_defect_with_one_run_does_not_hide_the_others(runs, monkeypatch, caplog):
    def broken(reader, *_, **more):
        if reader.path.name == "two":
            raise RecursionError("too deep")
        return describe(reader, *_, **more)

    monkeypatch.setattr("limpet.view.run_answers.describe", broken)

    @on_page(runs)
    async def found(client):
        return [await client.data("runs") for _ in range(3)][-1]

    lines = {line["name"]: line for line in found["runs"]}
    assert lines["two"]["why"] == "RecursionError: too deep"
    assert (lines["two"]["state"], lines["one"]["state"]) == ("unreadable", "finished")
    assert len(logged(caplog, "cannot be shown")) == 1


def test_what_is_no_http_is_refused_without_a_traceback(runs, caplog):
    @on_page(runs)
    async def answers(client):
        found = []
        port = int(client.base.rpartition(":")[2])
        for request in (b"GET / HTTP/1.1\r\n\r\n", b"FOO\r\n\r\n", b"GET / HTTP/1.1\r\nHost: \xff"):
            with socket.create_connection(("127.0.0.1", port)) as sent:
                sent.sendall(request + b"a" * 9_000 + b"\r\n\r\n")
                await client.get("runs")  # the server's turn
                found.append(sent.recv(12))
        return found

    assert {answer[9:12] for answer in answers} == {b"400"}
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


# ---- with a query -------------------------------------------------------------------------------


def test_a_wrong_query_does_not_close_the_run(runs, monkeypatch):
    opened = []

    class Counted(ViewedRun):
        def __init__(self, *args):
            super().__init__(*args)
            opened.append(self)

    monkeypatch.setattr("limpet.view.viewed_runs.ViewedRun", Counted)

    @on_page(runs)
    async def statuses(client):
        paths = ("items?run=one", "items?run=one&sort=none", "item?run=one&id=none", "run?run=one")
        return [(await client.get(path))[0] for path in paths]

    assert statuses == [200, 400, 404, 200]
    assert len(opened) == 1


def test_several_pages_that_compare_the_same_runs_wait_for_one_comparison(runs, monkeypatch):
    made = []

    def counted(*args):
        made.append(args)
        return known(*args)

    known = server.Compared
    monkeypatch.setattr(server, "Compared", counted)

    @on_page(runs)
    async def statuses(client):
        path = "compare?base=one&new=two"
        asked = [path, path.replace("compare", "changes")] * 10
        found = [status for status, _ in await gather(*map(client.get, asked))]
        (runs / "one" / "labels.jsonl").write_text('{"id": "whole", "label": "1"}\n')
        return [*found, (await client.get(path))[0]]

    assert statuses == [200] * 21
    assert len(made) == 2


# ---- with a run ---------------------------------------------------------------------------------

DAMAGES = {"torn": '{"sessions": [', "empty": "", "deep": "[" * 100_000}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_run_json_is_said_on_the_page_and_warned_of_once(runs, caplog, name):
    (runs / "one" / "run.json").write_text(DAMAGES[name])

    @on_page(runs)
    async def remarks(client):
        return [(await client.data("run?run=one"))["remarks"] for _ in range(5)]

    assert all(len(of) == 1 and "using its copy" in of[0] for of in remarks)
    assert len(logged(caplog, "using its copy")) == 1


def test_an_id_with_half_a_character_is_addressed_by_its_json(runs):
    @on_page(runs)
    async def found(client):
        ids = {}
        for id_ in HALF:
            params = {"run": "one", "id": json.dumps(id_)}
            async with client.session.get(f"{client.base}/api/item", params=params) as answer:
                ids[id_] = (await answer.json())["id"]
            async with client.session.get(f"{client.base}/api/near", params=params) as answer:
                assert (await answer.json())["at"] == HALF.index(id_)
        return ids

    assert found == {id_: id_ for id_ in HALF}


def test_an_id_that_is_json_itself_names_itself(tmp_path):
    ids = ['"a"', "a"]
    limpet.evaluate(
        [{"id": id_, "question": "q"} for id_ in ids], str.upper, run=tmp_path / "runs" / "one"
    )

    @on_page(tmp_path / "runs")
    async def found(client):
        return [(await client.item(id_))["id"] for id_ in ("%22a%22", "a")]

    assert found == ids


def test_what_failed_counts_as_failed_if_its_id_has_half_a_character(runs):
    @on_page(runs)
    async def found(client):
        [line] = [run for run in (await client.data("runs"))["runs"] if run["name"] == "one"]
        return line, await client.data("items?run=one&failed=workflow")

    line, items = found
    assert (line["state"], line["done"], line["failed"]) == ("finished", 3, 1)
    assert [row["id"] for row in items["rows"]] == ["half\udc00"]
    assert "is not answered" in items["rows"][0]["error"]


def test_an_answer_whose_id_has_half_a_character_can_be_labelled(runs):
    @on_page(runs)
    async def found(client):
        given = await client.label("half\ud800", "1", score="exact_match", note="\udfff ok")
        answer = await client.data("items?run=one&labelled=1")
        return given[0], [row["id"] for row in answer["rows"]]

    assert found == (200, ["half\ud800"])


def test_a_directory_whose_name_is_no_text_is_addressed_by_its_json(runs):
    name = os.fsdecode(b"b\xfccher")
    (runs / "two").rename(runs / name)

    @on_page(runs)
    async def found(client):
        listed = [run["path"] for run in (await client.data("runs"))["runs"]]
        params = {"run": json.dumps(name)}
        async with client.session.get(f"{client.base}/api/run", params=params) as answer:
            return listed, answer.status

    assert name in found[0]
    assert found[1] == 200
