"""What providers report about their limits: a case for each family, and hostile ones."""

import math
from types import SimpleNamespace

import pytest

from limpet.pacing import FailureKind, Limit, classify
from limpet.pacing.limits import duration_s, read_limits, seconds_until
from limpet.pacing.signals import lower_cased

NOW = 1_794_700_800.0  # 2026-11-15T00:00:00Z


def read(headers):
    return {one.name: one for one in read_limits(lower_cased(headers), lambda: NOW)}


def error(**attributes):
    exc = type("ApiError", (Exception,), {})(attributes.pop("text", "no"))
    vars(exc).update(attributes)
    return exc


# ---- headers, provider by provider ---------------------------------------------------------


def test_openai():
    limits = read(
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-reset-tokens": "6m0s",
        }
    )
    assert limits["requests"] == Limit("requests", 60, 59, 1)
    assert limits["tokens"] == Limit("tokens", 150_000, 149_984, 360)


def test_azure_says_minus_one_for_what_it_does_not_know():
    headers = {
        "x-ratelimit-limit-tokens": "-1",
        "x-ratelimit-remaining-tokens": "-1",
        "x-ratelimit-reset-tokens": "0",
    }
    assert read(headers) == {}


def test_anthropic():
    limits = read(
        {
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "49",
            "anthropic-ratelimit-requests-reset": "2026-11-15T00:00:02Z",
            "anthropic-ratelimit-input-tokens-limit": "40000",
            "anthropic-ratelimit-input-tokens-remaining": "38000",
            "anthropic-ratelimit-input-tokens-reset": "2026-11-15T00:00:03Z",
        }
    )
    assert limits["requests"] == Limit("requests", 50, 49, 2)
    assert limits["input-tokens"] == Limit("input-tokens", 40_000, 38_000, 3)


def test_groq_counts_requests_by_the_day():
    limits = read(
        {
            "x-ratelimit-limit-requests": "14400",
            "x-ratelimit-remaining-requests": "14370",
            "x-ratelimit-reset-requests": "2m59.56s",
        }
    )
    one = limits["requests"]
    assert (one.limit - one.remaining) / one.reset_s == pytest.approx(14_400 / 86_400, rel=0.01)


def test_the_ietf_draft():
    limits = read(
        {
            "RateLimit-Policy": '"burst";q=100;w=60,"daily";q=1000;w=86400',
            "RateLimit": '"burst";r=50;t=30, "daily";r=900;t=3600',
        }
    )
    assert limits == {
        "burst": Limit("burst", 100, 50, 30),
        "daily": Limit("daily", 1000, 900, 3600),
    }


@pytest.mark.parametrize("prefix", ["RateLimit", "X-RateLimit"])
def test_the_older_drafts_and_the_custom_they_came_from(prefix):
    headers = {f"{prefix}-Limit": "100, 100;w=60", f"{prefix}-Remaining": "40"}
    assert read({**headers, f"{prefix}-Reset": "20"})["requests"] == Limit("requests", 100, 40, 20)
    epoch = {**headers, f"{prefix}-Reset": str(int(NOW) + 45)}
    assert read(epoch)["requests"].reset_s == 45


def test_the_responses_own_date_is_preferred_to_our_clock():
    headers = {
        "x-ratelimit-limit": "10",
        "x-ratelimit-remaining": "5",
        "x-ratelimit-reset": str(int(NOW) + 100),
        "date": "Sun, 15 Nov 2026 00:01:00 GMT",
    }
    assert read(headers)["requests"].reset_s == 40


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12ms", 0.012),
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("2d", 172_800),
        ("7.66", 7.66),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1s later", None),
        ("9" * 400 + "s", None),
    ],
)
def test_durations(text, seconds):
    assert duration_s(text) == seconds


# ---- hostile headers -------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e999", "", "ten", "0x10", "1_0" * 50])
def test_a_limit_that_makes_no_sense_is_left_out(value):
    assert all(
        math.isfinite(one.limit) and one.limit > 0 and math.isfinite(one.remaining)
        for one in read(
            {
                "x-ratelimit-limit-requests": value,
                "x-ratelimit-remaining-requests": "5",
                "x-ratelimit-limit-tokens": "5",
                "x-ratelimit-remaining-tokens": value,
            }
        ).values()
    )


def test_ten_thousand_headers_are_read_in_part_and_give_few_limits():
    many = {f"x-ratelimit-limit-{n}": "5" for n in range(10_000)}
    many.update({f"x-ratelimit-remaining-{n}": "5" for n in range(10_000)})
    assert len(read(many)) <= 16


def test_no_reset_is_further_away_than_a_day():
    headers = {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "99",
        "x-ratelimit-reset-requests": "99999h",
    }
    assert read(headers)["requests"] == Limit("requests", 10, 10, 86_400)
    assert seconds_until("not a date", lambda: NOW) == 0


# ---- errors, provider by provider --------------------------------------------------------------


def test_openai_error_codes():
    refused = error(status_code=429, code="rate_limit_exceeded")
    assert classify(refused).kind is FailureKind.RATE_LIMIT
    assert classify(error(status_code=429, code="insufficient_quota")).kind is FailureKind.QUOTA
    slow = classify(error(status_code=503, code="slow_down"))
    assert (slow.kind, slow.overloaded) == (FailureKind.TRANSIENT, True)
    daily = error(status_code=429, text="Rate limit reached on requests per day (RPD): Limit 200")
    assert classify(daily).kind is FailureKind.QUOTA


@pytest.mark.parametrize(
    ("said", "kind"), [("true", FailureKind.TRANSIENT), ("false", FailureKind.PERMANENT)]
)
def test_openai_should_retry(said, kind):
    status = 400 if said == "true" else 500
    assert classify(error(status=status, headers={"x-should-retry": said})).kind is kind


def test_anthropic_overload_is_pushback():
    signal = classify(error(status_code=529, type="overloaded_error"))
    assert signal.overloaded


def test_a_503_that_names_a_wait_is_pushback_and_one_that_does_not_an_outage():
    named = classify(error(status=503, headers={"retry-after": "3"}))
    assert (named.overloaded, named.retry_after_s) == (True, 3)
    plain = classify(error(status=503))
    assert (plain.overloaded, plain.outage) == (False, True)


def gemini(quota_id):
    return error(
        code=429,
        status="RESOURCE_EXHAUSTED",
        details={
            "error": {
                "details": [
                    {"@type": "google.rpc.QuotaFailure", "violations": [{"quotaId": quota_id}]},
                    {"@type": "google.rpc.RetryInfo", "retryDelay": "22s"},
                ]
            }
        },
    )


def test_gemini_names_its_wait_and_its_quota_in_the_body():
    minute = classify(gemini("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"))
    assert (minute.kind, minute.retry_after_s) == (FailureKind.RATE_LIMIT, 22)
    assert classify(gemini("GenerateRequestsPerDayPerProjectPerModel")).kind is FailureKind.QUOTA


def test_grpc_keeps_its_code_and_its_pushback_behind_calls():
    refused = error(
        code=lambda: SimpleNamespace(name="RESOURCE_EXHAUSTED"),
        trailing_metadata=lambda: [("grpc-retry-pushback-ms", "1500")],
    )
    signal = classify(refused)
    assert (signal.kind, signal.retry_after_s) == (FailureKind.RATE_LIMIT, 1.5)


def test_aws_calls_it_throttling_whatever_the_status():
    throttled = error(
        response={
            "Error": {"Code": "ThrottlingException"},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }
    )
    assert classify(throttled).kind is FailureKind.RATE_LIMIT


@pytest.mark.parametrize("name", ["ConnectTimeout", "ServerDisconnectedError", "ReadError"])
def test_a_broken_connection_is_an_outage_by_its_name_or_its_type(name):
    broken = type(name, (Exception,), {})()
    assert classify(broken).outage == (name != "ReadError")
    assert classify(ConnectionResetError()).outage
    assert not classify(ValueError()).outage


def test_the_limits_of_a_refusal_are_read():
    headers = {"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "0"}
    assert classify(error(status=429, headers=headers)).limits == (Limit("requests", 10, 0, 0),)
