"""The bar, and messages that go through it."""

import logging

from virtual_time import in_virtual_time

from limpet import AsyncExecutor
from limpet.executors import Backoff
from limpet.text import one_line

BAR = "{desc}|{n_fmt}/{total_fmt}|"


def flaky():
    seen = set()

    async def fn(x):
        if x not in seen:
            seen.add(x)
            raise ValueError(f"first \x1b[31m{x}")
        return x

    return fn


@in_virtual_time
async def test_the_bar_counts_finished_inputs_and_messages_go_to_stderr(capsys):
    await AsyncExecutor(flaky(), tqdm_bar_format=BAR, backoff=Backoff(0)).execute([1, 2])
    shown = capsys.readouterr()
    assert "|2/2|" in shown.err
    assert shown.out == ""
    assert "input 0 failed (attempt 1): ValueError('first \\x1b[31m1')" in shown.err
    assert "; retrying in " in shown.err
    assert "\x1b[31m" not in shown.err


@in_virtual_time
async def test_a_message_never_cuts_across_the_bar(capsys):
    await AsyncExecutor(flaky(), tqdm_bar_format=BAR, backoff=Backoff(0)).execute([1, 2])
    for line in capsys.readouterr().err.replace("\r", "\n").split("\n"):
        assert not ("failed" in line and "|" in line)


@in_virtual_time
async def test_inputs_of_unknown_number_are_counted_too(capsys):
    await AsyncExecutor(flaky(), tqdm_bar_format=BAR, backoff=Backoff(0)).execute(iter([1, 2, 3]))
    assert "|3/?|" in capsys.readouterr().err


@in_virtual_time
async def test_without_a_bar_nothing_is_printed_and_retries_are_logged(capsys, caplog):
    caplog.set_level(logging.INFO, "limpet.executors")
    await AsyncExecutor(flaky(), backoff=Backoff(0)).execute([1])
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")
    assert "retrying in 0.00 s" in caplog.text


def test_a_line_is_short_and_harmless():
    assert one_line("a\nb\x1b]0;title\x07") == "a\\nb\\x1b]0;title\\x07"
    assert one_line("x" * 1000) == "x" * 300 + "…"
    assert one_line("é × 漢") == "é × 漢"

    class Nasty:
        def __repr__(self):
            raise RuntimeError

    assert one_line(Nasty()) == "<Nasty, whose repr raised RuntimeError>"
