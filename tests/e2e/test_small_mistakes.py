"""A word that is nearly right, a file of another kind: what is said, and what is never done."""


import pytest
from e2e.project import calls, make, run


@pytest.mark.parametrize("word", ["rum", "rmm", "rem", "r"])
def test_what_deletes_is_never_the_suggestion(tmp_path, word):
    done = run(tmp_path, command=word)
    assert done.returncode == 2
    assert f"unknown command '{word}'" in done.stderr
    assert "'rm'" not in done.stderr


def test_what_is_meant_by_rum_is_run(tmp_path):
    assert "did you mean 'run'?" in run(tmp_path, command="rum").stderr


@pytest.mark.parametrize("flag", ["corect=0.9", "corect=", "corect"])
def test_a_misspelt_evaluator_of_a_gate_gets_the_name_that_is_there(tmp_path, flag):
    make(tmp_path)
    done = run(tmp_path, "--fail-under", flag)
    assert done.returncode == 2
    assert "correct" in done.stderr.replace("corect", "")
    assert "corect=0.9" not in done.stderr.removeprefix(f"error: --fail-under {flag}")
    assert calls(tmp_path) == []


def test_a_misspelt_resource_of_ray_gets_the_name_that_is_there(tmp_path):
    make(tmp_path, more="engine: {ray: {resources: {num_cpu: 4}}}\n")
    done = run(tmp_path)
    assert done.returncode == 2
    assert "did you mean 'num_cpus'?" in done.stderr
