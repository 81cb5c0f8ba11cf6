"""The toolkit's evaluators, sessions and files in a run of ours, with the real toolkit.

Each command is a process of its own, and the model counts who asks.
"""

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
    changed = again.configuration()
    changed["llms"]["other"]["temperature"] = 0.5
    again.configure(changed)
    again.run()
    assert model.by_judge() == {SECOND: 12}


def test_the_file_of_a_prompt_counts_for_its_own_evaluator(again, model):
    (again.folder / "prompt.md").write_text("Judge it strictly.", encoding="utf-8")
    again.run()
    assert model.by_judge() == {TUNED: 12}


def test_the_code_of_an_evaluators_plug_in_counts_for_it(again, model):
    again.edit("plugin/corpus_plugin/evaluators.py", "score=float(right(item))", "score=0.25")
    assert "12 calls of equal\n" in again.run("--plan")
    again.run()
    assert model.asked == []
    assert set(again.scores("equal").values()) == {0.25}


def test_the_code_of_a_judge_counts_for_all_that_use_it(again, model):
    again.edit("plugin/corpus_plugin/evaluators.py", "Grade this answer", "Grade this reply")
    again.run()
    assert model.by_judge() == {OWN: 12, SECOND: 12}


def test_the_code_of_the_workflows_plug_in_counts(again, model):
    again.edit(
        "plugin/corpus_plugin/workflows.py", "{solve(input_message)}", "= {solve(input_message)}"
    )
    assert "workflow changed" in again.run("--plan")
    again.run()
    assert again.answers()["q3"] == "= 7"
    assert model.by_judge() == {OWN: 12, SECOND: 12, TUNED: 12}


def test_another_evaluator_costs_only_its_own_calls(again, model):
    changed = again.configuration()
    changed["llms"]["third"] = {**changed["llms"]["judge"], "model_name": "third-model"}
    changed["eval"]["evaluators"]["third"] = judge("third")
    again.configure(changed)
    again.run()
    assert model.by_judge() == {("corpus_judge", "third-model"): 12}


# ---- stopped ------------------------------------------------------------------------------------


def test_scores_survive_kill_9(project, model):
    project.make(config(own=judge(), equal={"_type": "corpus_equal"}))
    model.free = 5
    model.gate.clear()
    process = project.start()
    wait_until(lambda: len(project.lines("own")) == 5 and len(model.asked) > 5)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    in_flight = len(model.asked) - 5
    model.gate.set()
    kept = project.lines("own")
    project.run()
    assert len(model.asked) == 12 + in_flight
    assert project.lines("own")[: len(kept)] == kept
    assert None not in project.scores("own").values()
    asked = Counter(prompt for _, _, prompt in model.asked)
    assert len(asked) == 12
    assert sum(asked.values()) - 12 == in_flight <= 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_judges_are_in_flight(project, model, number, code):
    """Parts of plug-ins that hold a task group are closed in the task that opened them."""
    connected = {"_type": "corpus_connected_judge", "llm_name": "judge"}
    project.make(config("corpus_connected", own=connected, second=judge("other")))
    model.free = 5
    model.gate.clear()
    process = project.start()
    wait_until(lambda: len(model.asked) >= 8)
    process.send_signal(number)
    wait_until(lambda: "stopping" in project.said() or process.poll() is not None)
    model.gate.set()
    assert process.wait() == code, project.said()
    assert "different task" not in project.said()
    assert "Traceback" not in project.said()
    said = project.run()
    assert "different task" not in said
    assert "Traceback" not in said
    for name in ("own", "second"):
        assert len(project.scores(name)) == 12
        assert None not in project.scores(name).values()
    assert len(model.asked) <= 24 + 8


# ---- judges that refuse -------------------------------------------------------------------------

JUDGES = {
    "own": judge(),
    "accuracy": {"_type": "ragas", "metric": "AnswerAccuracy", "llm_name": "judge"},
    "trajectory": {"_type": "trajectory", "llm_name": "judge"},
    "tunable": {**TUNABLE, "judge_llm_prompt": "Judge it."},
}


def test_judges_that_refuse_at_first_have_every_score(project, model):
    project.make(config(**JUDGES), rows=4)
    model.refusals = 2
    project.run()
    for name in JUDGES:
        scores = project.scores(name)
        assert len(scores) == 4, name
        assert None not in scores.values(), name
    refused = sum(count for kind, count in model.calls.items() if kind.endswith(" 429"))
    assert refused == 2


def test_a_judge_that_always_fails_is_a_failure(project, model):
    project.make(config(**{**JUDGES, "own": judge("other")}), rows=1)
    model.control = {"fail_on": {"Grade this": 500}}
    said = project.run("--max-retries", 1, code=1)
    assert "own failed: 1" in said
    assert set(project.scores("own").values()) == {None}
    for name in ("accuracy", "trajectory", "tunable"):
        assert None not in project.scores(name).values()
    model.control = {}
    model.forget()
    project.run()
    assert model.by_judge() == {SECOND: 1}


# ---- the toolkit's files ------------------------------------------------------------------------


def events(folder):
    lines = (folder / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter(json.loads(line)["payload"]["event_type"] for line in lines)


def shape(value):
    """Return the names and types of a value."""
    if isinstance(value, dict):
        return {key: shape(below) for key, below in value.items()}
    return [shape(below) for below in value] if isinstance(value, list) else type(value).__name__


@pytest.fixture(scope="module")
def theirs(finished, tmp_path_factory, commands, server):
    """What `nat eval` makes of the same configuration."""
    server.model.control = {}
    project = finished.copy(tmp_path_factory.mktemp("theirs") / "project")
    project.remove_results()
    changed = project.configuration()
    for ours in ("exact", "mine"):
        del changed["eval"]["evaluators"][ours]
    project.configure(changed)
    project.nat_eval(commands)
    return project


def test_all_traces_are_exported_before_the_end(finished, theirs):
    kinds = ("WORKFLOW", "FUNCTION", "LLM", "TOOL", "CUSTOM")
    due = {f"{kind}_{end}": 12 for kind in kinds for end in ("START", "END")}
    assert events(finished.folder) == due
    assert events(theirs.folder) <= Counter(due)


def test_scores_are_those_of_nat_eval(finished, theirs):
    for name in ("own", "second", "tunable", "equal"):
        assert finished.scores(name) == theirs.scores(name)


def test_the_profile_is_that_of_nat_eval(finished, theirs):
    for name in (
        "all_requests_profiler_traces.json",
        "inference_optimization.json",
        "standardized_data_all.csv",
    ):
        assert (theirs.out / name).exists()
        assert (finished.out / name).exists()
    traces = [shape(project.read("all_requests_profiler_traces")) for project in (finished, theirs)]
    assert traces[0] == traces[1]


def test_atif_is_that_of_nat_eval(finished, theirs):
    ours, known = (p.read("workflow_output_atif") for p in (finished, theirs))
    assert shape(ours) == shape(known)
    assert [sample["item_id"] for sample in ours] == [sample["item_id"] for sample in known]


def test_the_effective_configuration_has_defaults_and_no_secrets(finished, theirs):
    written = finished.configuration()
    text = (finished.out / "config_effective.yml").read_text(encoding="utf-8")
    effective = yaml.safe_load(text)
    known = yaml.safe_load((theirs.out / "config_effective.yml").read_text(encoding="utf-8"))
    for name, block in written["llms"].items():
        assert effective["llms"][name].keys() >= block.keys() | known["llms"][name].keys()
    judge = effective["llms"]["judge"]
    assert judge["max_retries"] == known["llms"]["judge"]["max_retries"]
    assert judge["base_url"] == "http://127.0.0.1:${MODEL_PORT}/v1"
    assert effective["eval"]["general"]["per_input_user_id"] is True
    for file in finished.out.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert WRITTEN_KEY.encode() not in content, file
            assert OTHER_KEY.encode() not in content, file


# ---- sessions and outputs -----------------------------------------------------------------------


def test_the_user_of_the_sessions(project):
    project.make(config("corpus_user"), rows=3)
    project.run("--user_id", "ada")
    assert set(project.answers().values()) == {"ada"}
    project.run("--redo")
    assert len(set(project.answers().values())) == 3
    changed = project.configuration()
    changed["eval"]["general"]["per_input_user_id"] = False
    project.configure(changed)
    project.run("--redo")
    assert len(set(project.answers().values())) == 1


def test_an_output_without_json_form(project, commands):
    made = config("corpus_shape", own=judge())
    made["workflow"]["shape"] = "any"
    project.make(made, rows=3)
    project.run()
    ours = project.answers()
    assert ours["q1"] == "<opaque 3>"
    (line, *_) = map(json.loads, project.lines("workflow"))
    assert line["output_metadata"]["class"].endswith("Opaque"), line
    model = project.server.model
    model.forget()
    assert "no calls" in project.run()
    project.remove_results()
    project.nat_eval(commands)
    assert project.answers() == ours


# ---- plans --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("workflow", "_type"), "nowhere_registered", "nowhere_registered"),
        (("eval", "evaluators", "own", "_type"), "nowhere_judge", "config.yml:27: "),
        (("eval", "evaluators", "equal", "max_concurrency"), "many", "config.yml:31: "),
    ],
)
def test_a_plan_fails_where_the_toolkit_would(project, path, value, said):
    made = config(own=judge(), equal={"_type": "corpus_equal"})
    block = made
    for part in path[:-1]:
        block = block[part]
    block[path[-1]] = value
    project.make(made, rows=2)
    told = project.run("--plan", code=2)
    assert said in told
    assert "Traceback" not in told
    assert not project.out.exists()


# ---- from and to servers ------------------------------------------------------------------------


class Bucket(BaseHTTPRequestHandler):
    """A server with a dataset, that takes PUTs as S3 does."""

    def log_message(self, *args):
        """Say nothing."""

    def _reply(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"0"')
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.got.append(self.path)
        self._reply(200 if self.server.takes else 403, self.server.dataset)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(self.path)
        self._reply(200 if self.server.takes else 403)


@pytest.fixture
def bucket():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    server.got, server.takes, server.dataset = [], True, b""
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_dataset_is_downloaded(project, bucket):
    made = config(equal={"_type": "corpus_equal"})
    dataset = made["eval"]["general"]["dataset"]
    dataset["remote_file_path"] = f"{bucket.url}/data.json?signature=f00d5ecret"
    dataset["file_path"] = "here/data.json"
    project.make(made, rows=3)
    bucket.dataset = (project.folder / "data.json").read_bytes()
    project.run()
    assert len(project.answers()) == 3
    bucket.takes = False
    said = project.run(code=2)
    assert "cannot be downloaded" in said
    assert "f00d5ecret" not in said


def test_results_are_uploaded(project, bucket):
    made = config(equal={"_type": "corpus_equal"})
    keys = {"access_key": "ACCESS0KEY0OF0MINE", "secret_key": "secret0key0of0mine"}
    s3 = {"endpoint_url": bucket.url, "bucket": "results", **keys}
    made["eval"]["general"]["output"] |= {"s3": s3, "remote_dir": "today"}
    project.make(made, rows=3)
    project.run()
    assert {"/results/today/workflow_output.json", "/results/today/equal_output.json"} <= {
        *bucket.got
    }
    bucket.takes = False
    said = project.run("--redo-item", "q1", code=1)
    assert "upload to S3: failed" in said
    assert "results are on disk" in said
    assert None not in project.scores("equal").values()
    for file in (f for f in project.out.rglob("*") if f.is_file()):
        assert b"secret0key0of0mine" not in file.read_bytes(), file
    assert "secret0key0of0mine" not in said


def test_a_served_workflow_with_evaluators_in_process(project, model):
    project.make(config(own=judge(), equal={"_type": "corpus_equal"}), rows=4)
    with serving() as served:
        project.run("--endpoint", served.url)
        assert len(served.asked) == 4
    assert model.by_judge() == {OWN: 4}
    changed = project.configuration()
    changed["eval"]["evaluators"]["second"] = judge("other")
    project.configure(changed)
    model.forget()
    project.run("--skip-workflow")
    assert model.by_judge() == {SECOND: 4}
    assert None not in project.scores("second").values()


# ---- before scoring -----------------------------------------------------------------------------

BEFORE = """
import json

def see(item):
    steps = [type(step).__name__ for step in item.trajectory]
    kinds = [step.event_type.value for step in item.trajectory]
    seen = [type(item).__name__, str(item.id), item.input_obj, steps, kinds]
    return item.copy_with_updates(output_obj=json.dumps(seen))
"""


def test_a_function_before_scoring_sees_the_toolkits_item(project, commands):
    made = config(equal={"_type": "corpus_equal"})
    made["eval"]["general"]["output"]["custom_pre_eval_process_function"] = "before.see"
    project.make(made, rows=2)
    (project.folder / "plugin" / "before.py").write_text(BEFORE, encoding="utf-8")
    project.run()
    ours = {i["id"]: i["reasoning"] for i in project.read("equal_output")["eval_output_items"]}
    project.remove_results()
    project.nat_eval(commands)
    known = {i["id"]: i["reasoning"] for i in project.read("equal_output")["eval_output_items"]}
    assert ours == known
