"""The public names of the package."""

import pickle
import re
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


PUBLIC = [
    "evaluate",
    "aevaluate",
    "plan",
    "map",
    "amap",
    "load_run",
    "compare",
    "control",
    "workflow",
    "evaluator",
    "Dataset",
    "Item",
    "Output",
    "Score",
    "Usage",
    "ItemResult",
    "EvaluationResult",
    "Workflow",
    "Evaluator",
    "Pace",
    "Retry",
    "Redo",
    "Run",
    "contains",
    "embedding_similarity",
    "exact_match",
    "one_of",
    "json_match",
    "judge",
    "numeric",
    "pairwise",
    "rating",
    "regex",
    "rubric",
    "similarity",
    "trajectory",
    "AsyncExecutor",
    "SyncExecutor",
    "get_executor_on_sync_context",
    "LimpetError",
    "RateLimitError",
    "PermanentError",
    "TransientError",
    "FunctionChangedError",
]


def test_these_are_all_public_names():
    assert sorted(limpet.__all__) == sorted(PUBLIC)
    assert len(PUBLIC) <= 48
    for name in PUBLIC:
        assert getattr(limpet, name) is not None


@pytest.mark.parametrize("room", ["errors", "executors", "journal", "pacing", "stats", "types"])
def test_a_room_hands_out_what_it_lists(room):
    module = getattr(limpet, room)
    listed = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if isinstance(value, type)
    ]
    assert listed
    for name in listed:
        assert getattr(module, name) is not None


def test_the_modules_of_what_is_seldom_needed():
    assert {"Pacer", "observe"} <= set(limpet.pacing.__all__)
    assert {"Plan", "Comparison", "MapResult", "Watcher", "Scale"} <= set(limpet.types.__all__)
    assert {"Backoff", "ExecutionDetails", "Finished", "UNSET"} <= set(limpet.executors.__all__)
    assert limpet.errors.FailFastError
    assert limpet.trace.Event


def test_a_star_imports_the_public_names():
    names: dict[str, object] = {}
    exec("from limpet import *", names)  # noqa: S102 - that is what is tested
    assert set(PUBLIC) <= set(names)


@pytest.mark.parametrize("function", [limpet.evaluate, limpet.aevaluate, limpet.plan])
def test_every_option_of_evaluate_is_a_parameter_with_type_and_default(function):
    import inspect

    from limpet.run.options import RunOptions

    parameters = inspect.signature(function).parameters
    assert {"save", *RunOptions.__annotations__} == set(list(parameters)[5:])
    for name in list(parameters)[5:]:
        one = parameters[name]
        assert one.kind is inspect.Parameter.KEYWORD_ONLY
        assert one.default is not inspect.Parameter.empty
        assert one.annotation is not inspect.Parameter.empty


@pytest.mark.parametrize("function", [limpet.map, limpet.amap])
def test_every_option_of_map_is_a_parameter(function):
    import inspect

    from limpet.run.options import MapOptions

    parameters = inspect.signature(function).parameters
    own = ["fn", "inputs", "journal", "key", "watcher"]
    assert list(parameters) == [*own, *MapOptions.__annotations__]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"early_stop": False},
            "not an option of evaluate; did you mean 'fail_fast'?",
        ),
        ({"run": False}, "run=False: must be a path, a Run or None; to save nothing: save=False"),
        ({"secrets": False}, "to mask nothing: mask=False"),
        ({"concurrency": 3}, "did you mean 'pace'?"),
        ({"trails": 2}, "'trails' is not an option of evaluate; did you mean 'trials'?"),
        ({"pase": 2}, "did you mean 'pace'?"),
    ],
)
def test_an_option_of_before_names_the_one_of_now(given, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        limpet.evaluate([{"input": 1}], str, **given)


def test_nothing_is_saved_where_nothing_can_be():
    with pytest.raises(ValueError, match="save=False saves nothing"):
        limpet.evaluate([{"input": 1}], str, run="runs/x", save=False)


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
            error("what", hint="do this")
            for error in vars(limpet.errors).values()
            if isinstance(error, type) and issubclass(error, Exception)
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
