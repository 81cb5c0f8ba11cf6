"""LiteLLM's proxy: its headers and bodies, word for word from version 1.106."""

import asyncio

import pytest
import virtual_time

import limpet
from limpet.pacing import FailureKind, Limit, classify
from limpet.pacing.limits import read_limits
from limpet.pacing.signals import lower_cased


class ProxyError(Exception):
    """What a client raises: the status, the headers, and the error of the body."""

    def __init__(self, message="", headers=None, kind="None", status=429):
        super().__init__(f"Error code: {status} - {message}")
        self.status_code = status
        self.body = {"message": message, "type": kind, "param": "None", "code": str(status)}
        self.headers = headers or {}


def exceeded(limit_type):
    """Return the refusal of a key's limit."""
    message = (
        "Rate limit exceeded for api_key: 88dc28d0f030c55ed4ab77ed8faf098196cb1c05. "
        f"Limit type: {limit_type}. Current limit: 8, Remaining: 0. "
        "Limit resets at: 2026-11-16 09:10:00 UTC"
    )
    headers = {
        "retry-after": "60",
        "rate_limit_type": limit_type,
        "reset_at": "2026-11-16 09:10:00 UTC",
    }
    return message, headers


def read(headers):
    return {limit.name: limit for limit in read_limits(lower_cased(headers), lambda: 0.0)}


# ---- limits in headers -------------------------------------------------------------------------


OWNERS = """
    api_key user team team_member end_user organization tag tag_per_key model_per_key model_per_team
    model_per_organization model_per_project agent agent_session mcp_per_key model_saturation_check
    priority_model
"""


@pytest.mark.parametrize("owner", OWNERS.split())
def test_the_limits_of_every_owner_are_read(owner):
    limits = read(
        {
            f"x-ratelimit-{owner}-limit-requests": "100",
            f"x-ratelimit-{owner}-remaining-requests": "93",
            f"x-ratelimit-{owner}-limit-tokens": "20000",
            f"x-ratelimit-{owner}-remaining-tokens": "18500",
        }
    )
    assert limits == {
        f"{owner}:requests": Limit(f"{owner}:requests", 100, 93, 0),
        f"{owner}:tokens": Limit(f"{owner}:tokens", 20_000, 18_500, 0),
    }


def test_calls_in_flight_are_no_bucket_that_a_minute_refills():
    headers = {
        "x-ratelimit-api_key-limit-max_parallel_requests": "8",
        "x-ratelimit-api_key-remaining-max_parallel_requests": "0",
        "x-ratelimit-api_key-limit-requests": "100",
        "x-ratelimit-api_key-remaining-requests": "93",
    }
    assert list(read(headers)) == ["api_key:requests"]


def test_eight_at_once_are_used_though_the_headers_say_none_is_left():
    async def main():
        pacer = limpet.pacing.Pacer(max_in_flight=8)

        async def call(number):
            limpet.pacing.observe(
                headers={
                    "x-ratelimit-api_key-limit-max_parallel_requests": "8",
                    "x-ratelimit-api_key-remaining-max_parallel_requests": "0",
                }
            )
            await asyncio.sleep(0.5)
            return number

        executor = limpet.AsyncExecutor(call, "auto", pacer=pacer, exit_on_error=False)
        await executor.execute(range(400))
        return asyncio.get_running_loop().time()

    assert virtual_time.run(main()) <= 1.1 * 400 * 0.5 / 8


def test_more_used_than_there_was_is_an_empty_bucket_and_minus_one_is_unknown():
    headers = {"x-ratelimit-api_key-limit-tokens": "20000"}
    below = read({**headers, "x-ratelimit-api_key-remaining-tokens": "-350"})
    assert below["api_key:tokens"].remaining == 0
    assert read({**headers, "x-ratelimit-api_key-remaining-tokens": "-1"}) == {}
    assert read({**headers, "x-ratelimit-api_key-remaining-tokens": "--5"}) == {}


def test_a_models_own_limits_and_those_of_its_provider_are_read():
    own = {
        "x-ratelimit-limit-input-tokens": "50000",
        "x-ratelimit-remaining-input-tokens": "40000",
        "x-ratelimit-reset-input-tokens": "17",
    }
    assert read(own)["input-tokens"] == Limit("input-tokens", 50_000, 40_000, 17)
    passed_on = {
        "llm_provider-x-ratelimit-limit-requests": "500",
        "llm_provider-x-ratelimit-remaining-requests": "499",
        "llm_provider-x-ratelimit-reset-requests": "120ms",
    }
    assert read(passed_on)["requests"] == Limit("requests", 500, 499, 0.12)
    both = {
        **passed_on,
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "6",
    }
    assert read(both)["requests"].limit == 60  # the proxy's own limit is nearer


# ---- refusals ----------------------------------------------------------------------------------


def test_a_models_limit_names_its_wait_only_as_the_providers():
    refused = ProxyError(
        "litellm.RateLimitError: Model rate limit exceeded. RPM limit=10, current usage=11",
        {"llm_provider-retry-after": "60"},
        kind="throttling_error",
    )
    signal = classify(refused)
    assert (signal.kind, signal.retry_after_s) == (FailureKind.RATE_LIMIT, 60)
    assert not signal.at_once


@pytest.mark.parametrize("limit_type", ["requests", "tokens"])
def test_a_keys_limit_per_minute_is_waited_for(limit_type):
    signal = classify(ProxyError(*exceeded(limit_type)))
    assert (signal.at_once, signal.retry_after_s) == (False, 60)


OLD_LIMITER = (
    "LiteLLM Rate Limit Handler for rate limit type = key. Crossed TPM / RPM / Max Parallel "
    "Request Limit. current rpm: {rpm}, rpm limit: 5, current tpm: 90, tpm limit: 1000, "
    "current max_parallel_requests: {busy}, max_parallel_requests: 8"
)
SLOTS = (
    "litellm.RateLimitError: Deployment has all max_parallel_requests slots in use. Deployment "
    "model_group=grader, id=ab12 already has max_parallel_requests=8 requests in flight. Raise "
    "max_parallel_requests (or the rpm/tpm it is derived from) for this deployment"
)


def with_type(value):
    refused = ProxyError("Max parallel request limit reached", {"retry-after": "60"})
    refused.rate_limit_type = value  # as litellm's own exceptions have it
    return refused


@pytest.mark.parametrize(
    "refused",
    [
        ProxyError(*exceeded("max_parallel_requests")),
        ProxyError(exceeded("max_parallel_requests")[0], {"retry-after": "60"}),
        ProxyError("", {"retry-after": "60", "rate_limit_type": "max_parallel_requests"}),
        ProxyError(SLOTS, {"retry-after": "60"}),
        ProxyError(OLD_LIMITER.format(rpm=3, busy=8), {"retry-after": "41"}),
        with_type("concurrent_requests"),
    ],
    ids=["key", "body only", "header only", "model", "old limiter", "exception"],
)
def test_too_many_at_once_is_not_waited_for(refused):
    signal = classify(refused)
    assert signal.kind is FailureKind.RATE_LIMIT
    assert (signal.at_once, signal.retry_after_s) == (True, None)


def test_the_old_limiter_names_all_its_limits_whichever_was_crossed():
    signal = classify(ProxyError(OLD_LIMITER.format(rpm=5, busy=2), {"retry-after": "41"}))
    assert (signal.at_once, signal.retry_after_s) == (False, 41)


def test_a_spent_budget_stops_the_run():
    spent = ProxyError(
        "Budget has been exceeded! Current cost: 10.2, Max budget: 10.0", kind="budget_exceeded"
    )
    assert classify(spent).kind is FailureKind.QUOTA
