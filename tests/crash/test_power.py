"""Power loss: a file system of its own that stops at once, with all it had not put on its disk."""

import fcntl
import os
import shutil
import struct
import subprocess

import pytest
from crash.laboratory import (
    acknowledged_in,
    assert_all_there,
    column_at,
    kill,
    reopen,
    reports_of,
    run,
    start,
    write,
)

from limpet.journal import ColumnReader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = struct.pack("I", 2)
SIZES = [300, 20_000, 100, 400_000]


class Disk:
    """An ext4 in a file, whose power can be cut."""

    def __init__(self, place):
        self.home = place / "mounted"
        self._image = place / "image"
        self.home.mkdir()
        with self._image.open("wb") as file:
            file.truncate(256 * 2**20)
        self._do("mkfs.ext4", "-q", str(self._image))
        self.mount()

    def mount(self):
        self._do("mount", "-o", "loop", str(self._image), str(self.home))

    def unmount(self):
        self._do("umount", str(self.home))

    def cut_power(self):
        fd = os.open(self.home, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, FS_IOC_SHUTDOWN, NO_LOG_FLUSH)
        finally:
            os.close(fd)

    def come_back(self):
        self.unmount()
        self.mount()

    @staticmethod
    def _do(*words):
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode:
            raise OSError(f"{words[0]}: {done.stderr.decode(errors='replace').strip()}")


@pytest.fixture
def disk(tmp_path):
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed: there is no disk whose power could be cut")
    try:
        disk = Disk(tmp_path)
    except OSError as error:
        pytest.skip(f"no disk of one's own can be mounted here: {error}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk.home)], check=False)  # noqa: S607


def cut_power(disk):
    try:
        disk.cut_power()
    except OSError as error:
        pytest.skip(f"this file system's power cannot be cut: {error}")


def write_until_the_power_goes(disk, home, turn):
    """Cut the power while a process writes; return what it had acknowledged by then.

    What is acknowledged after the cut does not count: no reader of a dead machine gets it. (This
    ioctl also lets a sync that is under way end well and drops its data: a plain loop of write
    and fdatasync shows the same.)
    """
    config = {"path": home, "sizes": SIZES, "first": turn * 10_000, "at_once": 1 + turn % 7}
    with start(config, stderr=subprocess.DEVNULL) as process:
        reports = []
        for report in reports_of(process):
            reports.append(report)
            if len(reports) == 3 + turn * 7 % 30:
                cut_power(disk)
                break
        kill(process)
    return acknowledged_in(reports)


def test_what_was_acknowledged_under_sync_survives_a_power_cut(disk):
    acknowledged = []
    for turn in range(8):
        home = disk.home / f"run {turn // 2}" / "journal"  # a new one, then one that was there
        if turn % 2 == 0:
            acknowledged = []
        acknowledged += write_until_the_power_goes(disk, home, turn)
        disk.come_back()
        assert acknowledged
        assert_all_there(home, acknowledged, lambda number: SIZES[number % len(SIZES)])
        reopen(home)
        assert_all_there(home, acknowledged, lambda number: SIZES[number % len(SIZES)])


def test_a_new_single_file_survives_a_power_cut(disk):
    for turn in range(4):
        path = disk.home / "new" / str(turn) / "out.jsonl"
        config = {"path": path, "count": 3, "linger": True}
        with start(config) as process:
            acknowledged = []
            for report in reports_of(process):
                acknowledged += acknowledged_in([report])
                if len(acknowledged) == 3:
                    break
            cut_power(disk)
            kill(process)
        disk.come_back()
        assert len(ColumnReader(path)) == 3


def test_what_a_resume_found_and_counted_survives_a_power_cut(disk, strace):
    home = disk.home / "journal"
    write(home, [])
    before = [*strace, "-P", str(column_at(home)), "-e", "trace=fdatasync"]
    before += ["-e", "inject=fdatasync:signal=KILL:error=EIO:when=1"]
    reports, _ = run({"path": home, "count": 1}, before=before)
    assert acknowledged_in(reports) == []
    reports, _ = run({"path": home, "count": 0})  # a resume, which has nothing more to do
    counted = len(ColumnReader(column_at(home)))
    cut_power(disk)
    disk.come_back()
    assert len(ColumnReader(column_at(home))) == counted == 1
