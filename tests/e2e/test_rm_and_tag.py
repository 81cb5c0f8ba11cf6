"""Runs are removed and tagged by the real command: what is not a run of ours is never touched."""

import json
import shutil
import subprocess

import pytest
from e2e import ready_limpet
from e2e.project import COMMAND, make, run
from e2e.terminal import Terminal

import limpet


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project with a run that each test has a copy of."""
    folder = make(tmp_path_factory.mktemp("finished"), rows=3)
    assert run(folder).returncode == 0
    return folder


@pytest.fixture
def folder(tmp_path, finished):
    return shutil.copytree(finished, tmp_path, dirs_exist_ok=True)


def rm(folder, *arguments):
    return run(folder, *arguments, command="rm")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---- rm ----


def test_rm_removes_a_run_and_nothing_beside_it(folder):
    run(folder, "--set", "name=other")
    done = rm(folder, "trial", "--yes")
    assert done.returncode == 0
    assert done.stderr == "removed runs/trial\n"
    assert [path.name for path in (folder / "runs").iterdir()] == ["other"]
    assert {"app.py", "eval.yml", "rows.jsonl"} <= set(files(folder))


@pytest.mark.quick(2)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_on_a_terminal_it_asks_and_no_is_the_default(folder, columns):
    terminal = Terminal([*COMMAND, "rm", "trial"], cwd=folder, columns=columns)
    terminal.wait_for(r"remove runs/trial \([\d.]+ kB\) permanently\? \[y/N\]")
    terminal.press("\n")
    assert terminal.wait() == 2
    assert (folder / "runs/trial/run.json").is_file()
    terminal = Terminal([*COMMAND, "rm", "trial"], cwd=folder, columns=columns)
    terminal.wait_for(r"\[y/N\]")
    terminal.press("y\n")
    assert terminal.wait() == 0
    assert not (folder / "runs/trial").exists()


def test_without_a_terminal_it_needs_yes(folder):
    before = files(folder)
    done = rm(folder, "trial")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert files(folder) == before


def test_a_run_that_is_running_is_refused(tmp_path):
    make(tmp_path, workflow="app:answer_when_told")
    with ready_limpet.Popen(
        [*COMMAND, "run", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        while json.loads(process.stdout.readline())["event"] != "started":
            pass
        before = set(files(tmp_path / "runs"))
        done = rm(tmp_path, "trial", "--yes")
        assert done.returncode == 2
        assert "trial" in done.stderr
        assert before <= set(files(tmp_path / "runs"))
        (tmp_path / "go").touch()
        process.stdout.read()
    assert process.returncode == 0


def test_what_is_not_ours_stays_and_is_named(folder):
    home = folder / "runs/trial"
    (home / "notes.txt").write_text("mine")
    (home / "model_output.json").write_text("mine")
    (home / "plots").mkdir()
    (home / "plots/a.png").write_text("mine")
    done = rm(folder, "trial", "--yes")
    assert done.returncode == 0
    assert "not made by Limpet: model_output.json, notes.txt, plots" in done.stderr
    assert files(home) == ["model_output.json", "notes.txt", "plots/a.png"]


def test_links_are_never_followed(folder, tmp_path_factory):
    precious = tmp_path_factory.mktemp("precious")
    (precious / "file").write_text("mine")
    home = folder / "runs/trial"
    (home / "torn").symlink_to(precious)
    (home / "index/away").symlink_to(precious)
    (home / "labels.jsonl").symlink_to(precious / "file")
    assert rm(folder, "trial", "--yes").returncode == 0
    assert files(precious) == ["file"]
    assert [path.name for path in home.iterdir()] == ["torn"]  # a link where we make a directory


def test_a_link_to_a_run_is_refused(folder):
    (folder / "runs/link").symlink_to(folder / "runs/trial")
    done = rm(folder, "runs/link", "--yes")
    assert done.returncode == 2
    assert "is a link to" in done.stderr
    assert (folder / "runs/trial/run.json").is_file()


@pytest.mark.parametrize("name", ["LOCK", "run.json", "workflow_output.jsonl"])
def test_a_directory_that_only_looks_like_a_run_is_refused(tmp_path, name):
    database = tmp_path / "database"
    database.mkdir()
    (database / name).write_text("theirs")
    done = rm(tmp_path, "database", "--yes")
    assert done.returncode == 2
    assert "was not made by Limpet" in done.stderr or "is not a run" in done.stderr
    assert [(path.name, path.read_text()) for path in database.iterdir()] == [(name, "theirs")]


def test_a_project_or_a_missing_run_is_refused(folder):
    for place in (".", "runs", "nowhere", "app.py"):
        before = files(folder)
        assert rm(folder, place, "--yes").returncode == 2
        assert files(folder) == before


def test_the_journal_of_a_map_is_removed_with_what_is_beside_it(tmp_path):
    limpet.map(str, [1, 2], journal=tmp_path / "map.jsonl")
    (tmp_path / "map.jsonl.txt").write_text("mine")
    assert rm(tmp_path, "map.jsonl", "--yes").returncode == 0
    assert files(tmp_path) == ["map.jsonl.txt"]


def test_a_removal_that_was_interrupted_can_be_finished(folder):
    home = folder / "runs/trial"
    for name in ("run.json", "workflow_output.jsonl", "correct_output.jsonl"):
        (home / name).unlink()
    assert rm(folder, "trial", "--yes").returncode == 0
    assert not home.exists()


# ---- tag ----


def listed(folder, *arguments):
    done = run(folder, *arguments, "--json", command="list")
    return [json.loads(line)["run"] for line in done.stdout.splitlines()]


def test_a_tag_finds_a_run_again(folder):
    run(folder, "--set", "name=other")
    assert run(folder, "best", "trial", command="tag").stderr == "runs/trial: best\n"
    assert run(folder, "v1.2", command="tag").stderr == "runs/other: v1.2\n"  # the latest
    assert listed(folder, "--tag", "best") == ["runs/trial"]
    assert listed(folder, "--tag", "v1.2") == ["runs/other"]
    assert listed(folder, "--tag", "bes") == []
    assert len(listed(folder)) == 2
    tags = run(folder, command="tag").stdout.splitlines()
    assert sorted(tags) == ["best\truns/trial", "v1.2\truns/other"]
    done = run(folder, "--tag", "nothing", command="list")
    assert done.stderr == "no runs with the tag nothing in runs\n"


def test_a_tag_outlives_the_next_session_and_can_be_taken_away(folder):
    run(folder, "best", command="tag")
    run(folder, "--redo")
    assert listed(folder, "--tag", "best") == ["runs/trial"]
    assert run(folder, "best", "--remove", command="tag").stderr == "runs/trial: no tags\n"
    assert listed(folder, "--tag", "best") == []
    again = run(folder, "best", "--remove", command="tag")
    assert again.returncode == 2
    assert "has no tag 'best'" in again.stderr


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", ["../x", "", "a b", "a/b", ".hidden", "x" * 101, "a\x1b[31m"])
def test_a_name_that_cannot_be_a_tag_is_refused(folder, name):
    before = files(folder)
    done = run(folder, name, command="tag")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert files(folder) == before


def test_a_running_session_loses_no_tag(tmp_path):
    make(tmp_path, workflow="app:answer_when_told")
    with ready_limpet.Popen(
        [*COMMAND, "run", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        while json.loads(process.stdout.readline())["event"] != "started":
            pass
        assert run(tmp_path, "live", command="tag").returncode == 0
        (tmp_path / "go").touch()
        process.stdout.read()
    assert listed(tmp_path, "--tag", "live") == ["runs/trial"]
    assert run(tmp_path, command="verify").returncode == 0
