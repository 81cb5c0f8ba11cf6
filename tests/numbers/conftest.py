"""What the tests of the numbers share: runs that are made once."""

import pytest

from tests.numbers.runs import Shelf


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    return Shelf(tmp_path_factory.mktemp("shelf"))
