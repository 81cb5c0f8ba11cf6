"""`limpet.load_run`: the result of a run that is on disk."""

import json
import subprocess
import sys
import threading

import pytest
from cut_short import cut_short

import limpet

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(4)]


def last_word(question):
    return question.split()[-1]


def test_a_loaded_run_is_what_evaluate_returned(tmp_path):
    run = tmp_path / "run"
    result = limpet.evaluate(ROWS, last_word, [limpet.exact_match()], run=run, trials=2)
    loaded = limpet.load_run(run)
    assert isinstance(loaded, limpet.EvaluationResult)
    assert loaded.summary == result.summary == json.loads((run / "summary.json").read_text())
    assert loaded.items == result.items
    assert loaded.to_dataframe().equals(result.to_dataframe())
    assert repr(loaded) == repr(result)
    assert (loaded.state, loaded.run, loaded.stop_reason) == ("finished", str(run), None)
    assert (loaded.plan.items, loaded.plan.trials, loaded.plan.workflow.calls) == (4, 2, 8)


def test_a_running_run_is_loaded_and_refreshed(tmp_path):
    run, on_disk, go_on = tmp_path / "run", threading.Semaphore(0), threading.Event()

    def workflow(question):
        if question == "Say 2":
            assert go_on.wait(60)
        return last_word(question)

    watcher = lambda _: on_disk.release()
    options = {"run": run, "pace": 1, "version": "1", "watcher": watcher}
    thread = threading.Thread(
        target=limpet.evaluate, args=(ROWS, workflow, [limpet.exact_match()]), kwargs=options
    )
    thread.start()
    try:
        assert on_disk.acquire(timeout=60)
        assert on_disk.acquire(timeout=60)
        loaded = limpet.load_run(run)
        assert (loaded.state, loaded.summary["workflow"]["completed"]) == ("running", 2)
        assert loaded.summary["workflow"]["not_run"] == 2
    finally:
        go_on.set()
        thread.join()
    # Until it is refreshed, items and summary are of the same moment.
    assert [item.status.value for item in loaded.items] == ["completed"] * 2 + ["not_run"] * 2
    loaded.refresh()
    assert (loaded.state, loaded.summary["workflow"]["completed"]) == ("finished", 4)
    assert [item.output.value for item in loaded.items] == ["0", "1", "2", "3"]


def test_a_stopped_run_says_why(tmp_path):
    def workflow(question):
        raise TypeError("a bug")

    rows = [{"id": f"q{n}", "question": "x"} for n in range(20)]
    # One call at a time: with all of them in flight there is nothing left to stop.
    result = cut_short(limpet.evaluate, rows, workflow, run=tmp_path / "run", retry=0, pace=1)
    loaded = limpet.load_run(tmp_path / "run")
    assert loaded.state == "stopped"
    assert str(loaded.stop_reason) == str(result.stop_reason)
    assert len(loaded.failed) == len(result.failed)


def test_the_journal_of_a_map_is_a_run(tmp_path):
    journal = tmp_path / "squares.jsonl"
    limpet.map(lambda number: number**2, [1, 2, 3], journal=journal, pace=1)
    loaded = limpet.load_run(journal)
    assert [item.output.value for item in loaded.items] == [1, 4, 9]
    assert list(loaded.to_dataframe()["input"]) == [1, 2, 3]
    assert loaded.summary["workflow"]["completed"] == 3
    assert repr(loaded) == "<EvaluationResult: 3 of 3 completed>"


def test_a_run_is_found_by_its_name_and_a_wrong_name_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    limpet.evaluate(ROWS, last_word, run="runs/capitals")
    assert len(limpet.load_run("capitals").items) == 4
    with pytest.raises(
        limpet.LimpetError, match="runs/capitols: this run does not exist"
    ) as raised:
        limpet.load_run("runs/capitols")
    assert raised.value.hint == "did you mean runs/capitals?"
    with pytest.raises(TypeError, match="path=None: must be a string or a Path"):
        limpet.load_run(None)


def test_reading_a_run_imports_no_evaluators(tmp_path):
    limpet.evaluate(ROWS, last_word, run=tmp_path / "run")
    script = (
        "import limpet, sys; limpet.load_run(sys.argv[1]).items;"
        "print([name for name in sys.modules if name.startswith(('limpet.evaluators', 'pandas'))])"
    )
    done = subprocess.check_output([sys.executable, "-c", script, str(tmp_path / "run")], text=True)
    assert done == "[]\n"
