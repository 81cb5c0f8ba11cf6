"""The copies of a provider's buckets, and what they learn about the cost of a call."""

import sys
from pathlib import Path

import pytest

from limpet.pacing.limits import Limit
from limpet.pacing.mirrors import Mirror, Mirrors
from limpet.pacing.traffic import MeanUsage, tokens_in

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import pacing
import pacing_tokens as tokens

# ---- a copy of a bucket ------------------------------------------------------------------------


def limit(remaining, reset_s=0.0):
    return Limit("tokens", 1000, remaining, reset_s)


def test_the_mirror_is_corrected_by_what_each_response_says():
    mirror = Mirror(limit(1000), number=0, now=0)
    notes = [mirror.take(100, 0) for _ in range(5)]
    assert mirror.wait_s(490, 0) == 0
    # The first request cost 150 in truth, so 50 less are left, also for those sent since.
    mirror.correct(limit(850, 9), 1, notes[0])
    assert mirror.wait_s(400, 0) == 0
    assert mirror.wait_s(441, 0) > 0
    # The reset is the time until it is full: 150 in 9 s. The copy's error is in reserve.
    assert mirror.wait_s(600, 0) == pytest.approx(200 / (150 / 9))


def test_a_response_overtaken_by_that_of_a_later_request_is_old_news():
    mirror = Mirror(limit(1000), number=0, now=0)
    first, second = mirror.take(100, 0), mirror.take(100, 0)
    mirror.correct(limit(600), 2, second)  # both cost 200
    mirror.correct(limit(800), 1, first)
    assert mirror.wait_s(390, 0) == 0
    assert mirror.wait_s(410, 0) > 0


def test_more_than_the_bucket_holds_is_asked_for_all_the_same():
    mirror = Mirror(limit(1000), number=0, now=0)
    assert mirror.wait_s(5000, 0) == 0


def test_what_was_not_sent_is_given_back():
    mirror = Mirror(limit(500), number=0, now=0)
    mirror.give_back(mirror.take(400, 0))
    assert mirror.wait_s(480, 0) == 0


def test_a_refusal_is_explained_only_by_a_bucket_that_was_nearly_empty():
    mirror = Mirror(limit(1000), number=0, now=0)
    assert not mirror.refuse(limit(900), 1, mirror.take(10, 0))
    assert mirror.refuse(limit(5), 2, mirror.take(10, 0))


# ---- what a call costs -------------------------------------------------------------------------


def test_a_refusal_with_room_for_fifty_calls_has_another_cause():
    mirror = Mirror(limit(1000), number=0, now=0)
    for number in range(1, 31):  # it learns late what calls cost, and keeps much in reserve
        mirror.correct(limit(1000 - 14 * number), number, mirror.take(1, 0))
    assert not mirror.refuse(limit(570), 31, mirror.take(10, 0))
    assert mirror.wait_s(10, 0) == 0


def charged(charges, used=None):
    """Send a call for each charge, and return the expected cost of the next."""
    usage = MeanUsage()
    mirrors = Mirrors(usage.mean)
    left = 1e6
    for number, charge in enumerate(charges):
        predictions = mirrors.take({"requests": 1.0}, 0.0)
        left -= charge
        usage.add({} if used is None else {"tokens": used})
        mirrors.correct([Limit("tokens", 1e6, left, 0.0)], number, predictions, 0.0)
    return mirrors.take({"requests": 1.0}, 0.0)["tokens"].cost


def test_usage_is_the_cost_until_headers_tell_otherwise():
    assert charged([1100], used=1100) == pytest.approx(1100)
    assert charged([1100]) == 1  # nothing is known


@pytest.mark.parametrize("used", [None, 1100], ids=["usage untold", "usage told"])
@pytest.mark.parametrize("charge", [660, 1100, 4800], ids=["prompt", "total", "max_tokens"])
def test_what_the_provider_counts_is_learned(charge, used):
    assert charged([charge] * 200, used) == pytest.approx(charge, rel=0.05)


def test_calls_without_a_response_in_between_are_counted():
    usage = MeanUsage()
    mirrors = Mirrors(usage.mean)
    mirrors.correct([Limit("tokens", 1e6, 1e6, 0.0)], 0, {}, 0.0)
    sent = [mirrors.take({}, 0.0) for _ in range(10)]
    mirrors.correct([Limit("tokens", 1e6, 1e6 - 10 * 500, 0.0)], 10, sent[-1], 0.0)
    assert mirrors.take({}, 0.0)["tokens"].cost == pytest.approx(500)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        {"prompt_tokens": 7, "completion_tokens": 3},
        {"input_tokens": 7, "output_tokens": 3},
        {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10},
        {"prompt_token_count": 7, "candidates_token_count": 3, "total_token_count": 10},
        {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
        {"prompt_eval_count": 7, "eval_count": 3},
    ],
    ids=["openai", "no total", "anthropic", "gemini", "google-genai", "bedrock", "ollama"],
)
def test_tokens_are_found_under_any_clients_names(usage):
    assert tokens_in(usage) == {"tokens": 10, "input-tokens": 7, "output-tokens": 3}


@pytest.mark.parametrize("usage", [None, 5, [], {}, {"total_tokens": "x"}, {"cost": 1.5}])
def test_no_tokens_are_found_where_there_are_none(usage):
    assert tokens_in(usage) == {}


# ---- near the limit, though nobody tells what a call costs ------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("model", "efficiency", "refused"),
    [
        (tokens.TokensLearned, 0.97, 0.01),
        (tokens.Larger, 0.97, 0.01),
        (tokens.NoHeadersLarger, 0.95, 0.06),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (tokens.LongTail, 0.97, 0.01),
                (tokens.TwoKinds, 0.97, 0.01),
                (tokens.CountsPrompt, 0.97, 0.01),
                (tokens.UsageUntold, 0.97, 0.01),
                (tokens.Smaller, 0.97, 0.01),
                (tokens.CountsMost, 0.97, 0.01),
                (tokens.LongCallsCountMost, 0.97, 0.01),
                (tokens.Lagging, 0.93, 0.03),
                (tokens.CountsAtTheEnd, 0.97, 0.01),
                (tokens.TokenWindow, 0.90, 0.01),
                (tokens.LargerUntold, 0.97, 0.01),
                (tokens.NoHeaders, 0.97, 0.03),
            )
        ),
    ],
    ids=lambda value: value.name if isinstance(value, type) else "",
)
def test_the_cost_of_a_call_is_learned(model, efficiency, refused):
    result = pacing.run(model(0))
    assert result.lost == 0
    assert result.efficiency >= efficiency
    assert result.refused <= refused
