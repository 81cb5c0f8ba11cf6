"""Threads that compute fill a process; threads that wait do not."""

import threading
import time

import pytest

from limpet.engines.bench import Crowding


@pytest.fixture
def computing():
    """Let a number of threads compute until the test ends, or until told."""
    ended, threads = threading.Event(), []

    def start(number):
        for _ in range(number):
            threads.append(
                threading.Thread(target=lambda: [None for _ in iter(ended.is_set, True)])
            )
            threads[-1].start()
        return ended

    yield start
    ended.set()
    for thread in threads:
        thread.join()


def rooms(crowding, begun_at, until):
    """Look until the room is as told; return each that was seen."""
    seen = [crowding.room]
    while seen[-1] != until:
        time.sleep(0.05)
        if crowding.changes(begun_at):
            seen.append(crowding.room)
    return seen


def test_calls_that_compute_for_long_leave_room_for_two_and_then_for_more(computing):
    ended = computing(4)
    long_ago = [time.monotonic() - 1] * 9
    crowding = Crowding()
    seen = rooms(crowding, long_ago, until=2)
    assert seen[0] == 0
    assert seen[1] == 6
    ended.set()
    seen = rooms(crowding, [], until=0)
    assert sorted(seen[:-1]) == seen[:-1]  # step by step
    assert seen[-2] >= 256


@pytest.mark.parametrize("calls", ["one", "short", "none"])
def test_other_calls_do_not_fill_a_process_that_computes(computing, calls):
    computing(2)
    crowding = Crowding()
    for _ in range(10):
        time.sleep(0.02)
        now = time.monotonic()
        begun_at = {"one": [now - 9, now], "short": [now - 0.1] * 9, "none": []}[calls]
        assert not crowding.changes(begun_at)


def test_calls_that_wait_do_not_fill_a_process():
    crowding, long_ago = Crowding(), [time.monotonic() - 1] * 9
    for _ in range(10):
        time.sleep(0.02)
        assert not crowding.changes(long_ago)
