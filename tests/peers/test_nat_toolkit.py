"""The toolkit's evaluators, sessions and files in a run of ours, with the real toolkit.

Each command is a process of its own, and the model counts who asks.
"""

import copy
import json
import signal
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from e2e.nat_server import serving
from peers.nat_environment import UnavailableError, nat_environment
from peers.nat_project import (
    OTHER_KEY,
    WRITTEN_KEY,
    Project,
    config,
    counting_model,
    judge,
    ready_toolkit,
    wait_until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first one makes the environment

TUNABLE = {"_type": "tunable_rag_evaluator", "llm_name": "judge"}
EVALUATORS = {
    "own": judge(),
    "second": judge("other"),
    "tunable": {**TUNABLE, "judge_llm_prompt": "file://prompt.md"},
    "equal": {"_type": "corpus_equal"},
    "exact": {"_type": "exact_match"},
    "mine": {"_type": "python", "function": "judges.grade"},
}
OWN, SECOND, TUNED = (
    ("corpus_judge", "tiny-model"),
    ("corpus_judge", "other-model"),
    ("tunable_rag", "tiny-model"),
)


@pytest.fixture(scope="module")
def commands():
    try:
        return nat_environment()
    except UnavailableError as error:
        pytest.skip(f"the NeMo Agent Toolkit cannot be installed here: {error}")


@pytest.fixture(scope="module")
def ready(commands):
    return ready_toolkit(commands)


@pytest.fixture(scope="module")
def server():
    with counting_model() as server:
        yield server


@pytest.fixture
def model(server):
    server.model.forget()
    server.model.refusals = server.model.free = 0
    server.model.control = {"retry_after": 0.05}
    server.model.gate.set()
    return server.model


@pytest.fixture
def project(tmp_path, ready, server, model):
    return Project(tmp_path / "project", ready, server)


def with_everything():
    """Return a configuration that asks for all that the toolkit writes."""
    made = config(**EVALUATORS)
    exporter = {"_type": "file", "output_path": "traces.jsonl", "project": "sums"}
    made["general"] = {"telemetry": {"tracing": {"here": exporter}}}
    made["eval"]["general"]["output"]["write_atif_workflow_output"] = True
    made["eval"]["general"]["profiler"] = {}
    return made


@pytest.fixture(scope="module")
def finished(tmp_path_factory, ready, server):
    """A finished run of 12 items, with the calls that it made."""
    project = Project(tmp_path_factory.mktemp("finished") / "project", ready, server)
    project.make(with_everything())
    (project.folder / "prompt.md").write_text("Judge it.", encoding="utf-8")
    (project.folder / "judges.py").write_text(
        "def grade(output):\n    return len(output) / 10\n", encoding="utf-8"
    )
    server.model.forget()
    project.run()
    project.calls = server.model.by_judge()
    return project


@pytest.fixture
def again(finished, tmp_path, model):
    """A copy of the finished run, to be edited."""
    return finished.copy(tmp_path / "project")


# ---- what counts --------------------------------------------------------------------------------


def test_every_judge_is_asked_for_each_item_once(finished):
    assert finished.calls == {OWN: 12, SECOND: 12, TUNED: 12}
    for name in EVALUATORS:
        assert None not in finished.scores(name).values()
        assert len(finished.scores(name)) == 12


def test_the_second_run_asks_nothing(again, model):
    again.edit("config.yml", "llms:", "# a comment\nllms:")
    again.edit("config.yml", WRITTEN_KEY, "sk-another")
    assert "no calls" in again.run()
    assert model.asked == []


def test_a_judges_model_counts_for_its_own_evaluators(again, model):
    text = (again.folder / "config.yml").read_text(encoding="utf-8")
    changed = yaml.safe_load(text)
    changed["llms"]["other"]["temperature"] = 0.5
    again.configure(changed)
    again.run("--keep")
    assert model.asked == []
    again.run("--redo")
    assert set(model.by_judge()) == {SECOND}
