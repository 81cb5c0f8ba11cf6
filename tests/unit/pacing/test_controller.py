"""AIMD: windows, the collapse, the bounds and the clocks."""

import asyncio

import pytest
from virtual_time import in_virtual_time

from limpet.executors import ConcurrencyController


def controller(**options):
    return ConcurrencyController(**{"max_concurrency": 10, "initial_target": 4, **options})


@in_virtual_time
async def test_a_clean_window_adds_the_step():
    one = controller(window_seconds=5, increase_step=1)
    await asyncio.sleep(4.9)
    one.record_success(1)
    assert one.target_concurrency == 4
    await asyncio.sleep(0.1)
    one.record_success(1)
    assert one.target_concurrency == 5


@in_virtual_time
async def test_half_a_step_shows_every_second_window():
    one = controller()
    targets = []
    for _ in range(4):
        await asyncio.sleep(5)
        one.record_success(1)
        targets.append(one.target_concurrency)
    assert targets == [4, 5, 5, 6]


@pytest.mark.parametrize("trouble", ["record_timeout", "record_error"])
@in_virtual_time
async def test_a_window_with_any_trouble_multiplies_by_the_ratio(trouble):
    one = controller(decrease_ratio=0.5, collapse_error_threshold=99)
    getattr(one, trouble)()
    for _ in range(50):
        one.record_success(1)
    assert one.target_concurrency == 4
    await asyncio.sleep(5)
    one.record_success(1)
    assert one.target_concurrency == 2
    await asyncio.sleep(5)
    one.record_success(1)  # the trouble belonged to the window before
    assert one._target == 2.5


@in_virtual_time
async def test_errors_close_together_collapse_the_target_to_one():
    one = controller(window_seconds=1000)
    one.record_error()
    await asyncio.sleep(15.1)
    one.record_error()
    assert one.target_concurrency == 4
    await asyncio.sleep(14.9)
    one.record_error()
    assert one.target_concurrency == 1


@in_virtual_time
async def test_the_target_stays_within_its_bounds_and_moves_at_once_from_them():
    one = controller(initial_target=99, increase_step=3, window_seconds=1)
    assert one.target_concurrency == 10
    for _ in range(5):
        await asyncio.sleep(1)
        one.record_success(1)
    assert one.target_concurrency == 10
    await asyncio.sleep(1)
    one.record_timeout()
    assert one.target_concurrency == 5  # not half of what it would have grown to
    for _ in range(9):
        await asyncio.sleep(1)
        one.record_timeout()
    assert one.target_concurrency == 1
    await asyncio.sleep(1)
    one.record_success(1)
    assert one.target_concurrency == 4


def test_latency_is_smoothed_exponentially():
    one = controller(smoothing_factor=0.2)
    assert one.smoothed_latency_seconds is None
    one.record_success(10)
    assert one.smoothed_latency_seconds == 10
    one.record_success(20)
    assert one.smoothed_latency_seconds == pytest.approx(12)


@in_virtual_time
async def test_listeners_hear_each_change_of_the_target_and_nothing_else():
    one = controller(window_seconds=1, increase_step=0.5)
    heard = []
    stop = one.subscribe(lambda: heard.append(one.target_concurrency))
    for _ in range(4):
        await asyncio.sleep(1)
        one.record_success(1)
    assert heard == [5, 6]
    stop()
    await asyncio.sleep(1)
    one.record_timeout()
    assert heard == [5, 6]


def test_outside_a_loop_it_uses_the_monotonic_clock(monkeypatch):
    time = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: time[0])
    one = controller(increase_step=1)
    time[0] += 5
    one.record_success(1)
    assert one.target_concurrency == 5


def test_made_by_one_clock_and_run_by_another_it_begins_a_window_of_its_own(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    one = controller(increase_step=1)

    @in_virtual_time
    async def run():
        one.start()
        await asyncio.sleep(5)
        one.record_success(1)

    run()
    assert one.target_concurrency == 5


@pytest.mark.parametrize(("r", "expected"), [(0.1, 18), (0.5, 2)])
@in_virtual_time
async def test_the_documented_steady_state(r, expected):
    one = controller(
        max_concurrency=100,
        initial_target=expected,
        increase_step=1,
        window_seconds=1,
        collapse_error_threshold=1000,
    )
    total, windows, every = 0.0, 4000, round(1 / r)
    for window in range(windows):
        await asyncio.sleep(1)
        if window % every == 0:
            one.record_timeout()
        else:
            one.record_success(1)
        total += one._target
    # The mean just before a decrease is the formula's C; over the saw-tooth it lies a bit lower.
    assert total / windows == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("max_concurrency", 0),
        ("initial_target", 0),
        ("window_seconds", 0),
        ("increase_step", -1),
        ("decrease_ratio", 1.5),
        ("smoothing_factor", -0.1),
        ("collapse_window_seconds", -1),
        ("collapse_error_threshold", 0),
        ("inactive_check_interval", float("nan")),
    ],
)
def test_a_bad_argument_is_named_with_its_value(argument, value):
    with pytest.raises(ValueError, match=f"^{argument}={value}: must be"):
        controller(**{argument: value})
