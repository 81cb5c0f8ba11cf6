"""What real code does to its process: print, log, fork, interrupt, use loops of its own."""

import contextlib
import io

import pytest

from tests.engines.project import ONE, PROCESSES, Project, wait_until

CODE = r"""
import io
import logging
import multiprocessing
import subprocess

sys.stdout.reconfigure(line_buffering=True)
sys.path.append(pathlib.Path("lib"))  # Python skips what is no string
LOG = logging.getLogger("app")


def child(number):
    for n in range(20):
        LOG.warning("%d %d %s", number, n, "x" * 10_000)
        print("child", number, n, "y" * 10_000)
    return number


class Loud:
    def __init__(self):
        self.me = self

    def __del__(self):
        print("gone")


def writes_bytes():
    sys.stdout.buffer.write("öäü€\n".encode())
    sys.stdout.flush()
    wrapped = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", write_through=True)
    wrapped.write("€" * 20_000 + "\n")
    wrapped.detach()


def forks():
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(child, range(8)) == list(range(8))


def interrupts():
    program = "import time\ntry:\n print(1, flush=True)\n time.sleep(100)\n" \
              "except KeyboardInterrupt: print('interrupted')"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == b"interrupted\n"


def prints_in_finalizers():
    for n in range(3000):
        Loud()
        if n % 10 == 0:
            print(n)


def has_a_loop_of_its_own():
    async def call():
        async with limpet.pacing.endpoint("http://127.0.0.1:9"):
            await asyncio.sleep(0)
    for _ in range(5):
        asyncio.run(call())


def answer(item):
    record(item)
    globals()[item.input]()
    return item.expected
"""
HABITS = ["writes_bytes", "forks", "interrupts", "prints_in_finalizers"]
ROWS = [
    {"id": name, "question": name, "answer": "done"} for name in [*HABITS, "has_a_loop_of_its_own"]
]


MORE = "retry: 0\ntimeout: 100\npace: 8\n"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return {
        engine: _run(Project(tmp_path_factory.mktemp("habits"), CODE, rows=ROWS, more=MORE), engine)
        for engine in (ONE, PROCESSES)
    }


def _run(project, engine):
    ended = project.run(engine=engine)
    outputs = {item.id: item.output and item.output.value for item in project.result.items}
    errors = {one["id"]: one["error"]["message"] for one in project.records("failures")}
    return ended, outputs, errors, project.events()


@pytest.mark.slow
@pytest.mark.parametrize("engine", [ONE, PROCESSES])
@pytest.mark.parametrize("habit", HABITS)
def test_code_with_habits_is_answered(done, engine, habit):
    _, outputs, errors, _ = done[engine]
    assert outputs[habit] == "done", errors


@pytest.mark.slow
def test_no_worker_is_lost_for_it(done):
    assert [event for event in done[PROCESSES][3] if event.get("event") == "worker_lost"] == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", [ONE, PROCESSES])
def test_bytes_that_are_written_are_printed_whole(done, engine):
    ended = done[engine][0]
    assert "öäü€\n" in ended.stdout + ended.stderr
    assert "€" * 20_000 in ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("engine", [ONE, PROCESSES])
def test_a_paced_call_on_a_loop_of_its_own_is_answered_or_an_error_and_does_not_hang(done, engine):
    _, outputs, errors, _ = done[engine]
    name = "has_a_loop_of_its_own"
    if name in errors:
        assert "in use on another event loop" in errors[name]
    else:  # nobody else was in flight
        assert outputs[name] == "done"


FORKS = r"""
import multiprocessing


def prints():
    for _ in range(3):
        print("x" * 300_000)  # more than a pipe holds


def answer(item):
    threading.Thread(target=prints).start()
    while not (HERE / "blocked").exists():
        time.sleep(0.01)
    codes = []
    while len(codes) < 3 and None not in codes:  # the first may come before the thread's next line
        child = multiprocessing.get_context("fork").Process(target=print, args=["from the child"])
        child.start()
        child.join(20)
        codes.append(child.exitcode)
        child.kill()
    with (HERE / "codes.txt").open("a") as file:
        print(*codes, file=file)
    (HERE / "forked").touch()
    return item.expected
"""


class Stuck(io.StringIO):
    """A standard output that takes nothing more for a while."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def write(self, text):
        (self.folder / "blocked").touch()
        wait_until((self.folder / "forked").exists, "the forks")
        return super().write(text)


def test_a_child_that_is_forked_while_a_thread_prints_can_print(tmp_path):
    project = Project(tmp_path, FORKS, rows=1)
    with contextlib.redirect_stdout(Stuck(tmp_path)):
        project.evaluate({"processes": 1})
    assert set((tmp_path / "codes.txt").read_text().split()) == {"0"}
