"""A run keeps what the same code made, and only that, in scripts, notebooks and shells alike."""

import asyncio
import importlib
import itertools
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from e2e import ready_limpet

import limpet
from limpet.fingerprints import steps
from limpet.workflows import as_workflow

ROWS = [{"id": str(n), "input": f"q{n}"} for n in range(4)]
_NUMBERS = itertools.count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module of the user's own, and import it."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def make(code):
        name = f"project_{next(_NUMBERS)}"
        names.append(name)
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)


def run(data, workflow, at, evaluators=(), **options):
    return limpet.evaluate(data, workflow, evaluators, at, **options)


def changed(workflow, at):
    """Return what the plan of the next run says that changed in the workflow, in words."""
    return ", ".join(limpet.plan(ROWS, workflow, (), at).workflow.changed)


def about(path):
    return json.loads((path / "run.json").read_text())


STATEFUL = {
    "a counter": "calls = 0\ndef answer(q):\n    global calls\n    calls += 1\n    return q",
    "a cache": "CACHE = {}\ndef answer(q):\n    return CACHE.setdefault(q, q)",
    "a list of a list": "LOG = [[]]\ndef answer(q):\n    LOG[0].append(q)\n    return q",
    "a default": "def answer(q, seen=[]):\n    seen.append(q)\n    return q",
    "what is closed over": (
        "def make():\n    n = 0\n    def answer(q):\n        nonlocal n\n        n += 1\n"
        "        return q\n    return answer\nanswer = make()"
    ),
    "an object's": (
        "class Bot:\n    def __init__(self): self.asked, self.client = 0, None\n"
        "    def __call__(self, q):\n        self.asked += 1\n        self.client = object()\n"
        "        self.late = [q]\n        return q\nanswer = Bot()"
    ),
    "one that goes": (
        "class Bot:\n    def __init__(self): self.first = 'x'\n    def __call__(self, q):\n"
        "        self.__dict__.pop('first', None)\n        return q\nanswer = Bot()"
    ),
    "a function's": (
        "def answer(q):\n    answer.calls = getattr(answer, 'calls', 0) + 1\n    return q"
    ),
    "a class's": ("class Stats:\n    n = 0\ndef answer(q):\n    Stats.n += 1\n    return q"),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("code", STATEFUL.values(), ids=STATEFUL)
def test_what_a_run_changes_is_state_and_the_next_run_keeps_everything(tmp_path, module, code):
    app, at = module(code), tmp_path / "run"
    run(ROWS, app.answer, at)
    assert about(at)["state"]["workflow"]
    for more in (1, 2):
        longer = [*ROWS, {"id": "more", "input": f"more {more}"}]
        assert run(longer, app.answer, at).plan.workflow.kept == len(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("code", STATEFUL.values(), ids=STATEFUL)
def test_it_is_state_for_map_too(tmp_path, module, code):
    app, at = module(code), tmp_path / "out.jsonl"
    limpet.map(app.answer, ["a", "b"], journal=at)
    assert limpet.map(app.answer, ["a", "b", "c"], journal=at).kept == 2
    assert about(tmp_path / "out.jsonl.d")["state"]["map"]
    assert limpet.map(app.answer, ["a", "b", "c", "d"], journal=at).kept == 3


def test_it_is_state_on_a_running_loop_too(tmp_path, module):
    app = module(STATEFUL["a counter"])

    async def twice():
        await limpet.aevaluate(ROWS, app.answer, (), tmp_path / "run")
        await limpet.amap(app.answer, ["a"], journal=tmp_path / "out.jsonl")
        again = await limpet.aevaluate(ROWS, app.answer, (), tmp_path / "run")
        return again, await limpet.amap(app.answer, ["a"], journal=tmp_path / "out.jsonl")

    evaluated, mapped = asyncio.run(twice())
    assert (evaluated.plan.workflow.kept, mapped.kept) == (4, 1)


def test_an_edit_between_two_runs_is_none_of_it(tmp_path, module):
    counted = "    global calls\n    calls += 1\n    return MODEL + q"
    app = module(f"MODEL = 'a'\ncalls = 0\ndef answer(q):\n{counted}")
    at = tmp_path / "run"
    run(ROWS, app.answer, at)
    app.MODEL = "b"
    assert changed(app.answer, at) == "MODEL"
    done = run(ROWS, app.answer, at)
    assert [one.output.value for one in done.items] == ["bq0", "bq1", "bq2", "bq3"]
    app.MODEL = "a"
    assert run(ROWS, app.answer, at).plan.workflow.kept == 4


def test_an_edit_while_another_run_goes_on_is_not_that_runs_state(tmp_path, module):
    app = module("""
        MODEL, started, go_on = "a", None, None
        async def answer(q):
            model = MODEL
            started.put_nowait(q)
            await go_on.wait()
            return model
    """)
    first, second = tmp_path / "first", tmp_path / "second"

    async def two_at_once():
        app.started, app.go_on = asyncio.Queue(), asyncio.Event()
        running = asyncio.create_task(limpet.aevaluate(ROWS, app.answer, (), first))
        for _ in ROWS:
            await app.started.get()
        app.MODEL = "b"
        other = asyncio.create_task(limpet.aevaluate(ROWS, app.answer, (), second))
        await app.started.get()  # it is planned, and neither run can end before
        app.go_on.set()
        await asyncio.gather(running, other)

    asyncio.run(two_at_once())
    assert "MODEL" in changed(app.answer, first)


def test_a_value_that_is_state_can_still_be_edited(tmp_path, module):
    app, at = (
        module(
            "CACHE = {'tone': 'kind'}\ndef answer(q):\n    CACHE[q] = 1\n    return CACHE['tone']"
        ),
        tmp_path / "run",
    )
    run(ROWS, app.answer, at)
    app.CACHE["tone"] = "rude"
    assert "CACHE" in changed(app.answer, at)


def test_an_edit_of_a_map_is_named(tmp_path, module):
    app, at = module("MODEL = 'a'\ndef answer(q): return MODEL + q"), tmp_path / "out.jsonl"
    limpet.map(app.answer, ["x"], journal=at)
    app.MODEL = "b"
    with pytest.raises(limpet.FunctionChangedError, match="MODEL"):
        limpet.map(app.answer, ["x"], journal=at)
    assert limpet.map(app.answer, ["x"], journal=at, on_change="redo").outputs == ["bx"]


def test_an_evaluator_is_looked_at_twice_like_the_workflow(tmp_path, module):
    app, at = (
        module("""
        STRICT = 1
        seen = []
        def answer(q): return q
        def score(output):
            seen.append(output)
            return STRICT
    """),
        tmp_path / "run",
    )
    run(ROWS, app.answer, at, [app.score])
    assert run(ROWS, app.answer, at, [app.score]).plan.calls == 0
    assert about(at)["state"] == {"score": ["seen"]}
    app.STRICT = 0
    again = run(ROWS, app.answer, at, [app.score])
    assert (again.plan.workflow.calls, again.plan.evaluators[0].calls) == (0, 4)
    assert again.plan.evaluators[0].changed == ("STRICT",)
    assert again.summary["scores"]["score"]["mean"] == 0


def test_steps_that_share_a_counter_keep_everything(tmp_path, module):
    app = module("""
        calls = 0
        def count():
            global calls
            calls += 1
        def answer(q):
            count()
            return q
        def other(q):
            count()
            return q
        def score(output):
            count()
            return 1
    """)
    first, second = tmp_path / "first", tmp_path / "second"
    for _ in range(3):
        one = run(ROWS, app.answer, first, [app.score])
        two = run(ROWS, app.other, second, [app.score])
    assert (one.plan.calls, two.plan.calls) == (0, 0)


def test_what_an_earlier_run_of_the_process_changed_counts_as_in_a_new_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import limpet
        calls = 0
        def count():
            global calls
            calls += 1
        def answer(q):
            count()
            return q
        def other(q):
            count()
            return q
        ROWS = [{"id": "1", "input": "a"}, {"id": "2", "input": "b"}]
        limpet.evaluate(ROWS, answer, run="first")
        print(limpet.evaluate(ROWS, other, run="second").plan.calls)
    """)
    )
    said = [ready_limpet.python_says([sys.executable, script], cwd=tmp_path) for _ in "12"]
    assert said == ["2\n", "0\n"]  # in the second process, nothing had run before the second look


def test_two_closures_of_one_factory_are_never_taken_for_each_other(tmp_path, module):
    app, at = (
        module("""
        def make(weight):
            log = []
            def score(output):
                log.append(output)
                return weight
            return score
        def answer(q): return q
    """),
        tmp_path / "run",
    )
    run(ROWS, app.answer, at, {"a": app.make(1), "b": app.make(2)})
    again = run(ROWS, app.answer, at, {"a": app.make(2), "b": app.make(1)})
    assert [one.calls for one in again.plan.evaluators] == [4, 4]
    means = {name: one["mean"] for name, one in again.summary["scores"].items()}
    assert means == {"a": 2, "b": 1}


def test_a_workflow_object_is_looked_at_anew_for_each_run(tmp_path, module):
    app, at = module("MODEL = 'a'\ndef answer(q): return MODEL + q"), tmp_path / "run"
    workflow = as_workflow(app.answer)
    run(ROWS, workflow, at)
    app.MODEL = "b"
    assert "MODEL" in changed(workflow, at)


def test_a_step_is_looked_at_once_when_planned_and_once_at_the_end(tmp_path, module, monkeypatch):
    app, looks = module("def answer(q): return q\ndef score(output): return 1"), []
    for name in ("identity_of", "record_state"):
        real = getattr(steps, name)

        def counted(thing, *rest, _real=real, _name=name, **named):
            looks.append((thing.__name__, _name))
            return _real(thing, *rest, **named)

        monkeypatch.setattr(steps, name, counted)
    rows = [{"id": str(n), "input": n} for n in range(50)]
    run(rows, as_workflow(app.answer), tmp_path / "run", [app.score])
    assert sorted(looks) == [
        ("answer", "identity_of"),
        ("answer", "record_state"),
        ("score", "identity_of"),
        ("score", "record_state"),
    ]


def test_a_kill_before_the_second_look_harms_nothing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os, pathlib, signal, time
        import limpet
        seen = []
        def die(item):
            if item.id == "2" and pathlib.Path("die").exists():
                os.kill(os.getpid(), signal.SIGKILL)
        def answer(q):
            seen.append(q)
            while q == "q4" and pathlib.Path("die").exists():  # until it is killed
                time.sleep(0.01)
            return q
        ROWS = [{"id": str(n), "input": f"q{n}"} for n in range(6)]
        done = limpet.evaluate(ROWS, answer, run="run", pace=1, watcher=die)
        print(done.plan.workflow.kept, done.plan.workflow.new)
    """)
    )
    (tmp_path / "die").touch()
    killed = ready_limpet.run_python([sys.executable, script], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "state" not in about(tmp_path / "run")
    (tmp_path / "die").unlink()
    said = ready_limpet.python_says([sys.executable, script], cwd=tmp_path)
    kept, new = map(int, said.split())
    assert kept >= 3
    assert kept + new == 6
    assert about(tmp_path / "run")["state"] == {"workflow": ["seen"]}


# ---- notebooks and shells -----------------------------------------------------------------------


@pytest.fixture
def cell(monkeypatch):
    """Run code as a shell does: in `__main__`, from no file."""
    main = type(sys)("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)

    def run_cell(code):
        exec(compile(textwrap.dedent(code), "<stdin>", "exec"), vars(main))  # noqa: S102
        return main

    return run_cell


def test_cells_that_are_run_again_in_any_order_change_nothing(tmp_path, cell):
    parts = [
        "MODEL = 'a'",
        "calls = 0",
        "def helper(q):\n    return q + MODEL",
        "def answer(q):\n    global calls\n    calls += 1\n    return helper(q)",
    ]
    for one in parts:
        main = cell(one)
    run(ROWS, main.answer, tmp_path / "run")
    for one in (parts[3], parts[2], parts[0]):
        cell(one)
    assert run(ROWS, main.answer, tmp_path / "run").plan.calls == 0
    cell(parts[1])  # the counter is back at its beginning
    assert run(ROWS, main.answer, tmp_path / "run").plan.calls == 0


@pytest.mark.parametrize(
    "edit", ["MODEL = 'b'", "def helper(q):\n    return q", "def answer(q):\n    return MODEL"]
)
def test_a_cell_that_is_edited_runs_again(tmp_path, cell, edit):
    cell("MODEL = 'a'\ndef helper(q):\n    return q + MODEL\ndef answer(q):\n    return helper(q)")
    run(ROWS, cell("").answer, tmp_path / "run")
    main = cell(edit)
    assert changed(main.answer, tmp_path / "run")
    assert run(ROWS, main.answer, tmp_path / "run").plan.workflow.calls == len(ROWS)


def test_code_typed_into_a_shell_is_the_same_in_the_next_one(tmp_path):
    typed = textwrap.dedent("""
        import limpet
        MODEL = {model!r}
        def answer(q):
            return q + MODEL

        rows = [{{"id": "1", "input": "a"}}]
        print("calls:", limpet.evaluate(rows, answer, run="run", on_change="redo").plan.calls)
    """)
    said = [
        subprocess.run(
            [sys.executable, "-i", "-q"],
            input=typed.format(model=model),
            cwd=tmp_path,
            text=True,
            capture_output=True,
            check=True,
        ).stdout.strip()
        for model in "aab"
    ]
    assert said == ["calls: 1", "calls: 0", "calls: 1"]


def test_a_module_that_is_reloaded_after_an_edit_runs_again(tmp_path, module):
    app, at = module("def answer(q):\n    return 'old'\n"), tmp_path / "run"
    run(ROWS, app.answer, at)
    file = Path(app.__file__)
    file.write_text("def answer(q):\n    return 'newer'\n")
    assert run(ROWS, app.answer, at).plan.calls == 0  # what is in memory has not changed
    importlib.reload(app)
    assert "answer" in changed(app.answer, at)


# ---- edits, and what is said of them ------------------------------------------------------------


def test_a_forced_run_after_an_edit_needs_no_answer_and_the_next_keeps_it(tmp_path, module):
    app, at = (
        module("MODEL = 'a'\nn = []\ndef answer(q):\n    n.append(q)\n    return MODEL"),
        tmp_path / "run",
    )
    run(ROWS, app.answer, at)
    app.MODEL = "b"
    forced = run(ROWS, app.answer, at, redo=True)
    assert [one.output.value for one in forced.items] == ["b"] * 4
    assert run(ROWS, app.answer, at).plan.calls == 0


def test_a_change_is_named_in_words(tmp_path, module, monkeypatch):
    before = """
        import os
        def old(): return 1
        def describe(f): return f.__doc__
        @describe
        def PROMPT(): "Be kind."
        def answer(q): return os.environ.get("TONE"), old(), PROMPT
    """
    monkeypatch.setenv("TONE", "kind")
    app, at = module(before), tmp_path / "run"
    run(ROWS, app.answer, at)
    monkeypatch.setenv("TONE", "rude")
    edited = module(before.replace("old()", "fresh()"))
    assert (
        changed(edited.answer, at)
        == "answer, fresh (now used), old (no longer used), environment variable TONE"
    )


def test_many_changes_are_named_in_part(tmp_path, module):
    code = "\n".join(f"V{n} = 'x'" for n in range(20))
    code += f"\ndef answer(q): return [{', '.join(f'V{n}' for n in range(20))}]"
    run(ROWS, module(code).answer, tmp_path / "run")
    edited = module(code.replace("'x'", "'y'")).answer
    assert "and 12 more" in str(limpet.plan(ROWS, edited, (), tmp_path / "run"))


def test_what_each_identity_is_made_of_lies_beside_the_run(tmp_path, module, monkeypatch):
    monkeypatch.setenv("SERVICE_API_KEY", "sk-abcdefghijklmnop0123456789")
    app, at = (
        module("""
        import os, threading
        API_KEY = os.environ["SERVICE_API_KEY"]
        HEADERS = {os.environ["SERVICE_API_KEY"]: 1}
        LOCK = threading.Lock()
        MODEL = "a"
        seen = []
        def answer(q):
            with LOCK:
                seen.append(q)
            return MODEL
        def score(output): return HEADERS and API_KEY and 1
    """),
        tmp_path / "run",
    )
    run(ROWS, app.answer, at, [app.score])
    run([*ROWS, {"id": "more", "input": "x"}], app.answer, at, [app.score])
    text = (at / "identity.json").read_text()
    assert "sk-abcdefghijklmnop0123456789" not in text + (at / "run.json").read_text()
    told = json.loads(text)["steps"]
    assert list(told) == ["workflow", "score"]
    assert {"answer", "MODEL", "seen", "LOCK"} <= told["workflow"]["parts"].keys()
    assert told["workflow"]["state"] == ["seen"]
    assert "_thread.lock" in told["workflow"]["left_out"]["LOCK"]
    assert told["score"]["left_out"]["API_KEY"] == "a secret"


def test_another_key_changes_nothing_and_names_like_a_secrets_still_count(
    tmp_path, module, monkeypatch
):
    code = """
        import os
        api_key = os.environ["SERVICE_API_KEY"]
        CONFIG = {"api_key": api_key, "max_tokens": 10}
        stop_token, answer_key = "</s>", {"q": "a"}
        def answer(q): return [q, CONFIG["max_tokens"], stop_token, answer_key, bool(api_key)]
    """
    monkeypatch.setenv("SERVICE_API_KEY", "sk-abcdefghijklmnop0123456789")
    at = tmp_path / "run"
    run(ROWS, module(code).answer, at)
    monkeypatch.setenv("SERVICE_API_KEY", "sk-another-one-9876543210")
    assert run(ROWS, module(code).answer, at).plan.calls == 0
    for edit in (("10", "20"), ("</s>", "<end>"), ('"a"', '"b"')):
        assert changed(module(code.replace(*edit)).answer, at)


def test_what_belongs_to_the_loop_is_neither_an_edit_nor_a_part(tmp_path, module):
    app, at = (
        module("""
            import asyncio
            GATE = asyncio.Semaphore(1)
            async def answer(q):
                async with GATE:
                    await asyncio.sleep(0)
                    return q
        """),
        tmp_path / "run",
    )

    async def twice():
        await limpet.aevaluate(ROWS, app.answer, (), at)
        background = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        again = await limpet.aevaluate(ROWS, app.answer, (), at)
        background.cancel()
        return again

    assert asyncio.run(twice()).plan.calls == 0
    told = json.loads((at / "identity.json").read_text())["steps"]["workflow"]
    assert [name for name in told["parts"] if "_loop" in name or "base_events" in name] == []


def test_who_listens_to_a_logger_changes_nothing(tmp_path, module):
    logs = "import logging\nlog = logging.getLogger('a.b')\n"
    app = module(f"{logs}def answer(q):\n    log.info(q)\n    return q")
    at = tmp_path / "run"
    run(ROWS, app.answer, at)
    app.logging.getLogger("a").addHandler(app.logging.NullHandler())
    app.logging.getLogger("a.b.c")
    assert run(ROWS, app.answer, at).plan.calls == 0


def test_a_page_named_like_a_secret_counts_and_its_text_is_not_kept(tmp_path, module, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, other = tmp_path / "kb/password.md", tmp_path / "kb/hours.md"
    page.parent.mkdir()
    page.write_text("the door opens by 4711")
    other.write_text("we open at nine")
    code = (
        "from pathlib import Path\n"
        "def answer(question):\n"
        "    return len(Path('kb/password.md').read_text() + Path('kb/hours.md').read_text())\n"
    )
    run = tmp_path / "run"
    limpet.evaluate([{"id": 1, "question": "q"}], module(code).answer, run=run)
    kept = (run / "files.jsonl").read_text()
    assert "kb/password.md" in kept
    assert "we open at nine" in kept
    assert "4711" not in kept
