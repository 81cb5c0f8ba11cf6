"""Files, folders and file systems."""

import errno
import os
from pathlib import Path

import pytest

from limpet.journal.files import (
    file_system_risk,
    make_directory,
    replace_file,
    sync_file,
    write_all,
)
from limpet.journal.layout import layout_at


def test_many_parts_are_written_completely_and_in_order(tmp_path):
    parts = [bytes([n % 256]) * n for n in range(3000)] + [b"x" * (3 * 2**20 + 7), b"", b"end"]
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    write_all(fd, parts)
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"".join(parts)


def test_no_system_call_gets_more_than_a_megabyte_or_more_parts_than_it_takes(monkeypatch):
    seen = []

    def short_write(fd, parts):
        seen.append((len(parts), sum(map(len, parts))))
        return max(1, seen[-1][1] // 2)  # a system may always write less

    monkeypatch.setattr(os, "writev", short_write)
    write_all(0, [b"a" * 300] * 5000 + [b"b" * 5_000_000])
    assert max(count for count, _ in seen) <= 1024
    assert max(size for _, size in seen) <= 2**20


def test_a_write_that_does_nothing_is_an_error_and_no_endless_loop(monkeypatch):
    monkeypatch.setattr(os, "writev", lambda fd, parts: 0)
    with pytest.raises(OSError, match="wrote nothing"):
        write_all(0, [b"a"])


def test_a_replaced_file_is_the_old_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "summary.json"
    replace_file(path, [b"old"])
    replace_file(path, [b"new"])
    assert path.read_bytes() == b"new"

    def no_space(fd, parts):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", no_space)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, [b"newer"])
    assert path.read_bytes() == b"new"
    assert [one.name for one in tmp_path.iterdir()] == ["summary.json"]


def test_a_new_file_and_its_folders_are_synced_into_their_directories(tmp_path, monkeypatch):
    synced = []
    real = os.fsync

    def fsync(fd):
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    make_directory(tmp_path / "a" / "b")
    replace_file(tmp_path / "a" / "b" / "file", [b"x"])
    folders = [tmp_path.parent, tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert synced == [str(one) for one in folders]
    synced.clear()
    make_directory(tmp_path / "a")  # it is there, but whoever made it may have been killed
    assert synced == [str(tmp_path)]


def test_on_macos_a_sync_reaches_the_disk_itself(tmp_path, monkeypatch):
    import fcntl

    asked = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, what: asked.append((fd, what)))
    sync_file(7)
    assert asked == [(7, 51)]


MOUNTS = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /data rw - nfs4 server:/data rw
31 22 0:27 / /data/local rw - ext4 /dev/vdb rw
32 22 0:28 / /bucket\040one rw - fuse.s3fs s3fs rw
33 22 0:29 / /usb rw - fuseblk /dev/sdb1 rw
"""


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/home/me/run", None),
        ("/data/runs", "nfs4"),
        ("/data/local/runs", None),
        ("/bucket one/runs", "fuse.s3fs"),
        ("/usb/runs", None),
    ],
)
def test_a_file_system_that_may_not_keep_promises_is_named(path, said):
    risk = file_system_risk(Path(path), MOUNTS)
    assert risk is None if said is None else said in risk


def test_a_journal_is_a_file_with_notes_beside_it_or_a_directory(tmp_path):
    single = layout_at(tmp_path / "out.jsonl")
    assert single.column("anything") == tmp_path / "out.jsonl"
    assert single.failures == tmp_path / "out.jsonl.d" / "failures.jsonl"
    whole = layout_at(tmp_path / "runs" / "v1.2")
    assert whole.column("workflow") == tmp_path / "runs" / "v1.2" / "workflow_output.jsonl"
    assert whole.lock == tmp_path / "runs" / "v1.2" / "LOCK"
    with pytest.raises(ValueError, match=r"step='\.\./evil'"):
        whole.column("../evil")
