"""A class of the user's own is a workflow or an evaluator, with all that a run asks of it."""

import ast
import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

import limpet
from limpet import Output, Score, Usage
from limpet.pacing import endpoint
from limpet.run.api import Arguments, evaluate_prepared
from limpet.run.reading import RunReader

RUN_ROOM = Path(limpet.__file__).parent / "run"
ROWS = [{"id": str(n), "question": f"q{n}", "answer": f"q{n}", "note": "-"} for n in range(6)]
AT_ONCE = limpet.executors.Backoff(0.001, 0.001)


async def answer(question):
    return question


class Judge(limpet.Evaluator):
    """Tells its story."""

    name = "judge"
    fingerprint = {"model": "x"}  # noqa: RUF012 - as users write it

    def __init__(self, opening=None, scoring=None, closing=None):
        self.story = []
        self._doing = {"open": opening, "call": scoring, "close": closing}

    async def _do(self, what):
        self.story.append(what)
        if self._doing[what] is not None:
            await self._doing[what]()

    async def open(self):
        self.task = asyncio.current_task()
        await self._do("open")

    async def call(self, scored):
        await self._do("call")
        return {"score": Score(scored.output == scored.expected)}

    async def close(self):
        assert asyncio.current_task() is self.task
        await self._do("close")


def evaluate(run, evaluators, workflow=answer, rows=ROWS, **options):
    options = {"version": "1", "retry": limpet.Retry(backoff=AT_ONCE), **options}
    return limpet.evaluate(rows, workflow, evaluators, run, **options)


async def fail():
    raise LookupError("no such model")


# ---- what they have -----------------------------------------------------------------------------


def test_a_class_with_every_member_needs_no_base(tmp_path):
    class Flow:
        name, endpoint, fingerprint, secrets = "flow", None, {"x": "1"}, ()
        answered_before, sees_files, concurrency = False, False, None

        def seen(self, item):
            return item.input

        async def open(self):
            pass

        async def call(self, item):
            return Output(item.input)

        async def close(self):
            pass

    class Same:
        name, endpoint, fingerprint, secrets = "same", None, {"x": "1"}, ()
        reads = ("output", "expected")

        async def open(self):
            pass

        async def call(self, scored):
            return {"score": Score(scored.output == scored.expected)}

        async def close(self):
            pass

    class Scaled(Same):
        scale = limpet.types.Scale()  # the only member that a class may leave out

    assert isinstance(Flow(), limpet.Workflow)
    assert isinstance(Scaled(), limpet.Evaluator)
    result = limpet.evaluate(ROWS, Flow(), [Same()], tmp_path / "run")
    assert result.summary["scores"]["same"]["mean"] == 1.0


def test_what_is_missing_is_named_with_what_it_is_for(tmp_path):
    class Flow:
        name = "flow"

        async def call(self, item):
            return Output(item.input)

    with pytest.raises(
        limpet.LimpetError, match=r"no fingerprint \(a dict.*no seen \(returns"
    ) as e:
        limpet.evaluate(ROWS, Flow(), [], tmp_path / "run")
    assert "subclass of limpet.Workflow" in e.value.hint


def test_the_base_has_defaults_for_all_but_three(tmp_path):
    class Flow(limpet.Workflow):
        name, fingerprint = "flow", {"x": "1"}

        async def call(self, item):
            return Output(item.row["question"])

    run = tmp_path / "run"
    assert evaluate(run, [Judge()], Flow()).summary["scores"]["judge"]["mean"] == 1.0
    edited = [{**row, "note": "!"} for row in ROWS]  # it sees the whole item
    assert limpet.plan(edited, Flow(), [Judge()], run).workflow.calls == 6


def test_the_room_of_runs_asks_nothing_of_implementations():
    """Who implements what is for the protocols: no look at classes, no attribute by its name."""
    kinds = {"BuiltIn", "FunctionEvaluator", "FunctionWorkflow", "ClassWorkflow", "RemoteWorkflow"}
    kinds |= {"Workflow", "Evaluator", "CodeStep"}
    steps = {"workflow", "evaluator", "evaluators", "step", "steps", "target", "flow"}
    for file in RUN_ROOM.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                names = [one.id for one in ast.walk(call) if isinstance(one, ast.Name)]
                names += [one.attr for one in ast.walk(call) if isinstance(one, ast.Attribute)]
                if call.func.id in ("isinstance", "issubclass"):
                    assert not kinds & set(names), f"{file}:{call.lineno}"
                elif call.func.id in ("hasattr", "getattr"):
                    first = ast.unparse(call.args[0]).lstrip("_").rpartition(".")[2].lstrip("_")
                    assert first not in steps, f"{file}:{call.lineno}"


# ---- opened and closed --------------------------------------------------------------------------


def test_an_evaluator_is_opened_once_before_its_calls_and_closed_after_them(tmp_path):
    judge = Judge()
    evaluate(tmp_path / "run", [judge])
    assert judge.story == ["open", *["call"] * 6, "close"]
    evaluate(tmp_path / "run", [judge])
    assert len(judge.story) == 8  # nothing is left to do


def test_an_evaluator_is_opened_where_only_scores_are_missing(tmp_path):
    evaluate(tmp_path / "run", [])
    judge = Judge()
    evaluate(tmp_path / "run", [judge])
    assert (judge.story[0], judge.story[-1], len(judge.story)) == ("open", "close", 8)


def test_an_evaluator_that_cannot_be_opened_is_said_before_anything_is_asked(tmp_path):
    asked, first = [], Judge()
    second = Judge(fail)
    second.name = "second"
    with pytest.raises(limpet.errors.SetupError, match="second could not be set up.*no such model"):
        evaluate(tmp_path / "run", [first, second], lambda question: asked.append(question))
    assert (asked, first.story, second.story) == ([], ["open", "close"], ["open"])


@pytest.mark.parametrize("raised", [LookupError("broken"), SystemExit(3)])
def test_an_evaluator_is_closed_when_its_calls_fail(tmp_path, raised):
    async def break_down():
        raise raised

    judge = Judge(scoring=break_down)
    result = evaluate(tmp_path / "run", [judge], fail_fast=False)
    assert result.summary["evaluators"]["judge"]["failed"] == {"evaluator": 6}
    assert judge.story[-1] == "close"


@pytest.mark.parametrize("when", ["opening", "scoring"])
def test_an_evaluator_is_closed_after_an_interrupt(tmp_path, when):
    sent = []

    async def interrupt():
        if not sent:  # a third signal would end the process
            sent.append(os.kill(os.getpid(), signal.SIGTERM))
        await asyncio.sleep(600)

    judge = Judge(**{when: interrupt})
    result = evaluate_prepared(
        Arguments(ROWS, answer, [judge], tmp_path / "run", stop_grace_s=0.01)
    )
    assert isinstance(result.stop_reason, limpet.errors.InterruptedRunError)
    assert judge.story[-1] == "close"


def test_every_evaluator_is_closed_when_the_run_is_cancelled(tmp_path):
    async def main():
        begun = asyncio.Event()

        async def wait():
            begun.set()
            await asyncio.sleep(600)

        judges = [Judge(scoring=wait), Judge(closing=lambda: asyncio.sleep(0))]
        judges[1].name = "second"
        run = limpet.aevaluate(ROWS, answer, judges, tmp_path / "run", version="1")
        task = asyncio.create_task(run)
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [judge.story[-1] for judge in judges] == ["close", "close"]

    asyncio.run(main())


def test_a_closing_that_fails_is_logged_and_costs_nothing(tmp_path, caplog):
    result = evaluate(tmp_path / "run", [Judge(closing=fail)])
    assert result.summary["scores"]["judge"]["mean"] == 1.0
    assert "the evaluator judge failed while closing" in caplog.text


# ---- usage --------------------------------------------------------------------------------------


def test_an_evaluator_may_say_what_it_used(tmp_path):
    async def graded(output):
        return Output({"a": 1, "b": "good"}, usage={"prompt_tokens": 10, "completion_tokens": 2})

    class Own(Judge):
        async def call(self, scored):
            return Output({"score": Score(1)}, usage=Usage(5, 1, cost=0.5))

    run = tmp_path / "run"
    prices = {"*": {"prompt": 1_000_000, "completion": 0}}
    result = evaluate(run, [graded, Own()], prices=prices)
    told = result.summary["evaluators"]
    assert told["graded"]["usage"]["total_tokens"] == 72
    assert told["graded"]["usage"]["cost"] == 60
    assert told["judge"]["usage"]["cost"] == 3
    assert result.summary["workflow"]["usage"] == {}
    lines = map(json.loads, (run / "graded_output.jsonl").read_bytes().splitlines())
    assert {line["_limpet"]["usage"]["prompt_tokens"] for line in lines} == {10}
    with RunReader(run) as reader:
        assert reader.summary()["evaluators"]["judge"]["usage"] == told["judge"]["usage"]
    again = evaluate(run, [graded, Own()], prices=prices)
    assert (again.plan.calls, again.summary) == (0, result.summary)


def test_a_usage_that_cannot_be_read_costs_no_score(tmp_path, caplog):
    def odd(output):
        return Output(1, usage=object(), trace=["x"])

    result = evaluate(tmp_path / "run", [odd])
    assert result.summary["scores"]["odd"]["mean"] == 1.0
    assert "the usage of odd" in caplog.text
    assert "the trace and metadata of odd" in caplog.text


# ---- whom they call -----------------------------------------------------------------------------


def paced(run):
    lines = map(json.loads, (run / "events.jsonl").read_bytes().splitlines())
    return {line["step"]: line.get("endpoint") for line in lines if line["event"] == "pace"}


def test_a_function_has_a_pacer_of_its_own_unless_it_names_another(tmp_path):
    def own(output):
        return 1

    @limpet.evaluator(endpoint="workflow")
    def shared(output):
        return 1

    @limpet.evaluator(endpoint=None)
    def free(output):
        return 1

    run = tmp_path / "run"
    evaluate(run, [own, shared, free, limpet.exact_match()])
    assert paced(run) == {"workflow": "workflow", "own": "own", "shared": "workflow"}


def test_who_calls_nobody_runs_at_a_bounded_number_at_once(tmp_path):
    most = running = 0

    @limpet.evaluator(endpoint=None)
    async def free(output):
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return 1

    rows = [{"id": str(n), "question": f"q{n}"} for n in range(200)]
    evaluate(tmp_path / "run", [free], rows=rows, pace=limpet.Pace(max_concurrency=500))
    assert 1 < most <= 32


def test_a_step_that_calls_several_endpoints_paces_each_call(tmp_path):
    pacers, calls = {}, []

    @limpet.evaluator(endpoint=None)
    async def graded(output):
        from limpet.pacing import registry

        pacers.update({one.key: one for one in registry._current.get()})
        async with endpoint("cheap"):
            cheap = await answer(output)
        async with endpoint("dear"):
            calls.append(output)
            if len(calls) == 1:
                raise limpet.RateLimitError("slow down", retry_after=0.01)
            limpet.pacing.observe(usage={"total_tokens": 7})
        return cheap == output

    result = evaluate(tmp_path / "run", [graded])
    assert result.summary["scores"]["graded"]["mean"] == 1.0
    assert set(pacers) == {"workflow", "cheap", "dear"}
    assert (pacers["dear"].state.refused, pacers["cheap"].state.refused) == (1, 0)
    assert pacers["dear"].state.usage == {"total_tokens": 42}


def test_outside_a_run_an_endpoint_paces_nothing():
    async def main():
        async with endpoint("cheap"):
            return 1

    assert asyncio.run(main()) == 1
