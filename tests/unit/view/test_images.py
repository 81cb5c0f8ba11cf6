"""Which images of a dataset does a page get, and which files never?

| what a row or a folder does | what a page gets |
|---|---|
| names `../x.png`, `/x.png`, `.x.png`, `a//x.png`, a URL, a NUL, `x.svg` | no image is looked for |
| a link, in the last part or before; a pipe; a directory; a file that is gone | a sentence |
| SVG or HTML under the name of an image | a sentence: the first bytes decide |
| 11 MB; 60,000 × 60,000 pixels; no pixels | a sentence |
| another file of the dataset's folder, which no field names | 404 |
| the dataset was changed, moved, or was not a file | a sentence |
"""

import asyncio
import json
import os
import struct

import aiohttp
import pytest

import limpet
from limpet.errors import LimpetError
from limpet.run.run_file import DatasetFile, RunFile
from limpet.view.images import folder_of, image_in, images_in
from limpet.view.server import serving

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 5, 7) + b"\x08\x02\0\0\0"
BOMB = PNG[:16] + struct.pack(">II", 60_000, 60_000)
JPEG = (
    b"\xff\xd8\xff\xe1\x00\x04ab\xff\xc4\x00\x02\xff\xc2\x00\x11\x08\x00\x07\x00\x05" + b"\0" * 20
)
IMAGES = {
    "a.png": (PNG, "image/png"), "b.JPG": (JPEG, "image/jpeg"),
    "c.gif": (b"GIF89a\x05\0\x07\0" + b"\0" * 9, "image/gif"),
    "d.webp": (b"RIFF....WEBPVP8X\x0a\0\0\0\0\0\0\0\x04\0\0\x06\0\0", "image/webp"),
    "e.webp": (b"RIFF....WEBPVP8L....\x2f" + (4 | 6 << 14).to_bytes(4, "little"), "image/webp"),
    "f.webp": (b"RIFF....WEBPVP8 ......\x9d\x01\x2a\0\x05\0\x07\0", "image/webp"),
    "svg-under.png": (PNG, "image/png"),
}  # fmt: skip


def test_only_relative_paths_of_images_are_looked_for():
    good = ["a.png", "./b.JPG", "in/the/c.jpeg", "photo of a cat.webp", "ü.gif"]
    bad = ["../a.png", "/a.png", "in/../a.png", ".a.png", "in/.git/a.png", "a//b.png", "a\\b.png",
           "http://x/a.png", "data:image/png;a.png", "a.svg", "a.png\0", "a.png\n",
           "x" * 300 + ".png", ".png", "a.png?x"]  # fmt: skip
    row = {"one": good[0], "many": [good[1], {"deep": good[2]}, *bad], "again": good[0]}
    assert set(images_in({**row, "rest": good[3:]})) == set(good)
    assert len(images_in([f"{n}.png" for n in range(100)])) == 20
    assert images_in({"a": "a" * 2**20, "b": None, "c": 1, "d": [[]] * 10**6}) == []


@pytest.mark.parametrize("name", IMAGES)
def test_the_first_bytes_say_type_and_size(tmp_path, name):
    content, kind = IMAGES[name]
    (tmp_path / name).write_bytes(content)
    image = image_in(tmp_path, name, whole=True)
    assert image == (kind, 5, 7, content)


def test_what_is_no_image_or_too_large_or_behind_a_link_is_not_sent(tmp_path):
    folder, outside = tmp_path / "data", tmp_path / "outside"
    (folder / "in").mkdir(parents=True)
    outside.mkdir()
    (outside / "x.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(outside / "x.png")
    (folder / "dir").symlink_to(outside)
    (folder / "in" / "own.png").symlink_to("../real.png")
    (folder / "real.png").write_bytes(PNG)
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.png").mkdir()
    contents = {"svg.png": b"<svg onload=alert(1)>", "html.gif": b"<html>", "empty.png": b"",
                "short.jpg": b"\xff\xd8\xff\xe1", "bomb.png": BOMB,
                "none.gif": b"GIF89a\0\0\0\0"}  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    with (folder / "big.png").open("wb") as file:
        file.write(PNG)
        file.truncate(11_000_000)
    bad = ["link.png", "dir/x.png", "in/own.png", "pipe.png", "folder.png", "gone.png", "big.png"]
    for name in [*bad, *contents]:
        with pytest.raises(LimpetError, match="not shown: ") as caught:
            image_in(folder, name, whole=True)
        assert str(tmp_path) not in str(caught.value), name
    assert image_in(folder, "real.png", whole=False).width == 5


def test_a_run_names_its_dataset_and_another_one_has_no_images(tmp_path):
    dataset = tmp_path / "data" / "rows.jsonl"
    dataset.parent.mkdir()
    dataset.write_text('{"id": "a", "question": "b"}\n')
    run = tmp_path / "run"
    limpet.evaluate(dataset, str.upper, run=limpet.Run(run, durability="flush"), show=False)
    about = json.loads((run / "run.json").read_bytes())["dataset"]
    assert about["path"] == "../data/rows.jsonl"
    run_file = RunFile(dataset=DatasetFile(**about))
    assert folder_of(run_file, run) == dataset.parent
    dataset.write_text('{"id": "a", "question": "c"}\n')
    with pytest.raises(LimpetError, match="has changed"):
        folder_of(run_file, run)
    dataset.unlink()
    with pytest.raises(LimpetError, match="not there any more"):
        folder_of(run_file, run)
    with pytest.raises(LimpetError, match="does not say"):
        folder_of(RunFile(), run)


def test_the_server_sends_what_a_field_names_and_nothing_else(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a.png", "other.png"):
        (folder / name).write_bytes(PNG)
    (folder / "svg.png").write_bytes(b"<svg onload=alert(1)>")
    (tmp_path / "out.png").write_bytes(PNG)
    row = {"id": "q", "question": "?", "photo": "a.png", "bad": ["svg.png", "../out.png"]}
    (folder / "rows.jsonl").write_text(json.dumps(row))
    run = limpet.Run(tmp_path / "runs" / "one", durability="flush")
    limpet.evaluate(folder / "rows.jsonl", lambda question: question, run=run, show=False)

    async def ask(session, base, **query):
        async with session.get(f"{base}/api/image", params={"run": "one", **query}) as response:
            return response.status, response.headers, await response.read()

    async def go():
        jar = aiohttp.CookieJar(unsafe=True)
        async with serving(tmp_path / "runs") as started:
            base = started.address.partition("/?")[0]
            async with aiohttp.ClientSession(cookie_jar=jar) as session:
                assert (await ask(session, base, id="q", file="a.png"))[0] == 401
                await (await session.get(started.address)).read()
                status, headers, body = await ask(session, base, id="q", file="a.png")
                assert (status, body, headers["Content-Type"]) == (200, PNG, "image/png")
                assert headers["X-Content-Type-Options"] == "nosniff"
                for name in ("other.png", "../out.png", "svg.png", "rows.jsonl", "", "/etc/passwd"):
                    status, headers, body = await ask(session, base, id="q", file=name)
                    assert (status, headers["Content-Type"].split(";")[0]) == (
                        404,
                        "application/json",
                    ), name
                    assert str(tmp_path) not in body.decode()
                assert (await ask(session, base, id="nobody", file="a.png"))[0] == 404

    asyncio.run(go())
