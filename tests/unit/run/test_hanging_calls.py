"""How often a call that hangs is tried, in virtual time, and what is said of it."""

import asyncio

import pytest

import limpet

pytestmark = pytest.mark.usefixtures("virtual_loops")


def hanging():
    """Return a function that never answers, and the list of its calls."""
    calls = []

    async def hang(question):
        calls.append(question)
        await asyncio.Event().wait()

    return hang, calls


@pytest.mark.parametrize(
    ("retry", "attempts"),
    [
        ({}, 3),
        ({"retry": 5}, 3),
        ({"retry": 1}, 2),
        ({"retry": 0}, 1),
        ({"retry": limpet.Retry(max_timeouts=4)}, 5),
        ({"retry": limpet.Retry(0, max_timeouts=1)}, 2),
    ],
)
def test_a_call_that_hangs_is_tried_again_twice_unless_told_otherwise(retry, attempts):
    hang, calls = hanging()
    mapped = limpet.map(hang, ["q"], **retry)
    assert len(calls) == attempts
    assert f"(attempt {attempts})" in str(mapped.failures[0].error)


def test_the_last_timeout_says_what_gives_it_more(tmp_path):
    hang, calls = hanging()
    result = limpet.evaluate([{"id": "q", "question": "?"}], hang, run=tmp_path / "run", show=False)
    message = result.items[0].error["message"]
    assert message == (
        "item 'q': no answer within 600 s (attempt 3); a higher timeout gives it more time, "
        "a higher max_timeouts more attempts"
    )
    assert len(calls) == 3


class ReadTimeout(OSError):
    """As requests has it: no TimeoutError."""


class ConnectTimeout(OSError):
    """No connection: nothing was asked."""


@pytest.mark.parametrize(
    ("error", "attempts"), [(TimeoutError, 3), (ReadTimeout, 3), (ConnectTimeout, 11)]
)
def test_a_clients_own_timeout_counts_like_ours(error, attempts):
    calls = []

    async def hang(question):
        calls.append(question)
        raise error("no reply in time")

    limpet.map(hang, ["q"])
    assert len(calls) == attempts
