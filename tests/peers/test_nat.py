"""The real NeMo Agent Toolkit: its models read our files, its server is asked, its command agrees.

The toolkit runs in an environment of its own, with workflows that need no model: see nat/plugin.
"""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest
from cut_short import ended
from e2e.nat_server import column, output
from e2e.project import run
from peers.nat_environment import (
    PARTS,
    UnavailableError,
    environment_variables,
    nat_environment,
)

import limpet
from limpet.integrations.nat import export
from limpet.run.reading import open_run
from limpet.workflows import nat
from tests.exported import exported

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first one makes the environment

STARTING_S, COMMAND_S = 90, 120


@pytest.fixture(scope="module")
def commands():
    try:
        return nat_environment()
    except UnavailableError as error:
        pytest.skip(f"the NeMo Agent Toolkit cannot be installed here: {error}")


def rows(*kinds):
    """Make a row of each word: `Repeat` is answered, `Raise` raises, `Refuse` for good."""
    return [
        {"id": f"q{n}", "question": f"{kind} a{n}", "answer": f"a{n}", "level": "easy"}
        for n, kind in enumerate(kinds)
    ]


def project(folder, data):
    """Write the toolkit's configuration and its dataset, as a user would have them."""
    folder.mkdir(exist_ok=True)
    shutil.copy(PARTS / "config.yml", folder)
    (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def toolkit(commands, folder, name, *arguments, **variables):
    """Run a command of the peer's environment; return what it wrote to stdout."""
    done = subprocess.run(
        [commands / name, *map(str, arguments)],
        cwd=folder,
        env=environment_variables(**variables),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def nat_eval(commands, folder, *flags):
    toolkit(commands, folder, "nat", "eval", "--config_file", "config.yml", *flags)


def for_the_toolkit(run):
    """Export a run, and return the folder."""
    with open_run(run) as reader:
        export(reader, run.with_name("exported"))
    return run.with_name("exported")


def read_by_the_toolkit(commands, folder, *evaluators):
    script, folder = PARTS / "read_outputs.py", for_the_toolkit(folder)
    return json.loads(toolkit(commands, folder, "python", script, folder, *evaluators))


# ---- our files, read by its models --------------------------------------------------------------


def step(kind, **more):
    payload = {"event_type": kind, "event_timestamp": 1.5, "name": "look", "UUID": "u1", **more}
    function = {"function_id": "f1", "function_name": "answer", "parent_id": "root"}
    return {"parent_id": "root", "function_ancestry": function, "payload": payload}


def answer(question):
    if question.startswith("Raise"):
        raise LookupError("nothing is known of it")
    used = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    steps = [
        step("TOOL_START", data={"input": question}),
        step("TOOL_END", data={"input": question, "output": "found"}),
        step("LLM_END", usage_info={"token_usage": used, "num_llm_calls": 1}),
    ]
    return limpet.Output(question.split()[-1], trace=steps)


def several(output, expected):
    longer = limpet.Score(len(output) / 4, explanation="so long")
    return {"right": output == expected, "length": longer}


def judge(output):
    if output == "a1":
        raise ValueError("the judge is ill")
    return 0.25 if output == "a0" else 0.5


@pytest.fixture(scope="module")
def our_run(tmp_path_factory):
    """An evaluation of four items in two trials; one item fails, and one score of another."""
    folder = tmp_path_factory.mktemp("ours") / "run"
    evaluators = {"correct": limpet.exact_match(), "several": several, "judge": judge}
    data = rows("Repeat", "Repeat", "Raise", "Repeat")
    result = limpet.evaluate(data, answer, evaluators, run=folder, trials=2, retry=0)
    return folder, result


IDS = [f"q{n}_rep{trial}" for trial in range(2) for n in range(4)]


def test_the_toolkits_dataset_reader_reads_our_answers(commands, our_run):
    read = read_by_the_toolkit(commands, our_run[0])["items"]
    assert [item["id"] for item in read] == IDS
    for item in read:
        word = item["id"].replace("q", "a").partition("_")[0]
        failed = word == "a2"
        assert item["input"] == ("Raise " if failed else "Repeat ") + word
        assert item["expected"] == word
        assert item["output"] == (None if failed else word)
        assert {"level", "_limpet"} < set(item["columns"])


def test_the_toolkits_models_read_our_steps(commands, our_run):
    read = {
        item["id"]: item["steps"] for item in read_by_the_toolkit(commands, our_run[0])["items"]
    }
    assert read["q2_rep0"] == []
    start, end, model = read["q0_rep1"]
    assert (start["type"], end["type"], model["type"]) == ("TOOL_START", "TOOL_END", "LLM_END")
    assert (end["name"], end["function"], end["parent"]) == ("look", "answer", "root")
    assert end["output"] == "found"
    assert model["tokens"]["total_tokens"] == 10


def test_what_the_toolkit_would_write_of_our_answers_is_what_we_wrote(commands, our_run):
    published = read_by_the_toolkit(commands, our_run[0])["published"]
    for theirs, ours in zip(published, exported(our_run[0]), strict=True):
        for key in ("id", "question", "answer", "level"):
            assert theirs[key] == ours[key]
        if ours["generated_answer"] is not None:  # pandas makes NaN of it
            assert theirs["generated_answer"] == ours["generated_answer"]


def test_the_toolkits_models_read_our_scores(commands, our_run):
    folder, result = our_run
    scores = read_by_the_toolkit(commands, folder, "correct", "judge")["scores"]
    for name, read in scores.items():
        assert [item["id"] for item in read["eval_output_items"]] == IDS
        mean = result.summary["scores"][name]["mean"]
        assert read["average_score"] == round(mean, 2)  # as the toolkit's own
    assert scores["correct"]["average_score"] == 1.0
    first, ill, failed, last = scores["judge"]["eval_output_items"][:4]
    assert (first["score"], first["error"]) == (0.25, None)
    assert (last["score"], last["error"]) == (0.5, None)
    assert (ill["score"], ill["error"]) == (None, "the judge is ill")
    assert failed["score"] is None
    assert "the workflow failed" in failed["error"]


def test_the_toolkits_models_read_an_evaluator_of_several_scores(commands, our_run):
    read = read_by_the_toolkit(commands, our_run[0], "several")["scores"]["several"]
    assert [item["id"] for item in read["eval_output_items"]] == IDS


def test_steps_of_any_form_leave_a_file_that_the_toolkit_reads(commands, tmp_path):
    def with_steps_of_its_own(question):
        return limpet.Output(question.split()[-1], trace=["look", {"name": "think", "ms": 3}])

    limpet.evaluate(rows("Repeat"), with_steps_of_its_own, run=tmp_path / "run")
    (item,) = read_by_the_toolkit(commands, tmp_path / "run")["items"]
    assert item["output"] == "a0"


def test_nat_eval_scores_our_answers_again_with_skip_workflow(commands, our_run, tmp_path):
    project(tmp_path, rows("Repeat"))
    ours = for_the_toolkit(our_run[0])
    nat_eval(commands, tmp_path, "--skip_workflow", "--dataset", ours / "workflow_output.json")
    theirs = {
        item["id"]: item["score"] for item in output(tmp_path, "correct")["eval_output_items"]
    }
    ours = output(ours.parent, "correct", where=ours.name)["eval_output_items"]
    assert theirs == {item["id"]: item["score"] or 0.0 for item in ours}  # to it, a failure is a 0


# ---- its server ---------------------------------------------------------------------------------


class Served:
    """The real `nat serve`.

    Attributes:
        url: Where it is.
    """

    def __init__(self, url, calls, log):
        self.url = url
        self._calls = calls
        self._log = log

    def asked(self):
        """Return what its workflows were asked since the test began, in order."""
        return self._calls.read_text(encoding="utf-8").splitlines()

    def refused(self, path):
        """Return how many requests for a path it ever answered with 422, before any workflow."""
        return self._log.read_text(encoding="utf-8").count(f'"POST {path} HTTP/1.1" 422')

    def forget(self):
        self._calls.write_text("", encoding="utf-8")


@contextmanager
def serving(commands, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    calls = folder / "calls.txt"
    where = ("--host", "127.0.0.1", "--port", str(port))
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [commands / "nat", "serve", "--config_file", PARTS / "config.yml", *where],
            cwd=folder,
            env=environment_variables(CALLS=str(calls)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        served = Served(f"http://127.0.0.1:{port}", calls, folder / "serve.log")
        wait_until_healthy(process, served.url, folder / "serve.log")
        yield served
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def wait_until_healthy(process, url, log):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + STARTING_S
    while True:
        try:
            with opener.open(f"{url}/health", timeout=2) as reply:
                assert json.load(reply) == {"status": "healthy"}
                return
        except OSError:
            said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            assert process.poll() is None, f"nat serve ended: {said}"
            assert time.monotonic() < end, f"nat serve is not healthy: {said}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def one_server(commands, tmp_path_factory):
    with serving(commands, tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.fixture
def server(one_server):
    one_server.forget()
    return one_server


def ask(server, folder, data, **options):
    """Evaluate what the server answers, without waiting between attempts."""
    workflow = nat(server.url, **options)
    evaluators = {"correct": limpet.exact_match()}
    return ended(limpet.evaluate, data, workflow, evaluators, run=folder / "out", retry=0)


def test_the_real_server_is_asked_once_for_each_item_and_its_answers_are_right(server, tmp_path):
    data = rows(*["Repeat"] * 12)
    result = ask(server, tmp_path, data)
    assert [item.output.value for item in result.items] == [row["answer"] for row in data]
    assert result.summary["scores"]["correct"]["mean"] == 1.0
    assert sorted(server.asked()) == sorted(row["question"] for row in data)


def test_a_second_run_asks_the_real_server_nothing(server, tmp_path):
    data = rows(*["Repeat"] * 4)
    ask(server, tmp_path, data)
    server.forget()
    again = ask(server, tmp_path, data)
    assert [item.output.value for item in again.items] == ["a0", "a1", "a2", "a3"]
    assert server.asked() == []


def test_the_real_servers_steps_are_parsed_with_their_usage(server, tmp_path):
    result = ask(server, tmp_path, rows("Repeat"))
    trace = result.items[0].output.trace
    assert [event["type"] for event in trace] == [
        "WORKFLOW_START", "FUNCTION_START", "LLM_START", "LLM_END", "TOOL_START", "TOOL_END",
        "TOOL_START", "TOOL_END", "FUNCTION_END", "WORKFLOW_END",
    ]  # fmt: skip
    assert [event["kind"] for event in trace[2:6]] == ["model", "model", "tool", "tool"]
    assert (trace[5]["name"], trace[5]["output"]) == ("repeat", "a0")
    tokens = column(tmp_path)[0]["_limpet"]["usage"]
    assert (tokens["prompt_tokens"], tokens["completion_tokens"]) == (7, 3)
    assert (tokens["cached_tokens"], tokens["reasoning_tokens"]) == (2, 1)
    assert tokens["total_tokens"] == 10


def test_the_toolkit_reads_back_the_steps_that_its_own_server_sent(commands, server, tmp_path):
    ask(server, tmp_path, rows("Repeat"))
    (item,) = read_by_the_toolkit(commands, tmp_path / "out", "correct")["items"]
    assert len(item["steps"]) == 10
    assert item["steps"][5] == {
        "type": "TOOL_END", "name": "repeat", "parent": item["steps"][4]["parent"],
        "function": "repeat", "output": "a0", "tokens": None,
    }  # fmt: skip


def test_a_workflow_that_raises_is_a_failed_item_with_its_reason(server, tmp_path):
    result = ask(server, tmp_path, rows("Repeat", "Raise", "Repeat"))
    good, bad, _ = result.items
    assert (good.status, good.output.value) == ("completed", "a0")
    assert (bad.status, bad.output) == ("failed", None)
    assert "RuntimeError" in bad.error["message"]
    assert "no answer to 'Raise a1'" in bad.error["message"]
    assert result.summary["evaluators"]["correct"]["completed"] == 2
    written = exported(tmp_path / "out")[1]
    assert written["generated_answer"] is None
    assert "no answer to 'Raise a1'" in written["_limpet"]["error"]["message"]


@pytest.mark.parametrize(
    "path", ["/generate", "/generate/full", "/v1/workflow", "/v1/workflow/full"]
)
def test_every_path_of_the_real_server_gives_the_answer_and_the_failure(server, tmp_path, path):
    good, bad = ask(server, tmp_path, rows("Repeat", "Raise"), path=path).items
    assert good.output.value == "a0"
    assert bad.status == "failed"
    assert "the workflow failed" in bad.error["message"]
    assert "no answer to 'Raise a1'" in bad.error["message"]


def test_the_letters_of_a_real_stream_are_joined(server, tmp_path):
    word = "Grüße-aus-Zürich-" + "x" * 500
    data = [{"id": "q0", "question": f"Repeat {word}", "answer": word}]
    assert ask(server, tmp_path, data, path="/tokens/full").items[0].output.value == word


def test_a_real_stream_that_raises_after_letters_is_no_answer(server, tmp_path):
    (item,) = ask(server, tmp_path, rows("Raise"), path="/tokens/full").items
    assert (item.status, item.output) == ("failed", None)
    assert "no answer to 'Raise a0'" in item.error["message"]


def test_the_trace_that_a_real_server_announces_is_no_part_of_the_answer(server, tmp_path):
    (item,) = ask(server, tmp_path, rows("Repeat"), path="/traced/full").items
    assert item.output.value == "a0"


@pytest.mark.parametrize("path", ["/objects", "/objects/full"])
def test_an_object_is_an_answer(server, tmp_path, path):
    (item,) = ask(server, tmp_path, rows("Repeat"), path=path).items
    value = item.output.value
    said = json.loads(value) if isinstance(value, str) else value
    assert said == {"word": "a0", "length": 2}


@pytest.mark.parametrize("path", ["/numbers", "/numbers/full"])
def test_a_number_is_an_answer(server, tmp_path, path):
    data = [{"id": "q0", "question": "Repeat 17", "answer": 17}]
    result = ask(server, tmp_path, data, path=path)
    assert result.items[0].output.value == 17
    assert result.summary["scores"]["correct"]["mean"] == 1.0


@pytest.mark.parametrize("path", ["/other", "/other/full"])
def test_a_422_with_detail_stops_the_run_and_names_the_field(server, tmp_path, path):
    result = ask(server, tmp_path, rows(*["Repeat"] * 50), path=path)
    assert result.stop_reason is not None
    assert "'ticket_text'" in str(result.stop_reason)
    assert "Field required" in str(result.stop_reason)
    assert "input_key" in result.stop_reason.hint
    assert result.summary["workflow"]["not_run"] == 50
    assert 1 <= server.refused(path) <= 5  # those that were in flight with the first
    assert server.asked() == []
    named = ask(server, tmp_path / "named", rows("Repeat"), path=path, input_key="ticket_text")
    assert named.items[0].output.value == "a0"


def test_a_path_that_the_real_server_does_not_have_stops_the_run(server, tmp_path):
    result = ask(server, tmp_path, rows("Repeat"), path="/nowhere")
    assert "404" in str(result.stop_reason)
    assert "path='/nowhere'" in result.stop_reason.hint


# ---- the two commands on one configuration ------------------------------------------------------


def both(folder, name):
    """Return what the two runs wrote: by id, the toolkit's and ours."""
    files = (output(folder / "theirs", name), output(folder / "ours", name))
    return [
        {row["id"]: row for row in (one if name == "workflow" else one["eval_output_items"])}
        for one in files
    ]


def assert_same_answers_and_scores(folder, ids):
    theirs, ours = both(folder, "workflow")
    assert list(theirs) == list(ours) == ids
    for one in ids:
        assert ours[one]["generated_answer"] == theirs[one]["generated_answer"]
        assert list(theirs[one]) == [key for key in ours[one] if key != "_limpet"]
        assert kinds_of(ours[one]) == kinds_of(theirs[one]) == ["LLM_END", "TOOL_END", "TOOL_END"]
    theirs, ours = both(folder, "correct")
    assert {one: row["score"] for one, row in ours.items()} == {
        one: row["score"] for one, row in theirs.items()
    }
    averages = [output(folder / one, "correct")["average_score"] for one in ("theirs", "ours")]
    assert averages[0] == averages[1]


def kinds_of(row):
    return [one["payload"]["event_type"] for one in row["intermediate_steps"]]


def test_nat_eval_and_limpet_run_agree_on_one_configuration(commands, server, tmp_path):
    data = rows("Repeat", "Repeat", "Repeat")
    data[1]["answer"] = "something else"
    nat_eval(commands, project(tmp_path / "theirs", data), "--endpoint", server.url, "--reps", "2")
    assert len(server.asked()) == 6
    server.forget()
    project(tmp_path / "ours", data)
    done = run(tmp_path / "ours", "config.yml", "--endpoint", server.url, "--reps", "2")
    assert done.returncode == 0, done.stderr
    assert len(server.asked()) == 6
    assert_same_answers_and_scores(
        tmp_path, [f"q{n}_rep{trial}" for trial in range(2) for n in range(3)]
    )


def test_where_nat_eval_scores_a_failure_0_limpet_run_says_why_it_failed(
    commands, server, tmp_path
):
    data = rows("Repeat", "Refuse")
    nat_eval(commands, project(tmp_path / "theirs", data), "--endpoint", server.url)
    project(tmp_path / "ours", data)
    done = run(tmp_path / "ours", "config.yml", "--endpoint", server.url)
    assert done.returncode == 1, done.stderr
    theirs, ours = both(tmp_path, "correct")
    assert (theirs["q1"]["score"], theirs["q1"]["error"]) == (0.0, None)
    assert ours["q1"]["score"] is None
    assert "the workflow failed" in ours["q1"]["error"]
    assert output(tmp_path / "theirs", "correct")["average_score"] == 0.5
    assert output(tmp_path / "ours", "correct")["average_score"] == 1.0
    _, ours = both(tmp_path, "workflow")
    assert "no answer to 'Refuse a1'" in ours["q1"]["_limpet"]["error"]["message"]


def test_what_nat_eval_left_is_imported_and_not_asked_again(commands, server, tmp_path):
    data = rows("Repeat", "Refuse", "Repeat")
    nat_eval(commands, project(tmp_path / "theirs", data), "--endpoint", server.url)
    server.forget()
    project(tmp_path / "ours", data)
    left = tmp_path / "theirs/out/workflow_output.json"
    into = ("--into", "config.yml", "--endpoint", server.url, "--json")
    done = run(tmp_path / "ours", str(left), *into, command="import")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["imported"] == 2
    run(tmp_path / "ours", "config.yml", "--endpoint", server.url)
    assert set(server.asked()) == {"Refuse a1"}


def test_the_configurations_own_workflow_runs_in_process(commands, tmp_path):
    data = rows("Repeat", "Repeat")
    data[1]["answer"] = "something else"
    calls = tmp_path / "calls.txt"
    nat_eval(commands, project(tmp_path / "theirs", data))
    project(tmp_path / "ours", data)
    arguments = ("-m", "limpet", "run", "config.yml")
    toolkit(commands, tmp_path / "ours", "python", *arguments, CALLS=str(calls))
    assert sorted(calls.read_text(encoding="utf-8").splitlines()) == ["Repeat a0", "Repeat a1"]
    assert_same_answers_and_scores(tmp_path, ["q0", "q1"])
    toolkit(commands, tmp_path / "ours", "python", *arguments, CALLS=str(calls))
    assert len(calls.read_text(encoding="utf-8").splitlines()) == 2


def in_process(commands, folder, **variables):
    """Run the configuration of a folder in the toolkit's environment."""
    return subprocess.run(
        [commands / "python", "-m", "limpet", "run", "config.yml"],
        cwd=folder,
        env=environment_variables(**variables),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


def test_a_workflow_that_raises_in_process_fails_alone(commands, tmp_path):
    project(tmp_path, rows("Repeat", "Refuse", "Repeat"))
    done = in_process(commands, tmp_path)
    assert done.returncode == 1, done.stderr[-3000:]
    first, second, third = output(tmp_path)
    assert (first["generated_answer"], third["generated_answer"]) == ("a0", "a2")
    assert second["generated_answer"] is None
    assert "no answer to 'Refuse a1'" in second["_limpet"]["error"]["message"]


CONNECTED = """\
import anyio
from nat.builder.function_info import FunctionInfo
from nat.cli.register_workflow import register_function
from nat.data_models.function import FunctionBaseConfig


class ConnectedConfig(FunctionBaseConfig, name="limpet_connected"):
    most: int = 0
    breaks: bool = False


@register_function(config_type=ConnectedConfig)
async def connected(config, builder):
    asked, enough = [], anyio.Event()

    async def answer(input_message: str) -> str:
        asked.append(input_message)
        if len(asked) >= config.most:
            enough.set()
        with anyio.fail_after(20):
            await enough.wait()
        return input_message.split()[-1]

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        yield FunctionInfo.from_fn(answer, description="Connected.")
        group.cancel_scope.cancel()
    if config.breaks:
        raise OSError("the connection was lost at the end")
"""


def connected(folder, data, **settings):
    """Write a project whose workflow holds a task group of anyio; return its variables."""
    plugin = folder / "plugin"
    (plugin / "connected-1.0.dist-info").mkdir(parents=True)
    (plugin / "connected.py").write_text(CONNECTED, encoding="utf-8")
    about = "Metadata-Version: 2.1\nName: connected\nVersion: 1.0\n"
    (plugin / "connected-1.0.dist-info/METADATA").write_text(about, encoding="utf-8")
    points = "[nat.components]\nconnected = connected\n"
    (plugin / "connected-1.0.dist-info/entry_points.txt").write_text(points, encoding="utf-8")
    project(folder, data)
    lines = ["_type: limpet_connected", *(f"{name}: {one}" for name, one in settings.items())]
    configure(folder, "_type: limpet_repeat", "\n  ".join(lines))
    return {"PYTHONPATH": f"{PARTS / 'plugin'}:{plugin}"}


def configure(folder, old, new):
    file = folder / "config.yml"
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_a_task_group_that_a_workflow_holds_open_in_process_is_left_in_order(commands, tmp_path):
    variables = connected(tmp_path, rows("Repeat", "Repeat"))
    done = in_process(commands, tmp_path, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "cancel scope" not in done.stderr
    assert [row["generated_answer"] for row in output(tmp_path)] == ["a0", "a1"]


def test_a_workflow_that_fails_as_it_is_closed_in_process_costs_no_result(commands, tmp_path):
    variables = connected(tmp_path, rows("Repeat", "Repeat"), breaks=True)
    done = in_process(commands, tmp_path, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the connection was lost at the end" in done.stderr
    assert [row["generated_answer"] for row in output(tmp_path)] == ["a0", "a1"]


def test_more_than_eight_are_asked_at_once_in_process_if_that_is_allowed(commands, tmp_path):
    variables = connected(tmp_path, rows(*["Repeat"] * 12), most=12)
    configure(tmp_path, "max_concurrency: 4", "max_concurrency: 12")
    done = in_process(commands, tmp_path, **variables)
    assert done.returncode == 0, done.stderr[-3000:]


def test_an_object_is_scored_in_process_as_nat_eval_scores_it(commands, tmp_path):
    data = rows("Repeat")
    data[0]["answer"] = json.dumps({"word": "a0", "length": 2}, indent=2)
    for whose in ("theirs", "ours"):
        configure(project(tmp_path / whose, data), "limpet_repeat", "limpet_objects")
    nat_eval(commands, tmp_path / "theirs")
    done = in_process(commands, tmp_path / "ours")
    assert done.returncode == 0, done.stderr[-3000:]
    theirs, ours = both(tmp_path, "workflow")
    assert ours["q0"]["generated_answer"] == theirs["q0"]["generated_answer"] == data[0]["answer"]
    theirs, ours = both(tmp_path, "correct")
    assert ours["q0"]["score"] == theirs["q0"]["score"] == 1.0


def test_what_the_toolkit_refuses_is_said_before_a_finished_run_is_moved(commands, tmp_path):
    project(tmp_path, rows("Repeat"))
    configure(tmp_path, "output_dir: ./out", "output: {dir: ./out, cleanup: true}")
    assert in_process(commands, tmp_path).returncode == 0
    configure(tmp_path, "_type: limpet_repeat", "_type: limpet_unheard_of")
    done = in_process(commands, tmp_path)
    assert done.returncode != 0
    assert "limpet_unheard_of" in done.stderr
    assert list(tmp_path.glob("out.*")) == []
    assert [row["generated_answer"] for row in output(tmp_path)] == ["a0"]
