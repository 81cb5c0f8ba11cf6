"""`limpet pace`: what it lists, what it forgets, and what it says if there is nothing."""

import sys
from pathlib import Path

import pytest
from scored_runs import command

from limpet.pacing.memory import of_the_user
from limpet.report import terminal

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import pacing
import providers

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


def test_a_url_lists_and_forgets_what_begins_with_it(memory, pace):
    assert "127.0.0.1:8902" in pace("http://127").out
    assert "other" not in pace("http://127").out
    done = pace("list")
    said = "no run with `pace: auto` learned anything of an address that begins with 'list' in"
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(said)
    assert pace("forget", "8902").err == "nothing to forget of an address that begins with '8902'\n"
    assert pace("forget", "http://127").err == "forgot 1 endpoint\n"
    assert pace("forget").err == "forgot 1 endpoint\n"
    assert pace("forget").err == "nothing to forget\n"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (providers.TokenBucket, "20.2/s"),
        (providers.cap_of(8), "8 in flight"),
        (providers.NamedLimits, "its headers name the limit"),
        (providers.QueueingServer, "in flight pay off"),
        (providers.Batching, "no limit up to"),
    ],
)
def test_it_says_what_was_learned(model, said, memory, pace):
    memory.save([("http://127.0.0.1:8902 m", b"", pacing.run(model(0, 1500)).memory)])
    assert said in pace("http://127").out


def test_more_than_one_url_is_refused(memory, pace):
    done = pace("forget", "http://a", "http://b")
    assert done.code == 2
    assert done.err.startswith("error: one URL, not 2\n\nhint: limpet pace [forget] [URL]")
    assert len(memory.entries()) == 2


def test_it_says_why_nothing_is_remembered(memory, pace, monkeypatch):
    monkeypatch.setenv("LIMPET_REMEMBER_PACE", "0")
    done = pace()
    assert done.code == 2
    assert done.err.startswith("error: the pace is not remembered: LIMPET_REMEMBER_PACE is 0\n")
    monkeypatch.setenv("LIMPET_REMEMBER_PACE", "1")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError("none")))
    assert "the pace is not remembered: there is no home directory" in pace().err
