"""A session that is stopped at once says how many calls it gave up."""

import asyncio
import json
import signal

from cut_short import cut_short

import limpet


class Calls:
    """Of five calls, one returns, and the last to start presses Ctrl-C twice."""

    def __init__(self):
        self.started = 0

    async def answer(self, question):
        self.started += 1
        if question == "q0":
            return "done"
        if self.started == 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(3600)
        return None


def last_event(path):
    return json.loads(path.read_text(encoding="utf-8").splitlines()[-1])


def test_an_evaluation_says_it_in_its_summary_and_its_last_event(tmp_path):
    rows, calls = [{"id": f"q{n}", "question": f"q{n}"} for n in range(5)], Calls()
    options = {"pace": 5, "version": "1", "fail_fast": False}
    result = cut_short(limpet.evaluate, rows, calls.answer, (), tmp_path / "run", **options)
    assert isinstance(result.stop_reason, limpet.errors.InterruptedRunError)
    assert result.summary["given_up"] == 4
    assert last_event(tmp_path / "run" / "events.jsonl")["given_up"] == 4
    whole = limpet.evaluate(rows, lambda question: "a", (), tmp_path / "run", version="1")
    assert "given_up" not in whole.summary
    assert "given_up" not in last_event(tmp_path / "run" / "events.jsonl")


def test_a_map_says_it_in_its_last_event(tmp_path):
    inputs, calls = [f"q{n}" for n in range(5)], Calls()
    result = cut_short(
        limpet.map, calls.answer, inputs, journal=tmp_path / "out", pace=5, version="1"
    )
    assert result.not_run == 4
    assert last_event(tmp_path / "out" / "events.jsonl")["given_up"] == 4
