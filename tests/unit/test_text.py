"""How numbers are written in messages, and which word was meant."""

import pytest

from limpet.text import money, nearest, size

COMMANDS = ["init", "run", "import", "status", "show", "why", "list", "export", "verify", "schema"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("st", "status"), ("sta", "status"), ("ver", "verify"), ("exp", "export"), ("lst", "list")],
)
def test_a_word_that_is_begun_is_meant_before_one_that_looks_alike(typed, meant):
    assert nearest(typed, COMMANDS) == meant


def test_one_letter_means_nothing():
    assert nearest("s", COMMANDS) is None


def test_of_several_words_that_begin_so_the_closest_is_meant():
    assert nearest("max", ["max_concurrency", "max_rate"]) == "max_rate"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (3_210, "3.2 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (999_950_000, "1.0 GB"),
        (5e12, "5,000.0 GB"),
    ],
)
def test_a_size_is_never_rounded_to_nothing(number, words):
    assert size(number) == words


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "0.00"),
        (0.00006, "0.00006"),
        (0.0000617, "0.000062"),
        (0.0099, "0.0099"),
        (0.01, "0.01"),
        (0.0149, "0.015"),
        (0.0999, "0.10"),
        (-0.05, "-0.05"),
        (0.126, "0.13"),
        (1234.5, "1,234.50"),
    ],
)
def test_a_small_cost_is_not_nothing(amount, words):
    assert money(amount) == words
