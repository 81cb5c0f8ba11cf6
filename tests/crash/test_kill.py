"""kill -9 in the middle of a write: each acknowledged record is there."""

import pytest
from crash.laboratory import (
    acknowledged_in,
    assert_all_there,
    column_at,
    kill,
    reopen,
    reports_of,
    start,
)

from limpet.journal import verify

SIZES = [100, 2_000, 6_000_000, 40_000, 60_000, 300, 1_500_000]


def size_of(number):
    return SIZES[number % len(SIZES)]


def wait_for_a_write(home, process):
    """Return as soon as the column grows: a long line is only half written then."""
    size = column_at(home).stat().st_size
    while column_at(home).stat().st_size == size and process.poll() is None:
        pass


def kill_again_and_again(home, durability, times):
    """Kill after some acknowledgements, never the same number; return all that came."""
    acknowledged, torn = [], 0
    for turn in range(times):
        config = {
            "path": home,
            "durability": durability,
            "sizes": SIZES,
            "first": turn * 10_000,
            "at_once": 1 + turn % 9,
        }
        with start(config) as process:
            reports = []
            for report in reports_of(process):
                reports.append(report)
                if len(reports) == 2 + turn * 5 % 17:
                    if turn % 2:
                        wait_for_a_write(home, process)
                    kill(process)  # what is left in the pipe was acknowledged all the same
        acknowledged += acknowledged_in(reports)
        torn += not verify(home).is_sound
        reopen(home, durability=durability)
        assert_all_there(home, acknowledged_in(reports), size_of)
        if column_at(home).stat().st_size > 250e6:
            assert_all_there(home, acknowledged, size_of)
            acknowledged.clear()
            column_at(home).unlink()
    assert_all_there(home, acknowledged, size_of)
    return torn


@pytest.mark.parametrize(
    ("durability", "times"), [("sync", 3), pytest.param("flush", 4, marks=pytest.mark.slow)]
)
def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path, durability, times):
    kill_again_and_again(tmp_path, durability, times)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_writer_killed_a_hundred_times_loses_nothing(tmp_path):
    torn = sum(
        kill_again_and_again(tmp_path / durability, durability, times)
        for durability, times in (("sync", 60), ("flush", 40))
    )
    assert torn, "no kill ever tore a line: this attack has become too mild"
