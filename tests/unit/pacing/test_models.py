"""A fast part of benchmarks/pacing.py: every kind of provider, few items, exact in virtual time."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import pacing
import providers
import refusing_providers


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("model", "efficiency", "refused"),
    [
        (providers.TokenBucket, 0.90, 0.02),
        (providers.NamedWait, 0.90, 0.02),
        (providers.StrictBucket, 0.85, 0.02),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (providers.MinuteBurst, 0.80, 0.06),
                (providers.SlidingMinute, 0.85, 0.02),
                (providers.FixedMinute, 0.85, 0.02),
                (providers.TokensKnown, 0.90, 0.03),
                (providers.FewPerMinute, 0.90, 0.04),
            )
        ),
        (providers.InFlightCap, 0.75, 0.02),
        (providers.TokensPerMinute, 0.90, 0.03),
        (providers.QueueingServer, 0.85, 0.01),
        (providers.Noise, 0.70, 0.03),
        (providers.NamedLimits, 0.80, 0.005),
    ],
    ids=lambda value: value.name if isinstance(value, type) else "",
)
def test_near_the_limit_and_hardly_ever_refused(model, efficiency, refused):
    # Windows of a minute show nothing before some of them have passed.
    by_the_minute = model in (providers.SlidingMinute, providers.FixedMinute)
    count = 8000 if by_the_minute else min(model.count, 2000)
    result = pacing.run(model(0, count))
    assert result.lost == 0
    assert result.efficiency >= efficiency
    assert result.refused <= refused


@pytest.mark.quick(2)
@pytest.mark.parametrize("model", [providers.Outage, providers.HangingOutage])
def test_an_outage_loses_nothing_and_is_not_stormed(model):
    result = pacing.run(model(0, 2500))
    assert result.lost == 0
    assert result.in_outage <= 150


@pytest.mark.slow
def test_a_limit_per_calendar_minute_that_always_says_60_s_is_seldom_tried_again():
    result = pacing.run(refusing_providers.ProxyMinute(0))
    assert result.efficiency >= 0.93
    assert result.refused <= 0.005


class OneSlot(providers.QueueingServer):
    slots = 1
    latency_s = 2.0
    timeout_s = 20.0
    count = 300


def test_a_server_of_one_slot_is_not_flooded():
    result = pacing.run(OneSlot(0))
    assert result.lost == 0
    assert result.efficiency >= 0.4
    assert result.refused <= 1.2  # timed out, per call


def test_what_an_earlier_run_learned_saves_the_search():
    cold = pacing.run(providers.Slow(0, 2000))
    warm = pacing.run(providers.Slow(0, 2000), cold.memory)
    assert warm.efficiency > cold.efficiency + 0.02


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]
)
def test_a_provider_never_seen_before(seed):
    model = providers.Unforeseen(seed)
    if model.oracle() < 50 * model.latency_s:
        model = providers.Unforeseen(seed + 1000)
    result = pacing.run(model)
    assert result.lost == 0
    assert result.efficiency >= 0.80
    assert result.refused <= 0.04
