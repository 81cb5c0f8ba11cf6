"""One browser and one server for the tests of pages. Where there is no browser, that is said."""

import asyncio
import os
import shutil
import threading

import pytest

from limpet.view.server import serving

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-quic", "--no-first-run", "--process-per-site",
)  # fmt: skip
"""A browser that talks to nobody but the server under test, with one process for all its pages."""
MISSING = "NO BROWSER: the tests of the pages were skipped; install chromium to run them"


def browser_path():
    return next(filter(None, map(shutil.which, BROWSERS)), None)


# Of a module, not of the session: while Playwright is open, no other test has an event loop.
@pytest.fixture(scope="module")
def browser():
    path = browser_path()
    if path is None:
        pytest.skip(MISSING)
    sync_api = pytest.importorskip("playwright.sync_api", reason=MISSING)
    with sync_api.sync_playwright() as playwright:
        arguments = [*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        started = playwright.chromium.launch(executable_path=path, args=arguments)
        yield started
        started.close()


class Server:
    """A server in a thread of its own, for the runs below one directory."""

    def __init__(self, directory):
        self.directory = directory
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        self._ready.wait()

    async def _serve(self):
        self._ended = asyncio.Event()
        async with serving(self.directory) as started:
            self.address, self.base = started.address, f"http://127.0.0.1:{started.port}/"
            self._ready.set()
            await self._ended.wait()

    def close(self):
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    runs = tmp_path_factory.mktemp("pages") / "runs"
    runs.mkdir()
    one = Server(runs)
    yield one
    one.close()


# Of a module: with its first page, a context starts a process. Pages keep nothing between them.
@pytest.fixture(scope="module")
def context(browser, server):
    context = browser.new_context()
    context.set_default_timeout(20_000)
    yield context
    context.close()


def new_page(context):
    page = context.new_page()
    page.set_viewport_size({"width": 1280, "height": 800})
    return page


def close_pages(context):
    """Close all pages but one, so that the process stays for the next test."""
    blank = context.new_page()
    for page in context.pages:
        if page is not blank:
            page.close()


@pytest.fixture
def page(context, server):
    """A page that is signed in. Whatever it complains about fails the test."""
    page = new_page(context)
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: message.type == "error" and faults.append(message.text))
    page.on("dialog", lambda dialog: (faults.append("a dialog"), dialog.dismiss()))
    page.goto(server.address)
    page.show = lambda view: page.goto(server.base + view)
    page.faults = faults
    yield page
    close_pages(context)
    assert faults == []
