"""Values on their way to a page."""

import pytest

from limpet.view.shown_values import Shortener, as_text


@pytest.mark.parametrize("number", [2**53 + 1, 12345678901234567890, -(2**60)])
def test_a_number_that_a_page_would_round_is_sent_as_text(number):
    assert Shortener()(number) == str(number)
    assert Shortener()({"n": [number]}) == as_text({"n": [number]})
    assert Shortener()({"n": 0.1234567890123456, "m": 2**49}) == {
        "n": 0.1234567890123456, "m": 2**49,
    }  # fmt: skip
