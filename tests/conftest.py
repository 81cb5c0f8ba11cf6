# ruff: noqa: E402 - see NO_BYTECODE
import asyncio
import collections
import gc
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

# Pytest rewrites what its plugins import, Hypothesis too: 2 s per worker where none of it is kept.
NO_BYTECODE, sys.dont_write_bytecode = sys.dont_write_bytecode, False

from hypothesis import HealthCheck, settings
from identity.projects import Players
from virtual_time import VirtualTimeLoop

sys.dont_write_bytecode = NO_BYTECODE

# `make test` tries the same examples each time, so that it cannot fail by chance; `make test-all`
# looks for new ones. No deadlines: the machine's speed is not under test.
calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, max_examples=10, **calm)
settings.register_profile("new", max_examples=1000, print_blob=True, **calm)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
settings.load_profile(PROFILE)

# What one test learns of a server is no business of another, nor of the user's runs.
os.environ["LIMPET_REMEMBER_PACE"] = "0"
os.environ["LIMPET_SHARE_PACE"] = "0"

BROWSER = "tests/browser/"

# `make test` has its folders in memory, where a sync costs nothing: no test of it cuts the power.
# `make test-all` has them on the disk, and so has a machine with little room in memory.
MEMORY = Path("/dev/shm")  # noqa: S108
if PROFILE == "same" and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# The process that starts the workers of pytest-xdist has a terminal's size in its environment, and
# a command in a pipe would take it for the user's.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Whoever starts the tests in the background has SIGINT ignored, or with nohup SIGHUP, and so would
# have all that they start: nothing could be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Take two for each core: half of its time a test waits for a process or a server."""
    return 2 * min(os.cpu_count() or 1, 4)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give all tests of pages to one worker: they share a browser."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return BROWSER if file.startswith(BROWSER) else file

    return ByFile(config, log)


def pytest_runtest_protocol(item, nextitem):
    """Let a worker tell of a test that passed once, not six times: 2 ms of each test are words."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the tests' bytecode also where none is written: to make it takes 12 s per worker.

    No garbage is collected meanwhile: there is none, and to look for it takes 1 s.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        sys.dont_write_bytecode = before


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test with `quick(n)`, mark slow all cases but each n-th of those that are not."""
    numbers = collections.Counter()
    for item in items:
        mark = item.get_closest_marker("quick")
        if mark and not item.get_closest_marker("slow"):
            name = item.nodeid.partition("[")[0]
            if numbers[name] % mark.args[0]:
                item.add_marker("slow")
            numbers[name] += 1


def pytest_collection_finish():
    """Let the garbage collector pass over ten thousand tests, and look as often as `limpet run`."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def pytest_terminal_summary(terminalreporter):
    """Say at the end, loudly, that the pages were not tested."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any("NO BROWSER" in str(report.longrepr) for report in skipped):
        terminalreporter.write_sep("!", "NO BROWSER: the pages were not tested", red=True)


@pytest.fixture
def virtual_loops(monkeypatch):
    """Put every new event loop, also those `run()` makes itself, on virtual time."""
    monkeypatch.setattr(asyncio, "new_event_loop", VirtualTimeLoop)


@pytest.fixture(scope="session")
def players():
    """Two processes that have imported what is slow to import, and fork for each script."""
    players = Players()
    yield players
    players.close()
