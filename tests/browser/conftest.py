"""One browser and one server for the tests of pages. A missing browser is reported."""

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


# Of this package, not of the session: while Playwright is open, no other test has an event loop.
@pytest.fixture(scope="package")
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
    """Make a page that notes in `faults` whatever it complains about."""
    page = context.new_page()
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda message: is_fault(message) and page.faults.append(message.text))
    page.on("dialog", lambda dialog: (page.faults.append("a dialog"), dialog.dismiss()))
    return page


def is_fault(message):
    """Is it one of our pages? Where `leave` goes, the browser asks for a picture that is not."""
    return message.type == "error" and not message.location["url"].endswith("/favicon.ico")


def use(page):
    """Make a page as good as new. A new one would cost half a second of the processor."""
    page.faults = []
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="null")


def leave(page, address):
    """Let nothing of a test go on, and return what the page complained about.

    The address is one of the same site that does nothing: for another site, the browser would end
    the page's process.
    """
    page.goto(address)
    for other in page.context.pages:
        if other is not page:
            other.close()
    return page.faults


@pytest.fixture(scope="module")
def one_page(context, server):
    page = new_page(context)
    use(page)
    page.goto(server.address)
    return page


@pytest.fixture
def page(one_page, server):
    """A page that is signed in. Whatever it complains about fails the test."""
    use(one_page)
    one_page.show = lambda view: one_page.goto(server.base + view)
    yield one_page
    assert leave(one_page, server.base + "format.js") == []
