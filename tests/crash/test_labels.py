"""Labels of the live page: what was acknowledged is there, whatever happens to page and disk."""

import asyncio
import json
import multiprocessing
import os

import pytest
from aiohttp import ClientError, ClientSession, CookieJar
from label_pages import Client, lines, on_page

import limpet
from limpet.view.server import Started, serving

ROWS = [{"id": f"q{n}", "question": str(n)} for n in range(20)]


@limpet.evaluator(name="right")
def judge(output):
    return limpet.Score(True, "good")


def evaluate(folder):
    limpet.evaluate(
        ROWS, str.upper, [judge], run=limpet.Run(folder / "one", durability="flush"), show=False
    )


def serve(runs, person, said):
    async def main():
        async with serving(runs, person=person) as server:
            said.send(tuple(server))
            await asyncio.Event().wait()

    asyncio.run(main())


def started(runs, person):
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=(runs, person, theirs), daemon=True)
    process.start()
    return process, ours


async def label_until_gone(server, kill_after, process):
    """Label without a pause, and kill the server's process in the middle; return what was kept."""
    kept = []
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        async with session.get(server.address):
            pass
        client = Client(session, server)

        async def one_after_another(which):
            for turn in range(100):
                note = f"{which} {turn} " + "n" * 9_000
                try:
                    status, _ = await client.label(f"q{which}", "good", note=note)
                except (ClientError, OSError):
                    return
                assert status == 200
                kept.append(note)
                if len(kept) == kill_after:
                    process.kill()

        await asyncio.gather(*(one_after_another(which) for which in range(4)))
    return kept


def test_a_page_that_is_killed_while_people_label_loses_nothing_it_acknowledged(tmp_path):
    evaluate(tmp_path)
    servers = [started(tmp_path, person) for person in ("ann", "bob")]
    addresses = [Started(*pipe.recv()) for _, pipe in servers]

    async def main():
        return await asyncio.gather(*(
            label_until_gone(address, many, process)
            for address, many, (process, _) in zip(addresses, (5, 17), servers, strict=True)
        ))  # fmt: skip

    acknowledged = asyncio.run(main())
    for process, _ in servers:
        process.join()
    text = (tmp_path / "one" / "labels.jsonl").read_bytes()
    whole = []
    for line in text.split(b"\n"):
        try:
            whole.append(json.loads(line))
        except ValueError:
            continue  # half a line of a process that was killed
    for person, notes in zip(("ann", "bob"), acknowledged, strict=True):
        kept = {line["note"] for line in whole if line["person"] == person}
        assert len(notes) >= 5
        assert set(notes) <= kept

    @on_page(tmp_path)
    async def after(client):
        assert (await client.label("q9", "good"))[0] == 200

    found = limpet.load_run(tmp_path / "one").calibrate("right")
    assert found.labelled >= 4


def test_on_a_full_disk_a_label_is_refused_and_no_half_line_stays(small_disk):
    evaluate(small_disk)
    filler = small_disk / "filler"

    @on_page(small_disk)
    async def main(client):
        assert (await client.label("q0", "good", note="before"))[0] == 200
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        for turn in range(5):
            status, answer = await client.label("q1", "good", note=f"{turn}" + "n" * 9_000)
            assert status == 503
            assert "No space left on device" in answer["error"]
            assert "free some space" in answer["hint"]
        assert (await client.item("q0"))["label"]["note"] == "before"
        filler.unlink()
        assert (await client.label("q1", "good", note="after"))[0] == 200

    assert [line["note"] for line in lines(small_disk)] == ["before", "after"]


@pytest.mark.parametrize("call", ["sync_file", "write_all"])
def test_a_disk_that_fails_refuses_the_label_and_the_file_is_as_before(tmp_path, monkeypatch, call):
    evaluate(tmp_path)

    @on_page(tmp_path)
    async def main(client):
        assert (await client.label("q0", "good"))[0] == 200
        before = (tmp_path / "one" / "labels.jsonl").read_bytes()

        def fails(fd, parts=()):
            for part in parts:
                os.write(fd, part[:10])
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(f"limpet.run.calibrating.labels.{call}", fails)
            status, answer = await client.label("q1", "good")
        assert (status, "Input/output error" in answer["error"]) == (503, True)
        assert (tmp_path / "one" / "labels.jsonl").read_bytes() == before
        assert (await client.item("q1"))["label"] is None
        assert (await client.label("q1", "good"))[0] == 200

    assert len(lines(tmp_path)) == 2
