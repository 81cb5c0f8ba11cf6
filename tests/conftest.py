import asyncio

import pytest
from virtual_time import VirtualTimeLoop


@pytest.fixture
def virtual_loops(monkeypatch):
    """Put every new event loop, also those `run()` makes itself, on virtual time."""
    monkeypatch.setattr(asyncio, "new_event_loop", VirtualTimeLoop)
