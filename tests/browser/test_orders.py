"""Orders as a person gives them on the page of a run, in a real browser."""

import json
import threading
import time
import urllib.error
import urllib.request

import pytest

import limpet

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

expect.set_options(timeout=20_000)
ROWS = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(40)]


class Running:
    """A run in a thread, whose calls wait after the first four until they may go."""

    def __init__(self, folder, evaluators=()):
        self.calls, self.go = [], threading.Event()
        self.evaluators = evaluators
        self.folder, self.error = folder, None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        while len(self.calls) < 6:
            time.sleep(0.02)

    def answer(self, question):
        self.calls.append(question)
        if len(self.calls) > 4:
            self.go.wait(60)
        return question

    def _run(self):
        try:
            limpet.evaluate(
                ROWS, self.answer, self.evaluators, run=limpet.Run(self.folder, durability="flush"),
                pace=2, version="1", show=False,
            )  # fmt: skip
        except limpet.LimpetError as error:
            self.error = error

    def end(self):
        self.go.set()
        self._thread.join()


@pytest.fixture
def running(server, request):
    one = Running(server.directory / request.node.name)
    yield one
    one.end()


def test_a_run_is_paused_given_another_pace_resumed_and_stopped(page, running):
    page.show(f"#/run?run={running.folder.name}")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".orders .said")).to_have_text("paused: 2 calls in flight may end")
    expect(page.locator(".state")).to_have_text("paused")
    page.locator("input[name=pace]").fill("0")
    page.get_by_role("button", name="Set").click()
    expect(page.locator(".orders .said")).to_contain_text("pace 0: is not written like this")
    page.faults.clear()  # a browser complains about an answer of 400
    page.locator("input[name=pace]").fill("7")
    page.get_by_role("button", name="Set").click()
    expect(page.locator(".orders .said")).to_have_text("workflow: 7 at a time")
    assert len(running.calls) == 6
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".orders .said")).to_have_text("resumed")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="q5")
    row.get_by_role("button", name="skip").click()
    expect(page.locator(".orders .said")).to_have_text("skipped: q5; 1 call given up")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".state")).to_have_text("stopping")
    running.go.set()
    expect(page.locator(".orders .said")).to_contain_text("on disk")
    expect(page.locator(".state")).to_have_text("stopped")
    running.end()
    assert "limpet ctl stop" in str(running.error)


def test_where_there_are_several_endpoints_the_page_asks_of_which_step(page, server):
    judge = limpet.evaluator(lambda output: 1.0, endpoint="http://x", name="judge", version="1")
    running = Running(server.directory / "two", [judge])
    page.show("#/run?run=two")
    page.locator("input[name=pace]").fill("9")
    page.locator("select[name=of]").select_option("judge")
    page.get_by_role("button", name="Set").click()
    expect(page.locator(".orders .said")).to_have_text("http://x: 9 at a time")
    running.end()


def post(server, page, content, **headers):
    (cookie,) = page.context.cookies()
    body = json.dumps(content).encode()
    given = {"Cookie": f"{cookie['name']}={cookie['value']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.base}api/order", body, given | headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_only_a_page_of_this_server_gives_orders(server, page, running):
    page.show("#/runs")
    run, own = running.folder.name, {"Origin": server.base.rstrip("/")}
    order = {"run": run, "order": ["pause"]}
    assert post(server, page, order)[0] == 403
    assert post(server, page, order, Origin="http://evil.example")[0] == 403
    assert post(server, page, order, **own, Cookie="no")[0] == 401
    assert post(server, page, order, **own, **{"Content-Type": "text/plain"})[0] == 415
    for wrong in (
        [],
        {"run": run},
        {"run": "../x", "order": ["pause"]},
        {**order, "order": "pause"},
        {**order, "order": ["pause", 3]},
        {**order, "order": ["fly"]},
        {**order, "order": ["retry", "no"]},
    ):
        assert post(server, page, wrong, **own)[0] in (400, 404), wrong
    assert len(running.calls) == 6
    assert post(server, page, order, **own) == (
        200,
        {"done": "paused: 2 calls in flight may end"},
    )
    assert post(server, page, {**order, "order": ["resume"]}, **own)[0] == 200
