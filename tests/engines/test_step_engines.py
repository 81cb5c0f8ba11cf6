"""What surrounds a call: environment, folders, imports, scripts; and what cannot be sent."""

import os
import subprocess
import sys
import textwrap

import pytest
from e2e import ready_limpet

import limpet
from tests.engines.project import ONE, WORKER, Project, both_engines, chosen

CODE = """
import helper_of_engines


def answer(item):
    record(item)
    return {
        "cwd": os.getcwd(),
        "variable": os.environ.get("LIMPET_TEST_TONE"),
        "path": [one for one in sys.path if "engines" in one or "extra" in one],
        "argv": len(sys.argv) > 0,
        "helper": helper_of_engines.WORD,
        "name": __name__,
        "umask": os.umask(os.umask(0o22)) if False else None,
        "locale": sys.getfilesystemencoding(),
        "hash seed": os.environ.get("PYTHONHASHSEED"),
        "utf8": sys.flags.utf8_mode,
        "optimised": sys.flags.optimize,
    }


def leaks(item):
    return "the key is " + os.environ["LIMPET_TEST_API_KEY"]


def raises_it(item):
    raise ValueError("refused: " + os.environ["LIMPET_TEST_API_KEY"])
"""
KEY = "sk-Proj-0123456789-abcdefghij"


def make(folder, **more):
    project = Project(folder, CODE, rows=2, **more)
    (folder / "helper_of_engines.py").write_text("WORD = 'helped'\n")
    return project


@both_engines
def test_folder_variables_and_imports_are_those_of_the_driver(tmp_path, engine):
    project = make(tmp_path)
    (tmp_path / "extra").mkdir()
    env = {"LIMPET_TEST_TONE": "kind", "PYTHONPATH": str(tmp_path / "extra")}
    done = project.run(engine=engine, env=env)
    assert done.returncode == 0, done.stderr
    found = project.result.items[0].output.value
    assert found["cwd"] == str(tmp_path)
    assert found["variable"] == "kind"
    assert found["helper"] == "helped"
    assert found["name"] == project.module
    assert str(tmp_path / "extra") in found["path"]


@pytest.mark.slow  # one that the script set is there too
@both_engines
def test_a_variable_of_an_env_file_is_there(tmp_path, engine):
    project = make(tmp_path)
    (tmp_path / "mine.env").write_text("LIMPET_TEST_TONE='from a file'\n")
    assert project.run("--env-file", "mine.env", engine=engine).returncode == 0
    assert project.result.items[0].output.value["variable"] == "from a file"


@pytest.mark.slow  # those of the driver are: the first test
@both_engines
def test_a_variable_that_a_script_set_before_the_run_is_there(tmp_path, engine, monkeypatch):
    monkeypatch.setenv("LIMPET_TEST_TONE", "set by the script")
    project = make(tmp_path)
    result = project.evaluate(engine)
    assert {item.output.value["variable"] for item in result.items} == {"set by the script"}
    assert result.items[0].output.value["cwd"] == str(tmp_path)


@pytest.mark.parametrize("workflow", [pytest.param("leaks", marks=pytest.mark.slow), "raises_it"])
@both_engines
def test_a_secret_is_masked_wherever_it_comes_from(tmp_path, engine, workflow):
    project = make(tmp_path, workflow=workflow, more="retry: 0\nfail_fast: false\n")
    done = project.run(engine=engine, env={"LIMPET_TEST_API_KEY": KEY})
    assert KEY not in done.stdout + done.stderr
    for file in project.path.rglob("*"):
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file
    item = project.result.items[0]
    said = item.output.value if workflow == "leaks" else item.error["message"]
    assert "[redacted]" in said


def test_a_secret_is_in_nobodys_command_line(tmp_path):
    """Anybody on the machine may read it there."""
    code = """
def answer(item):
    lines = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                lines.append((entry / "cmdline").read_bytes())
            except OSError:
                pass
    (HERE / "lines").write_bytes(b"".join(lines))
    return item.expected
"""
    project = Project(tmp_path, code, rows=1)
    project.run(engine=WORKER, env={"LIMPET_TEST_API_KEY": KEY})
    assert KEY.encode() not in (tmp_path / "lines").read_bytes()


@both_engines
def test_a_module_that_is_missing_is_one_error_before_the_first_call(tmp_path, engine):
    project = make(tmp_path)
    (tmp_path / "helper_of_engines.py").unlink()
    done = project.run(engine=engine)
    assert done.returncode == 2
    assert "helper_of_engines" in done.stderr
    assert project.calls == []


# ---- scripts ------------------------------------------------------------------------------------

SCRIPT = """
import functools
import os
import sys
import threading

import limpet

with open("starts.txt", "a") as file:
    file.write("x")
OPTIONS = {options!r}
WORD = "said"
LOCK = threading.Lock()


def answer(item):
    with open("calls.txt", "a") as file:
        file.write(f"workflow {{item.id}} {{os.getpid()}}\\n")
    return WORD + " " + item.input


def tell(word, item):
    return word + " " + item.input


TELL = functools.partial(tell, "told")


class Agent:
    def __init__(self, word="agent"):
        self.word = word

    def __call__(self, item):
        return self.word + " " + item.input


def closure(word):
    def inner(item):
        return word + " " + item.input

    return inner


def locked(item):
    with LOCK:
        return WORD + " " + item.input


class Locked(Agent):
    def __init__(self):
        super().__init__("locked")
        self.the_lock = threading.Lock()


def main():
    rows = [dict(id=f"q{{n}}", question=f"Say {{n}}", answer="") for n in range(3)]
    try:
        result = limpet.evaluate(
            rows, {workflow}, {evaluators}, run="runs/trial", show=False, **OPTIONS
        )
    except (limpet.LimpetError, TypeError, ValueError) as error:
        print("REFUSED", error, getattr(error, "hint", ""))
        sys.exit(2)
    print([item.output.value for item in result.items], [len(item.scores) for item in result.items])


{guard}main()
"""
GUARD = 'if __name__ == "__main__":\n    '
# Each goes the way of another one.
REPEATED = {
    "a class", "an object", "a partial", "a partial with a name", "a lambda", "a closure",
    "a function with a lock outside",
}  # fmt: skip
THINGS = {
    "a function": ("answer", "said", "answer"),
    "a class": ("Agent", "agent", "Agent"),
    "an object": ("Agent('given')", "given", "Agent"),
    "a partial": ("functools.partial(tell, 'partly')", "partly", "tell"),
    "a partial with a name": ("TELL", "told", "TELL"),
    "a lambda": ("lambda item: 'lambda ' + item.input", "lambda", "lambda"),
    "a closure": ("closure('closed')", "closed", "inner"),
    "a function with a lock outside": ("locked", "said", "LOCK"),
    "an object with a lock inside": ("Locked()", "locked", "Lock"),
}
IMPORTED = {"a function", "a class", "an object", "a partial", "a partial with a name"}


def script(folder, engine, workflow="answer", evaluators="[]", guard=GUARD):
    text = SCRIPT.format(
        options=chosen(engine), workflow=workflow, evaluators=evaluators, guard=guard
    )
    (folder / "script.py").write_text(textwrap.dedent(text))
    return ready_limpet.run_python(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=250,
        check=False,
    )  # fmt: skip


def assert_answered_or_refused(done, word, named, scores=0):
    """It works as in one process, or says what cannot be sent: never anything in between."""
    if done.returncode == 0:
        expected = [f"{word} Say {n}" for n in range(3)]
        assert done.stdout.strip() == f"{expected} {[scores] * 3}"
    else:
        assert done.returncode == 2, done.stderr
        assert done.stdout.startswith("REFUSED"), done.stdout
        assert named.lower() in done.stdout.lower()
        assert "pickle" not in done.stdout.lower().split("refused")[0]
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param(thing, marks=[pytest.mark.slow] if thing in REPEATED else [])
        for thing in THINGS
    ],
)
@both_engines
def test_what_a_script_defines_is_answered_or_refused_by_its_name(tmp_path, engine, thing):
    workflow, word, named = THINGS[thing]
    done = script(tmp_path, engine, workflow)
    assert_answered_or_refused(done, word, named)
    if thing in IMPORTED or engine == ONE:
        assert done.returncode == 0, done.stdout + done.stderr  # it can be imported: it works
    assert (tmp_path / "starts.txt").read_text().count("x") < 10


@pytest.mark.parametrize(
    "thing",
    ["a lambda", pytest.param("an object with a lock inside", marks=pytest.mark.slow)],
)
def test_what_only_the_guarded_part_of_a_script_names_is_refused_in_words(tmp_path, thing):
    workflow, _, _ = THINGS[thing]
    guard = f'if __name__ == "__main__":\n    MADE = {workflow}\n    '
    done = script(tmp_path, WORKER, "MADE", guard=guard)
    assert done.returncode == 2
    assert done.stdout.startswith("REFUSED the workflow cannot be loaded in a worker"), done.stdout
    assert "MADE is not defined when a worker imports the script" in done.stdout
    assert 'if __name__ == "__main__":' in done.stdout
    assert "__mp_main__" not in done.stdout


@both_engines
def test_a_script_without_a_guard_runs_once_or_is_told_so(tmp_path, engine):
    """A worker that imports it would start the whole again, without end."""
    done = script(tmp_path, engine, guard="")
    assert_answered_or_refused(done, "said", "__main__")
    calls = tmp_path / "calls.txt"
    assert len(calls.read_text().splitlines() if calls.exists() else []) in {0, 3}
    assert (tmp_path / "starts.txt").read_text().count("x") < 10


@pytest.mark.parametrize(
    "evaluator",
    [
        "lambda output: 1",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("closure('x')", "lambda output, lock=LOCK: lock.locked()")
        ),
    ],
)
@both_engines
def test_an_evaluator_that_cannot_be_sent_is_named_too(tmp_path, engine, evaluator):
    done = script(tmp_path, engine, evaluators=f"{{'short': {evaluator}}}")
    if done.returncode:
        assert done.stdout.startswith("REFUSED"), done.stdout + done.stderr
        assert "short" in done.stdout
    assert (tmp_path / "starts.txt").read_text().count("x") < 10


@pytest.mark.slow  # what cannot be sent is refused by its name, above
def test_standard_input_is_no_place_to_import_from(tmp_path):
    code = "import limpet\ndef f(q):\n    return q\nprint(limpet.evaluate([{'id': 'a', 'q': 'b'}], f, run='r', show=False, engine='processes'))"  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-"], input=code, cwd=tmp_path, capture_output=True, text=True,
        timeout=250, check=False,
    )  # fmt: skip
    assert "1 of 1 completed" in done.stdout or ("LimpetError" in done.stderr or "f" in done.stderr)


# ---- code that differs --------------------------------------------------------------------------

WORDS = """
WORD = "first"


def answer(item):
    record(item)
    return WORD


def other(item):
    record(item)
    return "other"
"""


def outputs_or_refusal(project, engine, **options):
    try:
        result = project.evaluate(engine, **options)
    except (limpet.LimpetError, TypeError, ValueError) as error:
        return str(error)
    return {item.output.value for item in result.items}


@both_engines
def test_a_value_that_the_script_changed_is_never_mistaken_for_the_files(tmp_path, engine):
    """The identity is of what is in memory: an answer of another value must not get its key."""
    project = Project(tmp_path, WORDS, rows=2)
    module = sys.modules[project.imported("APP:answer").__module__]
    module.WORD = "changed in memory"
    found = outputs_or_refusal(project, engine)
    assert found == {"changed in memory"} or (isinstance(found, str) and "WORD" in found)


@pytest.mark.slow  # nor is a value
@both_engines
def test_a_function_that_the_script_replaced_is_never_mistaken_for_the_files(tmp_path, engine):
    project = Project(tmp_path, WORDS, rows=2)
    module = sys.modules[project.imported("APP:answer").__module__]
    module.answer = module.other
    found = outputs_or_refusal(project, engine)
    assert found == {"other"} or (isinstance(found, str) and "answer" in found)


@both_engines
def test_a_file_that_was_edited_since_it_was_imported_is_not_mixed_in(tmp_path, engine):
    project = Project(tmp_path, WORDS, rows=2)
    project.imported("APP:answer")
    project.edit_code('"first"', '"edited"')
    found = outputs_or_refusal(project, engine)
    assert found == {"first"} or (isinstance(found, str) and found)


@pytest.mark.slow  # AGENT of test_steps has a lock too
def test_an_object_of_a_module_is_found_there_with_its_lock(tmp_path):
    code = """
class Agent:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, item):
        record(item)
        with self.lock:
            return "agent"


AGENT = Agent()
"""
    project = Project(tmp_path, code, rows=2, workflow="AGENT")
    assert {item.output.value for item in project.evaluate(WORKER).items} == {"agent"}
    assert os.getpid() not in project.pids


USED = """
SEEN = []


class Agent:
    def __init__(self):
        self.calls = 0

    def __call__(self, item):
        self.calls += 1
        SEEN.append(item.id)
        return item.expected


AGENT = Agent()
"""


@pytest.mark.parametrize("name", ["AGENT", pytest.param("Agent", marks=pytest.mark.slow)])
def test_an_object_that_earlier_runs_of_this_process_used_is_the_same_in_a_worker(tmp_path, name):
    project = Project(tmp_path, USED, rows=2)
    agent = project.imported(f"APP:{name}")
    if isinstance(agent, type):
        agent = agent()
    for run in range(2):
        project.evaluate(workflow=agent, run=f"{run}")
    result = project.evaluate({"processes": 1}, workflow=agent, run="there")
    assert [item.output.value for item in result.items] == ["0", "1"]
    assert not project.evaluate(workflow=agent, run="there").plan.calls


def test_an_object_that_was_changed_between_runs_is_not_the_same_in_a_worker(tmp_path):
    project = Project(tmp_path, USED, rows=2)
    agent = project.imported("APP:AGENT")
    project.evaluate(workflow=agent)
    sys.modules[project.module].SEEN.append("by hand")
    with pytest.raises(limpet.LimpetError, match=r"differs in a worker: SEEN changed"):
        project.evaluate({"processes": 1}, workflow=agent, run="there")


SETTING_UP = """
import os
import random

import limpet

os.chdir(os.path.dirname(os.path.abspath(__file__)))
random.seed(3)

if __name__ == "__main__":
    rows = [{"id": "a", "question": "b"}]
    result = limpet.evaluate(rows, "APP:answer", run="r", show=False, engine={"processes": 1})
    print(result.items[0].output.value)
"""


PLAIN = "def answer(question):\n    return question\n"
BY_CHANCE = """import random
import time

def answer(question):
    return str(random.random())
"""
IMPORTS_LATE = """
def answer(question):
    import random
    return str(random.random())
"""
COMPUTES = """
def answer(question):
    return str(eval("__import__('random').random()"))
"""
BY_PACKAGE = """import openai

def answer(question):
    return str(openai.__name__)
"""
OF_CONTEXT = """from levels import LEVEL

def answer(question):
    return str(LEVEL.get(0))
"""


def guarded(tmp_path, module, does):
    """Run a script that does something under its guard before an evaluation in a worker."""
    text = SETTING_UP.replace("APP", module).replace("random.seed(3)\n", "")
    text = text.replace("import limpet\n", "import limpet\nfrom levels import LEVEL\n", 1)
    levels = "import contextvars\n\nLEVEL = contextvars.ContextVar('level')\n"
    (tmp_path / "levels.py").write_text(levels)
    script = tmp_path / "script.py"
    script.write_text(text.replace("    rows =", f"    {does}\n    rows ="))
    words = [sys.executable, str(script)]
    return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("app", [BY_CHANCE, IMPORTS_LATE, COMPUTES, BY_PACKAGE])
def test_a_seed_of_the_guarded_part_of_a_script_is_refused_if_the_step_may_use_it(tmp_path, app):
    project = Project(tmp_path, app, rows=1)
    done = guarded(tmp_path, project.module, "random.seed(3)")
    assert "before the run may change what it returns" in done.stderr
    assert "a worker does not do it" in done.stderr
    assert "at the top level of the script" in done.stderr


@pytest.mark.parametrize(
    ("app", "does"),
    [(OF_CONTEXT, "LEVEL.set(3)"), (PLAIN, "import decimal; decimal.getcontext().prec = 3")],
)
def test_another_change_by_the_guarded_part_is_refused(tmp_path, app, does):
    project = Project(tmp_path, app, rows=1)
    done = guarded(tmp_path, project.module, does)
    assert "worker" in done.stderr
    assert done.returncode


@pytest.mark.parametrize(
    "does",
    [
        "os.environ['OF_NO_USE'] = 'x'",
        "os.environ.setdefault('OF_NO_USE', 'x')",
        "os.environ.update(OF_NO_USE='x')",
        "os.chdir('.')",
        "random.seed(3)",
        "LEVEL.set(3)",
        "token = LEVEL.set(3); random.seed(len(rows)) if (rows := []) else os.chdir('.')",
    ],
)
def test_what_a_worker_gets_or_a_step_cannot_reach_is_not_refused(tmp_path, does):
    project = Project(tmp_path, PLAIN, rows=1)
    done = guarded(tmp_path, project.module, does)
    assert done.stdout == "b\n", done.stderr


def test_a_variable_that_the_guarded_part_sets_is_there_in_a_worker(tmp_path):
    reads = "import os\n\ndef answer(question):\n    return os.environ['LEVEL']\n"
    project = Project(tmp_path, reads, rows=1)
    done = guarded(tmp_path, project.module, "os.environ['LEVEL'] = 'high'")
    assert done.stdout == "high\n", done.stderr


def test_a_script_that_sets_something_up_does_so_in_workers_too(tmp_path):
    project = Project(tmp_path, "def answer(question):\n    return question\n", rows=1)
    script = tmp_path / "script.py"
    script.write_text(SETTING_UP.replace("APP", project.module))
    words = [sys.executable, str(script)]
    done = ready_limpet.run_python(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "b\n", done.stderr
