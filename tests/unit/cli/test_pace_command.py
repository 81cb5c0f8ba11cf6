"""`limpet pace`: what it lists, what it forgets, and what it says if there is nothing."""

import pytest
from scored_runs import command

from limpet.pacing.memory import of_the_user
from limpet.report import terminal

LEARNED = {"version": 1, "rate": 20.0}


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMPET_REMEMBER_PACE", "1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = of_the_user()
    kept.save([("http://127.0.0.1:8902 m", b"", LEARNED), ("https://other m", b"", LEARNED)])
    return kept


@pytest.fixture
def pace(tmp_path):
    def run(*words):
        terminal.stderr_console.cache_clear()  # it is that of the command before
        return command("pace", *words, cwd=tmp_path)

    return run


def test_a_damaged_file_is_named_and_not_taken_for_none(memory, pace):
    memory.path.write_text("{")
    done = pace()
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{memory.path} is damaged: the next run replaces it\n"
    assert pace("--json").err == done.err
