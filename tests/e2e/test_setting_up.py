"""A workflow that cannot be set up: the user's own traceback, a clear error, and nothing lost."""

import json
import logging
import os
import textwrap

import pytest
from e2e import ready_limpet

import limpet

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": f"Say {n}"} for n in range(4)]


def project(folder, app, workflow="app:Agent"):
    (folder / "app.py").write_text(textwrap.dedent(app))
    data = "\n".join(json.dumps(row) for row in ROWS)
    (folder / "data.jsonl").write_text(data)
    (folder / "eval.yml").write_text(
        f"dataset: data.jsonl\nworkflow:\n  python: {workflow}\n"
        "evaluators:\n  exact: exact_match\nrun: run\n"
    )


def limpet_run(folder, *arguments):
    environment = {**os.environ, "MY_API_KEY": "sk-1234567890abcdef1234567890"}
    return ready_limpet.run(arguments, cwd=folder, env=environment)


SETUP_RAISES = """
    class Agent:
        def setup(self):
            self.connect("sk-1234567890abcdef1234567890")

        def connect(self, key):
            raise ConnectionError(f"no server for {key}")

        def __call__(self, question):
            return question
"""
ASYNC_SETUP_RAISES = SETUP_RAISES.replace("def setup", "async def setup")
INSTANCE_SETUP_RAISES = SETUP_RAISES + "\n    agent = Agent()\n"
INIT_RAISES = SETUP_RAISES.replace("def setup", "def __init__")
SETUP_LEAVES = SETUP_RAISES.replace("raise ConnectionError(", "raise SystemExit(")
NEEDS_ARGUMENTS = """
    class Agent:
        def __init__(self, model, temperature=0):
            self.model = model

        def __call__(self, question):
            return question
"""
MODULE_RAISES = """
    def load():
        return {}["model"]

    MODEL = load()

    def answer(question):
        return question
"""


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("app", "workflow", "said"),
    [
        (SETUP_RAISES, "app:Agent", ["Agent.connect", "Agent.setup", "could not be set up"]),
        (
            ASYNC_SETUP_RAISES,
            "app:Agent",
            ["Agent.connect", "Agent.setup", "ConnectionError"],
        ),
        (
            INSTANCE_SETUP_RAISES,
            "app:agent",
            ["Agent.connect", "Agent.setup", "ConnectionError"],
        ),
        (INIT_RAISES, "app:Agent", ["Agent.connect", "in Agent.__init__", "ConnectionError"]),
        (SETUP_LEAVES, "app:Agent", ["Agent.connect", "SystemExit"]),
        (NEEDS_ARGUMENTS, "app:Agent", ["needs arguments", "'model'", "eval.yml:3"]),
        (MODULE_RAISES, "app:answer", ["in load", "KeyError: 'model'", "eval.yml:3"]),
        (MODULE_RAISES.replace("load()\n", "lod()\n"), "app:answer", ["NameError", "line 5"]),
        ("def f(:\n", "app:f", ["SyntaxError", "def f(:"]),
        (NEEDS_ARGUMENTS, "app:Agnt", ["has no 'Agnt'", "did you mean 'Agent'?"]),
        (NEEDS_ARGUMENTS, "ap:Agent", ["no module named 'ap'"]),
    ],
)
def test_the_users_traceback_a_clear_error_and_exit_2(tmp_path, app, workflow, said):
    project(tmp_path, app, workflow)
    done = limpet_run(tmp_path, "run")
    assert done.returncode == 2, done.stderr
    for words in said:
        assert words in done.stderr
    assert "this should not happen" not in done.stderr
    assert "src/limpet" not in done.stderr  # frames of ours help nobody
    assert "sk-1234567890" not in done.stderr
    if (tmp_path / "run").exists():
        status = limpet_run(tmp_path, "status", "run")
        assert "running" not in status.stdout.lower()
    again = limpet_run(tmp_path, "run")
    assert again.returncode == 2  # and it is not locked


# ---- in Python ----------------------------------------------------------------------------------


class Agent:
    """An agent that says what is done to it."""

    def __init__(self, *, fail=None, story=None):
        self.story = [] if story is None else story
        self.fail = fail

    def setup(self):
        self.story.append("setup")
        if self.fail == "setup":
            raise ConnectionError("no server")

    def teardown(self):
        self.story.append("teardown")
        if self.fail == "teardown":
            raise ConnectionError("the server is gone")

    def __call__(self, question):
        self.story.append("call")
        return question


class AsyncAgent(Agent):
    async def setup(self):
        super().setup()

    async def teardown(self):
        super().teardown()

    async def __call__(self, question):
        return super().__call__(question)


@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
def test_an_instance_is_set_up_before_its_calls_and_torn_down_after(tmp_path, kind):
    agent = kind()
    limpet.evaluate(ROWS, agent, run=tmp_path / "run", version="1")
    assert agent.story == ["setup", *["call"] * 4, "teardown"]
    limpet.evaluate(ROWS, agent, run=tmp_path / "run", version="1")  # nothing to do: not set up
    assert agent.story.count("setup") == 1


@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
def test_a_set_up_that_raises_is_a_setup_error_and_harms_nothing(tmp_path, kind):
    run = tmp_path / "run"
    limpet.evaluate(ROWS[:2], kind(), run=run, version="1")
    before = (run / "workflow_output.jsonl").read_bytes()
    agent = kind(fail="setup")
    with pytest.raises(limpet.errors.SetupError, match="no server") as raised:
        limpet.evaluate(ROWS, agent, run=run, version="1")
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert agent.story == ["setup"]
    assert (run / "workflow_output.jsonl").read_bytes() == before
    assert all("ended" in one for one in json.loads((run / "run.json").read_text())["sessions"])
    result = limpet.evaluate(ROWS, kind(), run=run, version="1")  # it is not locked
    assert (result.plan.workflow.kept, result.summary["workflow"]["completed"]) == (2, 4)


@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
def test_a_teardown_that_raises_is_logged_and_harms_nothing(tmp_path, caplog, kind):
    agent = kind(fail="teardown")
    result = limpet.evaluate(ROWS, agent, [limpet.exact_match()], run=tmp_path / "run", version="1")
    assert result.summary["scores"]["exact_match"]["mean"] == 1.0
    (said,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert "ConnectionError" in said.message


def test_a_teardown_of_each_item_that_raises_costs_no_answer_and_is_said_once(tmp_path, caplog):
    class Fresh(Agent):
        per_item = True

        def __init__(self):
            super().__init__(fail="teardown")

    result = limpet.evaluate(ROWS, Fresh, run=tmp_path / "run", version="1", retry=0)
    assert result.summary["workflow"]["completed"] == len(ROWS)
    assert len([one for one in caplog.records if "teardown" in one.message]) == 1


def test_a_class_that_needs_arguments_is_refused_before_anything_is_opened(tmp_path):
    class Needy(Agent):
        def __init__(self, model):
            super().__init__()

    with pytest.raises(limpet.errors.SetupError, match="needs arguments.*'model'"):
        limpet.evaluate(ROWS, Needy, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("source", "error", "cause"),
    [
        ("raise RuntimeError('no GPU')", limpet.errors.SetupError, RuntimeError),
        ("raise SystemExit(1)", limpet.errors.SetupError, SystemExit),
        ("import a_module_that_is_not_there", limpet.LimpetError, ImportError),
        ("x = 1", limpet.LimpetError, AttributeError),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(tmp_path, monkeypatch, source, error, cause):
    (tmp_path / f"flow_{cause.__name__}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error, match=f"flow_{cause.__name__}:answer") as raised:
        limpet.evaluate(ROWS, f"flow_{cause.__name__}:answer", run=tmp_path / "run")
    assert isinstance(raised.value.__cause__, cause)


def test_an_object_that_answers_to_any_name_is_not_set_up(tmp_path):
    asked = []

    class Proxy:
        def __getattr__(self, name):
            if name not in ("setup", "teardown"):
                raise AttributeError(name)
            asked.append(name)
            return lambda: asked.append("called")

        def __call__(self, question):
            return question

    limpet.evaluate(ROWS, Proxy(), run=tmp_path / "run", version="1")
    assert "called" not in asked
