"""What the package hands out."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import limpet
import limpet.errors
import limpet.executors
from limpet import AsyncExecutor
from limpet.executors import ExecutionDetails, ExecutionStatus

ROOT = Path(__file__).parents[2]


def test_all_names_exactly_what_can_be_had():
    rooms = (limpet.executors, limpet.journal, limpet.pacing)
    for module in (limpet, *rooms):
        assert module.__all__ == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_every_executor_name_is_also_the_packages():
    assert set(limpet.executors.__all__) <= set(limpet.__all__)
    errors = {
        name
        for name, value in vars(limpet.errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert errors <= set(limpet.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Executioner'"):
        _ = limpet.Executioner


def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import sys; before = set(sys.modules); import limpet;"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before}"
        " & {'asyncio', 'tqdm', 'aiohttp', 'numpy', 'pydantic', 'logging'}))"
    )
    done = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert done == "[]\n"


def test_a_run_of_plain_functions_imports_no_http_client(tmp_path):
    (tmp_path / "app.py").write_text("def answer(question):\n    return question\n")
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "question": "a", "answer": "a"}\n')
    evaluators = "evaluators: {right: exact_match}\n"
    (tmp_path / "eval.yml").write_text(f"dataset: rows.jsonl\nworkflow: app:answer\n{evaluators}")
    script = (
        "import sys; from limpet.cli.main import main; sys.argv[1:] = ['run', 'eval.yml']\n"
        "try:\n    main()\n"
        "finally:\n    print({'aiohttp', 'pandas'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.endswith("set()\n")


def test_constructor_arguments_stay_readable():
    async def fn(x):
        return x

    given = {
        "generation_fn": fn,
        "concurrency": 4,
        "tqdm_bar_format": "{bar}",
        "max_retries": 5,
        "exit_on_error": False,
        "fallback_return_value": "-",
        "termination_signal": None,
        "timeout": 7,
        "enable_dynamic_concurrency": True,
        "dynamic_initial_target": 2,
        "dynamic_window_seconds": 3.0,
        "dynamic_increase_step": 2,
        "dynamic_decrease_ratio": 0.25,
        "dynamic_inactive_check_interval": 9.0,
        "max_timeouts": 6,
    }
    executor = AsyncExecutor(**given)
    assert {name: getattr(executor, name) for name in given} == given


def test_the_defaults_are_the_contracts():
    import inspect

    parameters = inspect.signature(AsyncExecutor).parameters
    defaults = {name: one.default for name, one in parameters.items()}
    assert list(defaults)[:8] == [
        "generation_fn",
        "concurrency",
        "tqdm_bar_format",
        "max_retries",
        "exit_on_error",
        "fallback_return_value",
        "termination_signal",
        "timeout",
    ]
    assert defaults["concurrency"] == 3
    assert defaults["max_retries"] == 10
    assert defaults["exit_on_error"] is True
    assert defaults["enable_dynamic_concurrency"] is True
    assert defaults["dynamic_window_seconds"] == 5.0
    assert defaults["dynamic_increase_step"] == 1
    assert defaults["dynamic_decrease_ratio"] == 0.5
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in list(parameters.values())[8:])


@pytest.mark.parametrize(
    "error",
    [
        limpet.RateLimitError("slow", retry_after=3, hint="wait"),
        limpet.errors.RunLockedError("locked", hint="wait", holder={"pid": 7}),
        *(
            getattr(limpet, name)("what", hint="do this")
            for name in limpet.__all__
            if name.endswith("Error")
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling_with_their_hint(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.hint, again.__notes__) == (str(error), error.hint, error.__notes__)
    assert getattr(again, "retry_after", None) == getattr(error, "retry_after", None)
    assert getattr(again, "holder", None) == getattr(error, "holder", None)


def test_the_sentinel_survives_pickling_as_itself():
    assert pickle.loads(pickle.dumps(limpet.executors.UNSET)) is limpet.executors.UNSET


def test_details_say_what_happened():
    details = ExecutionDetails()
    assert (details.status, details.exceptions, details.execution_seconds) == (
        ExecutionStatus.DID_NOT_RUN,
        [],
        0,
    )
    details.complete()
    assert details.status is ExecutionStatus.COMPLETED
    details.log_exception(ValueError("x"))
    details.complete()
    assert details.status is ExecutionStatus.COMPLETED_WITH_RETRIES
    details.fail()
    assert details.status is ExecutionStatus.FAILED
    assert repr(details) == "ExecutionDetails(FAILED, 1 exceptions, 0.000 s)"


def test_runtime_adds_up(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    details = ExecutionDetails()
    details.log_runtime(97.0)
    details.log_runtime(99.5)
    assert details.execution_seconds == 3.5


def test_the_name_the_project_once_had_is_nowhere():
    once = "hold" + "fast"
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z"],  # noqa: S607 - the developer's own git
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    assert len(paths) > 100
    named = [path for path in paths if once in str(path.relative_to(ROOT)).lower()]
    told = [
        path
        for path in paths
        if path.exists() and once in path.read_bytes().decode(errors="replace").lower()
    ]
    assert named + told == []
