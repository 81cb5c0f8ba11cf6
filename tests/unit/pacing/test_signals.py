"""What a failure means, read from its shape."""

import email.utils
from types import SimpleNamespace

import pytest

import limpet
from limpet.pacing import FailureKind, Signal, classify
from limpet.pacing.signals import retry_after_s

RATE_LIMIT = FailureKind.RATE_LIMIT
TRANSIENT = FailureKind.TRANSIENT
PERMANENT = FailureKind.PERMANENT
QUOTA = FailureKind.QUOTA


def error(base=Exception, name="SomeError", **attributes):
    """An exception of a foreign class with these attributes."""
    exc = type(name, (base,), {})("what the provider said")
    for key, value in attributes.items():
        setattr(exc, key, value)
    return exc


def response(status=None, headers=None):
    return SimpleNamespace(status_code=status, headers=headers or {})


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (limpet.RateLimitError(), RATE_LIMIT),
        (limpet.TransientError("x"), TRANSIENT),
        (limpet.PermanentError("x"), PERMANENT),
        (limpet.errors.QuotaExhaustedError("x"), QUOTA),
        (NameError("x"), PERMANENT),
        (UnboundLocalError("x"), PERMANENT),
        (SyntaxError("x"), PERMANENT),
        (ImportError("x"), PERMANENT),
        (ModuleNotFoundError("x"), PERMANENT),
        (ConnectionResetError("x"), TRANSIENT),
        (TimeoutError("x"), TRANSIENT),
        (TimeoutError("x"), TRANSIENT),
        (ValueError("x"), TRANSIENT),
        (KeyError("x"), TRANSIENT),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_errors_by_type(exc, kind):
    assert classify(exc).kind is kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, PERMANENT),
        (401, PERMANENT),
        (402, QUOTA),
        (403, PERMANENT),
        (404, PERMANENT),
        (408, TRANSIENT),
        (409, TRANSIENT),
        (413, PERMANENT),
        (422, PERMANENT),
        (425, TRANSIENT),
        (429, RATE_LIMIT),
        (500, TRANSIENT),
        (502, TRANSIENT),
        (503, TRANSIENT),
        (529, TRANSIENT),
    ],
)
@pytest.mark.parametrize(
    "holding",
    [
        lambda status: {"status_code": status},
        lambda status: {"status": status},
        lambda status: {"response": response(status)},
        lambda status: {"response": SimpleNamespace(status=status)},
        lambda status: {"code": status},
        lambda status: {"response": {"ResponseMetadata": {"HTTPStatusCode": status}}},
    ],
    ids=["status_code", "status", "response.status_code", "response.status", "code", "botocore"],
)
def test_errors_by_status_wherever_the_client_keeps_it(status, kind, holding):
    assert classify(error(**holding(status))).kind is kind


def test_a_class_called_rate_limit_error_is_one_without_a_status():
    assert classify(error(name="RateLimitError")).kind is RATE_LIMIT
    assert classify(error(base=type(error(name="RateLimitError")))).kind is RATE_LIMIT


def test_a_phoenix_exception_is_permanent_unless_it_is_a_rate_limit():
    phoenix = type("PhoenixException", (Exception,), {})
    assert classify(phoenix("context too long")).kind is PERMANENT
    assert classify(error(base=phoenix, name="PhoenixContextLimitExceeded")).kind is PERMANENT
    assert classify(error(base=phoenix, name="RateLimitError")).kind is RATE_LIMIT


def test_the_cause_is_asked_when_the_exception_tells_nothing():
    def wrapped(cause):
        exc = RuntimeError("my wrapper")
        exc.__cause__ = cause
        return exc

    assert classify(wrapped(error(status_code=429))).kind is RATE_LIMIT
    assert classify(wrapped(wrapped(error(status=401)))).kind is PERMANENT
    assert classify(wrapped(error(name="PhoenixException"))).kind is PERMANENT
    retry = response(429, {"retry-after": "3"})
    assert classify(wrapped(error(response=retry))) == Signal(RATE_LIMIT, 3, unpaid=True)


def test_a_wrapper_with_the_status_alone_has_the_wait_of_its_cause():
    class ModelRateLimitError(Exception):  # pydantic-ai: no headers
        status_code = 429

    class Refused(Exception):
        status_code, headers = 429, {"retry-after": "7"}

    wrapped = ModelRateLimitError()
    wrapped.__cause__ = Refused()
    assert classify(wrapped).retry_after_s == 7
    wrapped.__cause__ = ValueError()
    wrapped.__cause__.__cause__ = wrapped
    assert classify(wrapped).kind is FailureKind.RATE_LIMIT


def test_a_chain_of_causes_that_bites_its_tail_ends():
    one, two = RuntimeError(), RuntimeError()
    one.__cause__, two.__cause__ = two, one
    assert classify(one).kind is TRANSIENT
    group = ExceptionGroup("g", [one])
    two.__cause__ = group
    assert classify(group).kind is TRANSIENT


def test_of_several_failures_in_one_attempt_the_gravest_decides():
    refused = error(response=response(429, {"retry-after": "7"}))
    broken = error(status=503)
    signal = classify(ExceptionGroup("g", [broken, refused]))
    assert (signal.kind, signal.retry_after_s) == (RATE_LIMIT, 7)
    assert classify(ExceptionGroup("g", [refused, error(status=401)])).kind is PERMANENT
    assert classify(ExceptionGroup("g", [ValueError()])).kind is TRANSIENT


@pytest.mark.parametrize(
    "attributes",
    [
        {"code": "insufficient_quota"},
        {"type": "insufficient_quota"},
        {"body": {"error": {"code": "insufficient_quota"}}},
        {"body": {"code": "billing_hard_limit_reached"}},
        {"args": ("Error code: 429 - {'error': {'code': 'insufficient_quota'}}",)},
    ],
    ids=str,
)
def test_an_exhausted_quota_is_neither_a_rate_limit_nor_permanent(attributes):
    assert classify(error(status_code=429, **attributes)).kind is QUOTA


# ---- waits named by the server -------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "nonsense", "retry-after": "2"}, 2),
        ({}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Fri, 99 Foo 2026 99:99:99 GMT"}, None),
    ],
    ids=str,
)
def test_retry_after_in_seconds_and_milliseconds(headers, seconds):
    assert retry_after_s(headers, wall_clock=lambda: 0) == seconds


def test_retry_after_as_a_date_counts_from_the_responses_own_date():
    headers = {
        "retry-after": "Sun, 15 Nov 2026 10:00:30 GMT",
        "date": "Sun, 15 Nov 2026 10:00:00 GMT",
    }
    assert retry_after_s(headers, wall_clock=lambda: 0) == 30


def test_retry_after_as_a_date_counts_from_the_wall_clock_where_there_is_no_date():
    headers = {"retry-after": email.utils.formatdate(1_000_030, usegmt=True)}
    assert retry_after_s(headers, wall_clock=lambda: 1_000_000) == 30
    assert retry_after_s(headers, wall_clock=lambda: 2_000_000) == 0  # it is over
    refused = error(status=429, headers=headers)
    assert classify(refused, wall_clock=lambda: 1_000_010).retry_after_s == 20


@pytest.mark.parametrize("headers", [{"Retry-After": "9"}, {b"RETRY-AFTER": b"9"}], ids=str)
def test_headers_are_read_in_any_case_and_as_bytes(headers):
    assert classify(error(status=429, headers=headers)).retry_after_s == 9


def test_botocores_headers_are_read():
    metadata = {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "4"}}
    assert classify(error(response={"ResponseMetadata": metadata})) == Signal(
        RATE_LIMIT, 4, unpaid=True
    )


def test_our_own_rate_limit_error_names_its_wait():
    assert classify(limpet.RateLimitError(retry_after=2.5)) == Signal(RATE_LIMIT, 2.5, unpaid=True)


# ---- hostile shapes --------------------------------------------------------------------------


class Hostile(Exception):
    """Every attribute raises, and so does its text."""

    def __getattribute__(self, name):
        if name.startswith("__"):
            return super().__getattribute__(name)
        raise RuntimeError("ha")

    def __str__(self):
        raise RuntimeError("ha")


def test_an_exception_that_raises_when_it_is_read_is_transient():
    assert classify(Hostile()) == Signal(TRANSIENT)


@pytest.mark.parametrize(
    "headers",
    [
        7,
        "retry-after: 7",
        {None: None, 3: object()},
        {f"x-{n}": "y" * 100 for n in range(10_000)},
    ],
    ids=["int", "str", "odd keys", "ten thousand"],
)
def test_odd_headers_name_no_wait(headers):
    assert classify(error(status=429, headers=headers)) == Signal(RATE_LIMIT, unpaid=True)
