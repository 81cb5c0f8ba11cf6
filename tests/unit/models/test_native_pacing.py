"""What each provider says of its limits and its load, and what the pacer makes of it.

Everything goes through the real client: headers of replies, refusals as each provider words them,
and failures within a stream.
"""

import asyncio
import time

import pytest
from model_server import model_server, raw
from wire import WIRE, WIRES

from limpet import AsyncExecutor
from limpet.errors import LimpetError
from limpet.models import provider_api
from limpet.models.provider import provider
from limpet.pacing import FailureKind, Limit, classify
from limpet.pacing.limits import read_limits
from limpet.pacing.observation import Observation, observing

DATE = {"Date": "Sun, 15 Nov 2026 00:00:00 GMT"}
ANTHROPIC = {
    f"anthropic-ratelimit-{name}-{part}": value
    for name, size in (("requests", 50), ("input-tokens", 40_000), ("output-tokens", 8_000))
    for part, value in (
        ("limit", str(size)),
        ("remaining", str(size // 2)),
        ("reset", "2026-11-15T00:00:30Z"),
    )
}
OPENAI = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
}


def retry_info(delay):
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota_failure(quota):
    kind = "type.googleapis.com/google.rpc.QuotaFailure"
    return {"@type": kind, "violations": [{"quotaMetric": "requests", "quotaId": quota}]}


def exhausted(*details):
    error = {"code": 429, "message": "You exceeded your quota.", "status": "RESOURCE_EXHAUSTED"}
    return {"error": {**error, "details": list(details)}}


def asking(wire, answer, **settings):
    with model_server(answer) as server:
        model = provider_api(
            wire.name, server.url.removesuffix("/v1"), model="m", key=None, **settings
        )
        return asyncio.run(ask(model))


async def ask(model):
    await model.open()
    try:
        return await model.ask([{"role": "user", "content": "?"}])
    finally:
        await model.close()


def signal_of(wire, answer, **settings):
    with pytest.raises(LimpetError) as caught:
        asking(wire, answer, **settings)
    return classify(caught.value)


# ---- headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "headers", "limits"),
    [
        (
            "anthropic",
            ANTHROPIC,
            [
                Limit("requests", 50, 25, 30),
                Limit("input-tokens", 40_000, 20_000, 30),
                Limit("output-tokens", 8_000, 4_000, 30),
            ],
        ),
        ("openai", OPENAI, [Limit("requests", 60, 59, 1)]),
        ("responses", OPENAI, [Limit("requests", 60, 59, 1)]),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_limits_in_the_headers_of_a_reply_reach_the_pacer(name, headers, limits, stream):
    wire, observed = WIRE[name], Observation()
    body = wire.body("hello")
    answer = wire.streamed(body) if stream else raw(body)
    with observing(observed):
        asking(wire, answer._replace(headers={**answer.headers, **headers, **DATE}), stream=stream)
    assert read_limits(observed.headers, time.time) == limits
    assert observed.usage == {"total_tokens": 15}


# ---- refusals -----------------------------------------------------------------------------------

ANTHROPIC_429 = WIRE["anthropic"].refusal(429, "slow down", "rate_limit_error")
OVERLOADED = WIRE["anthropic"].refusal(529, "Overloaded", "overloaded_error")
THROTTLED = {"message": "Too many requests, please wait before trying again."}
THROTTLING = {"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/"}
NO_TOKENS_TODAY = {"message": "Too many tokens per day, please wait before trying again."}
BUSY = {"error": "server busy, please try again.  maximum pending requests exceeded"}
EXCEEDED = "You exceeded your current quota.\n* Quota exceeded for metric: m, limit: 10, model: g"
FULL = "The model is overloaded. Please try again later."
RATE_LIMIT, QUOTA, TRANSIENT = FailureKind.RATE_LIMIT, FailureKind.QUOTA, FailureKind.TRANSIENT


@pytest.mark.parametrize(
    ("name", "status", "body", "headers", "kind", "wait", "overloaded"),
    [
        ("anthropic", 429, ANTHROPIC_429, {"retry-after": "7"}, RATE_LIMIT, 7, False),
        ("anthropic", 429, ANTHROPIC_429, {}, RATE_LIMIT, None, False),
        ("anthropic", 529, OVERLOADED, {}, TRANSIENT, None, True),
        ("anthropic", 529, OVERLOADED, {"retry-after": "3"}, TRANSIENT, 3, True),
        ("anthropic", 500, OVERLOADED, {}, TRANSIENT, None, True),  # of a gateway
        ("gemini", 429, exhausted(retry_info("37s")), {}, RATE_LIMIT, 37, False),
        ("gemini", 429, exhausted(retry_info("2.5s")), {}, RATE_LIMIT, 2.5, False),
        ("gemini", 429, [exhausted(retry_info("37s"))], {}, RATE_LIMIT, 37, False),
        (
            "gemini", 429,
            exhausted(quota_failure("GenerateRequestsPerMinutePerProject"), retry_info("9s")),
            {}, RATE_LIMIT, 9, False,
        ),
        (
            "gemini", 429, exhausted(quota_failure("GenerateRequestsPerDayPerProject")),
            {}, QUOTA, None, False,
        ),
        (  # its words are the same for a minute and a day
            "gemini", 429, {"error": {**exhausted(
                quota_failure("GenerateRequestsPerMinutePerProject"), retry_info("9s")
            )["error"], "message": EXCEEDED}},
            {}, RATE_LIMIT, 9, False,
        ),
        ("gemini", 503, {"error": {"code": 503, "status": "UNAVAILABLE", "message": FULL}}, {},
         TRANSIENT, None, True),
        ("bedrock", 429, THROTTLED, THROTTLING, RATE_LIMIT, None, False),
        ("bedrock", 429, NO_TOKENS_TODAY, THROTTLING, QUOTA, None, False),
        ("bedrock", 503, {"message": "busy"}, {}, TRANSIENT, None, False),
        ("ollama", 503, BUSY, {}, TRANSIENT, None, True),
        ("ollama", 503, {"error": "loading"}, {"Retry-After": "4"}, TRANSIENT, 4, True),
        ("ollama", 429, {"error": "usage limit"}, {}, RATE_LIMIT, None, False),
    ],
)  # fmt: skip
def test_a_refusal_is_read_as_the_provider_words_it(
    name, status, body, headers, kind, wait, overloaded
):
    signal = signal_of(WIRE[name], raw(body, status, headers))
    assert (signal.kind, signal.retry_after_s, signal.overloaded) == (kind, wait, overloaded)
    assert signal.unpaid


def test_a_refusal_has_its_limits():
    headers = {**ANTHROPIC, **DATE}
    signal = signal_of(WIRE["anthropic"], raw(ANTHROPIC_429, 429, headers))
    assert [limit.name for limit in signal.limits] == ["requests", "input-tokens", "output-tokens"]


@pytest.mark.parametrize(
    ("name", "event", "kind", "overloaded"),
    [
        ("anthropic", OVERLOADED, TRANSIENT, True),
        ("anthropic", ANTHROPIC_429, RATE_LIMIT, False),
        ("gemini", exhausted(retry_info("37s")), RATE_LIMIT, False),
        ("ollama", BUSY, TRANSIENT, False),
    ],
)
def test_a_refusal_within_a_stream_is_one_too(name, event, kind, overloaded):
    wire = WIRE[name]
    begun = wire.events(wire.body("hello"))[:2]
    answer = raw(wire.stream([*begun, event]), headers={"Content-Type": wire.type})
    signal = signal_of(wire, answer, stream=True)
    assert (signal.kind, signal.overloaded) == (kind, overloaded)


def test_the_wait_that_gemini_names_in_the_body_is_kept():
    asked = []

    def answer(request, number):
        asked.append(time.monotonic())
        return raw(exhausted(retry_info("0.5s")), 429) if number == 0 else raw(body)

    wire = WIRE["gemini"]
    body = wire.body("hello")
    with model_server(answer) as server:
        model = provider_api("gemini", server.url.removesuffix("/v1"), model="m", key=None)
        executor = AsyncExecutor(lambda _: ask(model), exit_on_error=False)
        outputs, _ = asyncio.run(executor.execute([1]))
    assert outputs[0].text == "hello"
    assert asked[1] - asked[0] >= 0.5


@pytest.mark.parametrize("wire", WIRES, ids=str)
@pytest.mark.parametrize("status", [429, 503, 529])
def test_every_provider_that_has_too_many_calls_is_one_to_come_back_to(wire, status):
    for stream in {False, "stream" in provider(wire.name).can}:
        signal = signal_of(wire, wire.failure(status, headers={"Retry-After": "5"}), stream=stream)
        assert signal.pushback
        assert signal.retry_after_s == 5
