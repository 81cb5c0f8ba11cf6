"""A paid answer is never dropped: whatever is wrong beside it costs that part and a warning."""

import dataclasses
import json
import logging
import math
from decimal import Decimal
from types import SimpleNamespace

import pydantic
import pytest

import limpet
from limpet import Output, Score, Usage

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": f"Say {n}"} for n in range(5)]
FEW = ROWS[:4]


def same(question):
    return question


def lines(run, name="workflow_output"):
    return [json.loads(one) for one in (run / f"{name}.jsonl").read_bytes().splitlines()]


def warnings_in(caplog):
    return [one for one in caplog.records if one.levelno >= logging.WARNING]


def answered_with(tmp_path, make, evaluators=(), **options):
    """Ask five items of a workflow that returns what `make` makes; return the lines on disk."""
    calls = []

    def answer(question):
        calls.append(question)
        return make(question)

    options = {"retry": 0, "version": "1", **options}
    result = limpet.evaluate(ROWS, answer, evaluators, run=tmp_path / "run", **options)
    assert result.summary["workflow"]["completed"] == len(ROWS)
    again = limpet.evaluate(ROWS, answer, evaluators, run=tmp_path / "run", **options)
    assert again.summary["workflow"]["completed"] == len(ROWS)
    assert len(calls) == len(ROWS)  # nothing was asked, and paid for, twice
    told = lines(tmp_path / "run")
    assert sorted(one["output"] for one in told) == [row["answer"] for row in ROWS]
    return told


# ---- usage --------------------------------------------------------------------------------------


class Model(pydantic.BaseModel):
    prompt_tokens: int = 10
    completion_tokens: int = 4
    total_tokens: int = 14


@dataclasses.dataclass
class Counted:
    input_tokens: int = 10
    output_tokens: int = 4
    cost: Decimal = Decimal("0.5")


OPENAI = SimpleNamespace(
    prompt_tokens=10,
    completion_tokens=4,
    total_tokens=14,
    prompt_tokens_details=SimpleNamespace(cached_tokens=3, audio_tokens=None),
    completion_tokens_details=SimpleNamespace(reasoning_tokens=2),
)
GEMINI = SimpleNamespace(
    prompt_token_count=10,
    candidates_token_count=4,
    thoughts_token_count=6,
    cached_content_token_count=None,
    total_token_count=20,
)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("said", "used"),
    [
        ({"prompt_tokens": 10},
         {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10}),
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": None},
         {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}),
        (OPENAI,
         {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, "cached_tokens": 3,
          "reasoning_tokens": 2}),
        ({"input_tokens": 10, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 3}},
         {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, "cached_tokens": 3}),
        # Anthropic counts what was in its cache apart, Gemini its thoughts.
        ({"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 7,
          "cache_creation_input_tokens": 2},
         {"prompt_tokens": 19, "completion_tokens": 4, "total_tokens": 23, "cached_tokens": 7,
          "cache_write_tokens": 2}),
        ({"inputTokens": 10, "outputTokens": 4, "totalTokens": 23, "cacheReadInputTokens": 7,
          "cacheWriteInputTokens": 2},
         {"prompt_tokens": 19, "completion_tokens": 4, "total_tokens": 23, "cached_tokens": 7,
          "cache_write_tokens": 2}),
        ({"prompt_tokens": 19, "completion_tokens": 4,
          "prompt_tokens_details": {"cache_write_tokens": 2}},
         {"prompt_tokens": 19, "completion_tokens": 4, "total_tokens": 23,
          "cache_write_tokens": 2}),
        (GEMINI,
         {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20, "reasoning_tokens": 6}),
        (Model(), {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}),
        (Counted(),
         {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, "cost": 0.5}),
        ({"inputTokens": 10, "outputTokens": 4, "totalTokens": 14},
         {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}),
    ],
)  # fmt: skip
def test_usage_is_taken_as_the_client_gives_it(tmp_path, caplog, said, used):
    for line in answered_with(tmp_path, lambda q: Output(q, usage=said)):
        assert line["_limpet"]["usage"] == used
    assert not warnings_in(caplog)


def test_usage_by_model_in_a_mapping_is_priced(tmp_path):
    said = {"prompt_tokens": 1000, "models": {"big": {"prompt_tokens": 1000}}, "times": {"x": 1.5}}
    told = answered_with(tmp_path, lambda q: Output(q, usage=said), prices={"big": {"prompt": 2.0}})
    facts = told[0]["_limpet"]
    assert facts["usage"]["cost"] == pytest.approx(0.002)
    assert facts["models"] == {"big": {"prompt_tokens": 1000}}
    assert facts["times"] == {"x": 1.5}


@pytest.mark.parametrize(
    "said",
    [
        SimpleNamespace(prompt_tokens=1000, completion_tokens=100, total_tokens=1100),
        SimpleNamespace(input_tokens=900, output_tokens=100, cache_read_input_tokens=100),
        {"prompt_token_count": 1000, "candidates_token_count": 60, "thoughts_token_count": 40},
    ],
)
def test_a_clients_own_usage_is_priced_by_the_model_it_stands_under(tmp_path, said):
    prices = {"big": {"prompt": 1000, "completion": 1000}, "other": {"prompt": 1}}
    usage = {"models": {"big": said}}
    told = answered_with(tmp_path, lambda q: Output(q, usage=usage), prices=prices)
    facts = told[0]["_limpet"]["usage"]
    assert facts["total_tokens"] == 1100
    assert facts["cost"] == pytest.approx(1.1)


def test_the_usage_of_two_clients_for_one_answer_adds_up(tmp_path):
    small = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    usage = {"models": {"small": small, "large": {"input_tokens": 100, "output_tokens": 20}}}
    told = answered_with(tmp_path, lambda q: Output(q, usage=usage))
    assert told[0]["_limpet"]["usage"]["total_tokens"] == 135


class Raising:
    def __getattr__(self, name):
        if name.startswith("__"):  # pytest asks for some of these
            raise AttributeError(name)
        raise SystemExit(f"no {name}")


class RaisingMapping(dict):
    def get(self, *_):
        raise RuntimeError("no")

    def __len__(self):
        raise RuntimeError("no")


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "said",
    [
        {"prompt_tokens": "10"},
        {"prompt_tokens": -1},
        {"prompt_tokens": math.nan},
        {"prompt_tokens": 10**400},
        {"prompt_tokens": True},
        {"something": 1},
        Usage("10", "4"),
        Usage(1, 2, cost="much"),
        Usage(1, 2, models=[1]),
        Usage(1, 2, models={"big": {"prompt_tokens": "x"}}),
        Usage(1, 2, times={"runtime": math.inf}),
        Raising(),
        RaisingMapping(a=1),
        object(),
        "12 tokens",
        7,
    ],
)
def test_usage_that_is_none_costs_that_part_and_one_warning(tmp_path, caplog, said):
    prices = {"*": {"prompt": 1.0}}
    told = answered_with(tmp_path, lambda q: Output(q, usage=said), prices=prices)
    for line in told:
        assert all(type(one) in (int, float) for one in line["_limpet"].get("usage", {}).values())
    (said_once,) = warnings_in(caplog)
    assert "usage" in said_once.message
    events = (tmp_path / "run/events.jsonl").read_text()
    assert events.count('"left_out"') == 1


def test_a_wrong_count_costs_no_right_one(tmp_path):
    told = answered_with(
        tmp_path, lambda q: Output(q, usage={"prompt_tokens": 3, "completion_tokens": "x"})
    )
    assert told[0]["_limpet"]["usage"]["prompt_tokens"] == 3


# ---- traces -------------------------------------------------------------------------------------


def cyclic():
    step = {"name": "search"}
    step["self"] = [step, step]
    return step


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "trace",
    [
        5,
        "trace",
        b"trace",
        {"name": "search"},
        {"a", "b"},
        (one for one in "ab"),
        object(),
        Raising(),
    ],
)
def test_a_trace_that_is_no_list_costs_the_trace_and_one_warning(tmp_path, caplog, trace):
    for line in answered_with(tmp_path, lambda q: Output(q, trace=trace)):
        assert line["trace"] == []
    (said_once,) = warnings_in(caplog)
    assert "trace" in said_once.message


@pytest.mark.parametrize("odd", [object(), Raising(), cyclic(), lambda: 1, [object()]])
def test_what_has_no_json_form_in_a_step_is_shown_as_text_and_the_rest_is_kept(
    tmp_path, caplog, odd
):
    trace = [{"name": "search", "odd": odd}, {"name": "answer"}]
    for line in answered_with(tmp_path, lambda q: Output(q, trace=trace)):
        assert [one["name"] for one in line["trace"]] == ["search", "answer"]
    assert len(warnings_in(caplog)) == 1


def test_nan_models_and_tuples_in_steps_are_kept(tmp_path, caplog):
    trace = ({"score": math.nan}, Model(), (1, 2))
    (line, *_) = answered_with(tmp_path, lambda q: Output(q, trace=trace))
    assert line["trace"][0] == {"score": "~float:nan"}
    assert line["trace"][1]["prompt_tokens"] == 10
    assert not warnings_in(caplog)


# ---- the Output itself --------------------------------------------------------------------------


class Late(Output):
    """Whose usage, trace and metadata raise."""

    @property
    def usage(self):
        raise KeyError("usage")

    @property
    def trace(self):
        raise SystemExit("trace")

    @property
    def metadata(self):
        raise ValueError("metadata")

    def __init__(self, value):
        object.__setattr__(self, "value", value)


def test_an_output_subclass_whose_parts_raise_keeps_its_answer(tmp_path, caplog):
    answered_with(tmp_path, Late)
    assert len(warnings_in(caplog)) == 3


def test_an_output_in_an_output_is_one_output(tmp_path):
    told = answered_with(
        tmp_path,
        lambda q: Output(Output(q, usage={"prompt_tokens": 2}, trace=[{"name": "in"}]), trace=[]),
    )
    assert told[0]["_limpet"]["usage"]["prompt_tokens"] == 2
    assert told[0]["trace"] == [{"name": "in"}]


class Own(limpet.Workflow):
    """A workflow of the user's own that returns plain values, as functions may."""

    name, endpoint = "own", "own"
    fingerprint = {"own": "1"}  # noqa: RUF012 - as users write it

    def seen(self, item):
        return item.input

    async def open(self):
        pass

    async def call(self, item):
        return item.input

    async def close(self):
        pass


def test_a_workflow_of_ones_own_may_return_a_plain_value(tmp_path):
    result = limpet.evaluate(ROWS, Own(), [limpet.exact_match()], run=tmp_path / "run")
    assert result.summary["scores"]["exact_match"]["mean"] == 1.0


def test_an_answer_that_cannot_be_stored_is_a_failure_and_never_nothing(tmp_path):
    told = []
    result = limpet.evaluate(
        FEW,
        lambda question: Output(object(), usage={"prompt_tokens": 1}),
        [limpet.exact_match()],
        run=tmp_path / "run",
        version="1",
        watcher=lambda one: told.append(one.status),
    )
    assert result.summary["workflow"]["failed"] == {"encoding": len(FEW)}
    failures = lines(tmp_path / "run", "failures")
    assert {one["error"]["class"] for one in failures} == {"encoding"}
    assert told == ["failed"] * len(FEW)


# ---- whoever looks on ---------------------------------------------------------------------------


class RaisingWatcher(limpet.types.Watcher):
    def started(self, cell, attempt):
        raise RuntimeError("started")

    def attempt_failed(self, cell, met):
        raise RuntimeError("attempt_failed")

    def finished(self, outcome):
        raise RuntimeError("finished")


def fail(*_):
    raise RuntimeError("looking on failed")


def leave(*_):
    raise SystemExit(3)


@pytest.mark.parametrize("how", [fail, leave])
def test_a_function_that_watches_and_raises_costs_no_answer_and_no_score(tmp_path, how):
    answered_with(tmp_path, str, [limpet.exact_match()], watcher=how)
    assert len(lines(tmp_path / "run", "exact_match_output")) == len(ROWS)


def test_a_watcher_that_raises_once_it_runs_costs_no_answer_and_no_score(tmp_path):
    watcher = RaisingWatcher()
    answered_with(tmp_path, str, [limpet.exact_match()], watcher=watcher)
    assert len(lines(tmp_path / "run", "exact_match_output")) == len(ROWS)


def test_prices_that_raise_cost_the_cost_and_not_the_answer(tmp_path):
    class Prices(dict):
        def get(self, *_):
            raise RuntimeError("no prices today")

    prices = Prices(big={"prompt": 1.0})
    answered_with(tmp_path, lambda q: Output(q, usage=Usage(1, 1)), prices=prices)


def test_a_record_that_cannot_be_made_is_a_failure_and_never_nothing(tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("limpet.run.executing.steps.answer_record", broken)
    result = limpet.evaluate(FEW, same, run=tmp_path / "run", version="1")
    assert result.summary["workflow"]["failed"] == {"encoding": len(FEW)}
    messages = [one["error"]["message"] for one in lines(tmp_path / "run", "failures")]
    assert len(messages) == len(FEW)
    assert all("a fault of ours" in one for one in messages)


# ---- scores and maps ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "score",
    [
        Score(0.5, explanation=["because"]),
        Score(0.5, explanation=object()),
        Score(0.5, metadata=object()),
        Score(0.5, metadata={"why": Raising(), "n": 1}),
        Score(0.5, metadata=math.nan),
    ],
)
def test_what_is_wrong_beside_a_score_costs_no_score(tmp_path, score):
    def mine(output):
        return score

    result = limpet.evaluate(ROWS, same, [mine], run=tmp_path / "run", version="1", retry=0)
    assert result.summary["scores"]["mine"]["mean"] == 0.5
    assert len(lines(tmp_path / "run", "mine_output")) == len(ROWS)


@pytest.mark.parametrize(
    ("returned", "completed"), [(0.5, 4), ({"score": 0.5}, 4), (None, 0), (object(), 0)]
)
def test_an_evaluator_of_ones_own_gives_a_score_or_fails(tmp_path, returned, completed):
    class Mine(limpet.Evaluator):
        name, endpoint = "mine", None
        fingerprint = {"mine": "1"}  # noqa: RUF012 - as users write it

        async def call(self, scored):
            return returned

    result = limpet.evaluate(FEW, same, [Mine()], run=tmp_path / "run", version="1", retry=0)
    mine = result.summary["evaluators"]["mine"]
    assert (mine["completed"], sum(mine["failed"].values())) == (completed, 4 - completed)


def test_a_map_records_each_output_or_its_failure(tmp_path):
    path = tmp_path / "out.jsonl"

    class Unequal(dict):
        def items(self):
            raise RuntimeError("no")

    def give(one):
        return object() if one["n"] == 2 else one["n"]

    inputs = [{"n": 0}, {"n": 1}, {"n": 2}, Unequal(n=3)]
    result = limpet.map(give, inputs, journal=path, key=lambda one: one["n"], watcher=fail)
    assert result.outputs[:2] == [0, 1]
    assert result.outputs[3] == 3
    assert [one.index for one in result.failures] == [2]
    assert len(path.read_bytes().splitlines()) == 3


def test_a_label_that_is_no_text_costs_nobody_the_value(tmp_path):
    calls = []

    def judge(output):
        calls.append(output)
        return limpet.Score(0.5, label=5)

    rows = [{"id": "a", "question": "q"}]
    for _ in range(2):
        result = limpet.evaluate(
            rows, lambda question: "x", {"judge": judge}, run=tmp_path / "run", version="1"
        )
    assert len(calls) == 1
    assert result.summary["scores"]["judge"]["mean"] == 0.5
    assert result.summary["scores"]["judge"]["labels"] == {"5": 1}
