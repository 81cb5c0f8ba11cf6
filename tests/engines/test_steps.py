"""Every kind of workflow and evaluator: it is opened once in each worker, and answers the same."""

import json
import sys

import pytest
from model_server import model_server

import limpet
from limpet.run.reading import RunReader
from tests.engines.project import (
    BOTH,
    ONE,
    SLOW_ONE,
    WORKER,
    Project,
    both_engines,
    several_workers,
)

SLOW = pytest.mark.slow
CODE = '''
import functools


def plain(question):
    return question.upper()


async def asynchronous(question, answer, note="?"):
    await asyncio.sleep(0)
    return f"{question} {answer} {note}"


def with_arguments(question, greeting, punctuation="."):
    return f"{greeting} {question}{punctuation}"


class Opened:
    """Says in opened.txt when it was set up and taken down, and by whom."""

    def __init__(self, word="ready"):
        self.word = word
        self.lock = threading.Lock()  # cannot be sent: a worker makes its own

    def say(self, what):
        with (HERE / "opened.txt").open("a") as file:
            file.write(f"{what} {os.getpid()}\\n")

    async def setup(self):
        self.say("setup")
        self.loop = asyncio.get_running_loop()
        self.state = {"ready": self.word}

    async def __call__(self, item):
        record(item)
        assert asyncio.get_running_loop() is self.loop
        with self.lock:
            return self.state["ready"] + " " + item.input

    async def teardown(self):
        self.say("teardown")


class PlainOpened(Opened):
    def setup(self):
        self.say("setup")
        self.state = {"ready": self.word}

    def __call__(self, item):
        record(item)
        return self.state["ready"] + " " + item.input

    def teardown(self):
        self.say("teardown")


class PerItem:
    per_item = True

    def __init__(self):
        self.count = 0

    def __call__(self, question):
        self.count += 1
        return f"{question} {self.count}"


class Own(limpet.Workflow):
    """Defines everything itself."""

    name = "own"
    fingerprint = {"version": "1"}

    async def open(self):
        with (HERE / "opened.txt").open("a") as file:
            file.write(f"setup {os.getpid()}\\n")
        self.opened = True

    async def call(self, item):
        assert self.opened
        return limpet.Output(item.input[::-1], usage=limpet.Usage(total_tokens=1))

    async def close(self):
        with (HERE / "opened.txt").open("a") as file:
            file.write(f"teardown {os.getpid()}\\n")


AGENT = Opened("an instance")
OWN = Own()
PARTIAL = functools.partial(with_arguments, greeting="hello")
LAMBDA = lambda question: question[:2]


class Methods:
    def answer(self, question):
        return len(question)

    @staticmethod
    def still(question):
        return question[-1]

    @classmethod
    def of_class(cls, question):
        return cls.__name__


METHOD, STILL, OF_CLASS = Methods().answer, Methods.still, Methods.of_class


def wrapped_by(word):
    def wrap(function):
        @functools.wraps(function)
        def inner(question):
            return word + function(question)

        return inner

    return wrap


@wrapped_by("decorated ")
def decorated(question):
    return question


class Grader:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, output, expected):
        with self.lock:
            return len(str(output)) > 2


def short(output):
    return len(str(output)) < 12


async def graded(output, item):
    await asyncio.sleep(0)
    return {"length": len(str(output)), "id": item.id}


@limpet.evaluator(reads=["output", "row.note"], range=(0, 9))
def narrow(output, item):
    return len(item.row["note"])


def reads_trace(trace, output):
    return len(trace)


GRADER = Grader()
'''
WORKFLOWS = ["plain", "asynchronous", "Opened", "PlainOpened", "PerItem", "AGENT", "OWN",
             "PARTIAL", "METHOD", "STILL", "OF_CLASS", "decorated", "LAMBDA"]  # fmt: skip
EVALUATORS = {
    **{name: f"APP:{name}" for name in ("short", "graded", "narrow", "reads_trace", "GRADER")},
    "exact": limpet.exact_match(),
    "has": limpet.contains(),
    "form": limpet.regex(r"\w+"),
    "near": limpet.similarity(),
    "number": limpet.numeric(),
    "one": limpet.one_of(["a", "b"]),
    "tree": limpet.json_match(),
    "lambda": "APP:LAMBDA",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("steps"), CODE, rows=3)


# Each goes the way of another one, or of `test_a_workflow_is_opened_once…`.
REPEATED = {
    "plain",
    "asynchronous",
    "PARTIAL",
    "Opened",
    "PlainOpened",
    "OWN",
    "STILL",
    "OF_CLASS",
    "decorated",
    "METHOD",
    "LAMBDA",  # an evaluator is one too
}


def keys_of(result):
    with RunReader(result.run) as reader:
        return [item.key for item in reader.items()]


def outcome(result):
    return [
        (item.id, item.output, item.status.value, item.error and item.error["message"],
         dict(item.scores),
         {name: one["message"] for name, one in item.score_errors.items()})
        for item in result.items
    ]  # fmt: skip


@pytest.mark.parametrize(
    "workflow",
    [pytest.param(name, marks=[SLOW] if name in REPEATED else []) for name in WORKFLOWS],
)
@pytest.mark.parametrize("engine", [SLOW_ONE, WORKER])
def test_a_workflow_of_any_kind_answers_the_same(tmp_path, engine, workflow):
    project = Project(tmp_path, CODE, rows=3)
    here = f"{project.module}:{workflow}"
    runs = [
        project.evaluate(each, workflow=here, run=f"{workflow}-{n}-{engine == ONE}")
        for n, each in enumerate([ONE, engine])
    ]
    assert outcome(runs[1]) == outcome(runs[0])
    assert all(item.status.value == "completed" for item in runs[1].items)
    assert keys_of(runs[1]) == keys_of(runs[0])


@pytest.mark.filterwarnings("ignore")
@both_engines
def test_evaluators_of_any_kind_score_the_same(project, engine):
    here = f"{project.module}:plain"
    runs = [
        project.evaluate(each, EVALUATORS, workflow=here, run=f"scores-{n}-{engine}")
        for n, each in enumerate([ONE, engine])
    ]
    assert outcome(runs[1]) == outcome(runs[0])
    names = {name.partition(".")[0] for name in runs[1].items[0].scores}
    assert names >= {"short", "graded", "narrow", "GRADER", "lambda"}


@pytest.mark.parametrize(
    "kind", ["Opened", *(pytest.param(kind, marks=SLOW) for kind in ("PlainOpened", "OWN"))]
)
@several_workers
def test_a_workflow_is_opened_once_in_each_worker_and_closed_again(tmp_path, engine, kind):
    project = Project(tmp_path, CODE, rows=12, workflow=kind, more="pace: 4\n")
    done = project.run(engine=engine)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in (tmp_path / "opened.txt").read_text().splitlines()]
    setups = [pid for what, pid in lines if what == "setup"]
    assert len(setups) == len(set(setups)) >= 1
    assert sorted(pid for what, pid in lines if what == "teardown") == sorted(setups)
    assert {str(pid) for pid in project.pids} <= set(setups)
    if engine != ONE:
        assert str(project.driver) not in setups  # heavy things are not loaded where nobody calls


INTERRUPTED = """
def interrupt(times):
    # Not a global: all tests that are imported would be searched for who else sets it.
    driver = os.getpid() if "ENGINE" == "one" else os.getppid()
    for _ in range(times):
        os.kill(driver, signal.SIGINT)
        time.sleep(0.1)  # two that wait together are one


class Torn:
    async def __call__(self, item):
        return item.expected

    async def teardown(self):
        await asyncio.to_thread(interrupt, 2)
        await asyncio.sleep(3600)


class SetUp:
    async def setup(self):
        try:
            await asyncio.to_thread(interrupt, 1)
            await asyncio.sleep(3600)
        finally:
            (HERE / "cancelled").touch()

    async def __call__(self, item):
        return item.expected
"""


@pytest.mark.parametrize("engine", [ONE, WORKER])  # each worker interrupts
def test_a_second_interrupt_ends_a_teardown_that_hangs(tmp_path, engine, caplog):
    code = INTERRUPTED.replace("ENGINE", engine)
    project = Project(tmp_path, code, rows=2, workflow="Torn")
    project.evaluate(engine)
    assert sorted(project.recorded()) == ["q0", "q1"]
    assert "tear-down was abandoned; finished results are kept" in caplog.text


@pytest.mark.parametrize("engine", [ONE, WORKER])  # each worker interrupts
def test_an_interrupt_cancels_a_setup_so_that_it_can_take_down_what_it_has(tmp_path, engine):
    code = INTERRUPTED.replace("ENGINE", engine)
    project = Project(tmp_path, code, rows=2, workflow="SetUp")
    result = project.evaluate(engine)
    assert result.stop_reason is not None
    assert project.recorded() == []
    assert (tmp_path / "cancelled").exists()


@both_engines
def test_arguments_of_the_file_reach_the_function(tmp_path, engine):
    project = Project(tmp_path, CODE, rows=2)
    arguments = {"greeting": "héllo", "punctuation": "!"}
    project.write_config(workflow={"python": "APP:with_arguments", "args": arguments})
    assert project.run(engine=engine).returncode == 0
    assert [item.output.value for item in project.result.items] == ["héllo Say 0!", "héllo Say 1!"]


@both_engines
def test_a_program_runs_as_in_one_process(tmp_path, engine):
    project = Project(tmp_path, CODE, rows=3)
    program = "import json, sys; print(json.load(sys.stdin)['question'][::-1])"
    (tmp_path / "agent.py").write_text(program)
    project.write_config(workflow={"command": [sys.executable, "agent.py"]})
    assert project.run(engine=engine).returncode == 0
    assert [item.output.value for item in project.result.items] == ["0 yaS", "1 yaS", "2 yaS"]
    assert not project.left_over()


# ---- models and judges --------------------------------------------------------------------------


def reply(request, number):
    text = json.dumps(request["messages"])
    if "Judge" in text:
        return {"reason": "fits", "label": "good" if "0" in text else "bad"}
    return text.count("Say") * "said"


def modelled(project, url, votes=1):
    project.write_config(
        {
            "judged": {"judge": "m", "prompt": "Judge {{output}} of {{input}}", "votes": votes,
                       "choices": {"good": 1, "bad": 0}},
            "exact": "exact_match",
        },
        "models:\n  m: {openai: '" + url + "', model: m, key: '${TEST_API_KEY}'}\n",
        workflow={"model": "m", "prompt": "{{question}}"},
    )  # fmt: skip


@both_engines
def test_a_model_and_a_judge_are_asked_once_for_each_cell(tmp_path, engine):
    project = Project(tmp_path, CODE, rows=5)
    key = {"TEST_API_KEY": "sk-not-for-the-disk-0123456789"}
    with model_server(reply, key=key["TEST_API_KEY"]) as server:
        modelled(project, server.url, votes=3)
        done = project.run(engine=engine, env=key)
        assert done.returncode == 0, done.stderr
        assert len(server.asked) == 5 + 15
        assert project.run(env=key).returncode == 0  # one process goes on: nothing is left
        assert project.run(engine=engine, env=key).returncode == 0
        assert len(server.asked) == 20
    summary = project.result.summary
    assert summary["evaluators"]["judged"]["completed"] == 5
    assert summary["workflow"]["usage"]["total_tokens"] == 5 * 15
    assert summary["evaluators"]["judged"]["usage"]["total_tokens"] == 15 * 15
    assert len(project.records("judged.ballots_output")) == 15
    assert key["TEST_API_KEY"] not in "".join(
        file.read_text(errors="replace") for file in project.path.rglob("*") if file.is_file()
    )


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("then", BOTH)
def test_votes_that_were_cast_are_kept_when_one_fails(tmp_path, first, then):
    """A vote is on disk when it is cast, not when the cell of all votes is done."""

    def failing(request, number):
        if "Judge" in json.dumps(request["messages"]) and number in {6, 7} and broken:
            return "no label"
        return reply(request, number)

    broken = [True]
    project = Project(tmp_path, CODE, rows=2)
    key = {"TEST_API_KEY": "k"}
    with model_server(failing) as server:
        modelled(project, server.url, votes=3)
        project.run("--set", "retry=0", engine=first, env=key)
        broken.clear()
        before, cast = len(server.asked), len(project.records("judged.ballots_output"))
        assert project.run(engine=then, env=key).returncode == 0
        assert len(server.asked) - before == 6 - cast


@SLOW  # test_same_run scores with exact_match
def test_a_step_of_the_house_need_not_leave_the_driver_and_is_the_same(tmp_path):
    """Built-in evaluators and models: wherever they run, their calls are paced together."""
    project = Project(tmp_path, CODE, rows=4, workflow="plain", more="engine: {processes: 1}\n")
    assert project.run().returncode == 0
    assert project.result.summary["evaluators"]["correct"]["completed"] == 4
