"""Each call has its own item: no other call sees its changes, and no record holds them."""

import datetime as dt
import json
import threading
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

import limpet
from limpet import Item, Output
from limpet.copies import own_containers, own_copy

ROWS = [
    {"id": f"q{n}", "messages": [{"role": "user", "content": f"Say {n}"}], "answer": [f"{n}"]}
    for n in range(3)
]
AT_ONCE = limpet.executors.Backoff(0.001, 0.001)


def dataset(given):
    return limpet.Dataset(given, input="messages", expected="answer")


def rows():
    return json.loads(json.dumps(ROWS))


def lines(run, name="workflow_output"):
    return [json.loads(one) for one in (run / f"{name}.jsonl").read_bytes().splitlines()]


# ---- workflows ----------------------------------------------------------------------------------


class Spoiler:
    """Changes all it is given, and fails every other time."""

    def __init__(self):
        self.seen = []

    def spoil(self, messages, answer=None):
        self.seen.append(len(messages))
        messages.append({"role": "assistant", "content": "spoilt"})
        messages[0]["content"] = "spoilt"
        if answer is not None:
            answer.append("spoilt")
        if len(self.seen) % 2:
            raise limpet.TransientError("again")
        return messages

    def plain(self):
        return lambda messages: self.spoil(messages)

    def asynchronous(self):
        async def flow(messages):
            return self.spoil(messages)

        return flow

    def by_name(self):
        return lambda messages, answer: self.spoil(messages, answer)

    def of_item(self):
        return lambda item: self.spoil(item.input, item.expected) and item.row["messages"]

    def of_class(self):
        spoiler = self

        class Agent:
            def __call__(self, messages):
                return spoiler.spoil(messages)

        return Agent

    def own_workflow(self):
        return OwnWorkflow(self)


class OwnWorkflow(limpet.Workflow):
    name, endpoint = "own", "own"
    fingerprint = {"own": "1"}  # noqa: RUF012 - as users write it

    def __init__(self, spoiler):
        self.spoiler = spoiler

    def seen(self, item):
        return item.input

    async def open(self):
        pass

    async def call(self, item):
        return Output(self.spoiler.spoil(item.input, item.expected))

    async def close(self):
        pass


@pytest.mark.parametrize(
    "kind", ["plain", "asynchronous", "by_name", "of_item", "of_class", "own_workflow"]
)
def test_every_attempt_and_trial_gets_the_item_as_it_is(tmp_path, kind):
    spoiler, given = Spoiler(), rows()
    limpet.evaluate(
        dataset(given),
        getattr(spoiler, kind)(),
        run=tmp_path / "run",
        trials=3,
        pace=1,
        version="1",
        retry=limpet.Retry(backoff=AT_ONCE),
    )
    assert spoiler.seen == [1] * 18
    assert given == ROWS
    told = lines(tmp_path / "run")
    assert len(told) == 9
    for line in told:
        assert line["row"]["messages"] == [{"role": "user", "content": f"Say {line['id'][1]}"}]
        assert line["row"]["answer"] == [line["id"][1]]
        assert len(line["output"]) == 2


def test_what_a_workflow_changes_after_it_returned_is_not_recorded_or_scored(tmp_path):
    shared = {"answers": []}

    def answer(messages):
        shared["answers"].append(len(shared["answers"]) + 1)
        return shared

    scored = []

    def count(output):
        scored.append(len(output["answers"]))
        return 1

    result = limpet.evaluate(
        dataset(rows()), answer, [count], run=tmp_path / "run", version="1", pace=1
    )
    told = sorted(len(one["output"]["answers"]) for one in lines(tmp_path / "run"))
    assert told == sorted(scored) == [1, 2, 3]
    assert sorted(len(one.output.value["answers"]) for one in result.items) == [1, 2, 3]


# ---- evaluators ---------------------------------------------------------------------------------


class OwnEvaluator(limpet.Evaluator):
    name, endpoint = "own", None
    fingerprint = {"own": "1"}  # noqa: RUF012 - as users write it

    async def call(self, scored):
        return {"score": limpet.Score(greedy_look(**vars_of(scored)))}


def vars_of(scored):
    names = ("output", "expected", "input", "item", "trace")
    return {name: getattr(scored, name) for name in names}


def greedy_look(output, expected, input, item, trace):  # noqa: A002 - the contract's word
    """Score how much of it is as it should be, and spoil all of it."""
    right = [
        output == {"said": ["x"]},
        len(expected) == 1,
        len(input) == 1,
        len(item.row["messages"]) == len(item.row["answer"]) == 1,
        trace == [{"name": "think"}],
    ]
    output["said"].append("spoilt")
    expected.append("spoilt")
    input.append("spoilt")
    item.row["messages"].append("spoilt")
    item.row["more"] = "spoilt"
    item.expected.append("spoilt")
    trace.append("spoilt")
    trace[0]["name"] = "spoilt"
    return sum(right) / len(right)


async def greedy_async(output, expected, input, item, trace):  # noqa: A002
    return greedy_look(output, expected, input, item, trace)


def of_all(**everything):
    return greedy_look(**everything)


def test_no_evaluator_sees_what_another_changed_and_no_record_holds_it(tmp_path):
    failed_once = set()

    def greedy(output, expected, input, item, trace):  # noqa: A002
        found = greedy_look(output, expected, input, item, trace)
        if item.id not in failed_once:
            failed_once.add(item.id)
            raise limpet.TransientError("again")
        return found

    def flow(messages):
        return Output({"said": ["x"]}, trace=[{"name": "think"}])

    evaluators = [greedy, greedy_async, of_all, OwnEvaluator()]
    options = {"run": tmp_path / "run", "version": "1", "retry": limpet.Retry(backoff=AT_ONCE)}
    given = rows()
    result = limpet.evaluate(dataset(given), flow, evaluators, trials=2, **options)
    means = {name: one["mean"] for name, one in result.summary["scores"].items()}
    assert means == {"greedy": 1.0, "greedy_async": 1.0, "of_all": 1.0, "own": 1.0}
    assert given == ROWS
    for line in lines(tmp_path / "run"):
        assert line["output"] == {"said": ["x"]}
        assert line["trace"] == [{"name": "think"}]
        assert "spoilt" not in json.dumps(line)
    again = limpet.evaluate(dataset(rows()), flow, evaluators, trials=2, **options)
    assert again.plan.calls == 0


def test_what_a_hook_changes_is_not_scored(tmp_path):
    def spoil(one):
        one.output.append("spoilt")
        one.input.append("spoilt")
        one.expected.append("spoilt")

    def untouched(output, expected, input):  # noqa: A002
        return len(output) == len(expected) == len(input) == 1

    result = limpet.evaluate(
        dataset(rows()),
        lambda messages: ["x"],
        [untouched],
        run=tmp_path / "run",
        version="1",
        watcher=spoil,
    )
    assert result.summary["scores"]["untouched"]["mean"] == 1.0


# ---- maps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_map_gives_each_attempt_the_input_as_it_is(tmp_path, kept, is_async):
    spoiler = Spoiler()
    fn = spoiler.asynchronous() if is_async else spoiler.plain()
    inputs = [one["messages"] for one in rows()]
    journal = tmp_path / "out.jsonl" if kept else None
    result = limpet.map(fn, inputs, journal=journal, retry=limpet.Retry(backoff=AT_ONCE), pace=1)
    assert spoiler.seen == [1] * 6
    assert inputs == [one["messages"] for one in ROWS]
    assert [len(one) for one in result.outputs] == [2, 2, 2]


def test_what_a_mapped_function_changes_after_it_returned_is_not_recorded(tmp_path):
    shared = []

    def grow(n):
        shared.append(n)
        return shared

    path = tmp_path / "out.jsonl"
    result = limpet.map(grow, [1, 2, 3], journal=path, pace=1)
    assert result.outputs == [[1], [1, 2], [1, 2, 3]]


def test_a_map_hands_over_objects_as_they_are():
    things = [threading.Lock(), object()]
    result = limpet.map(lambda one: id(one), things)
    assert result.outputs == [id(one) for one in things]


# ---- copying ------------------------------------------------------------------------------------


@dataclass
class Thing:
    parts: list = field(default_factory=list)


def test_a_copy_is_equal_and_shares_nothing_that_can_change():
    row = {
        "texts": ["a", ("b", ["c"])],
        "numbers": {"n": 1, "x": 1.5, "d": Decimal("1.5"), "t": dt.datetime(2026, 1, 1)},  # noqa: DTZ001
        "thing": Thing([1]),
        "set": {1, 2},
    }
    item = Item("q", row["texts"], row["thing"], row)
    own = own_copy(item)
    assert own == item
    assert own.input is own.row["texts"]
    own.row["texts"][1][1].append("spoilt")
    own.row["thing"].parts.append(2)
    own.row["set"].add(3)
    own.row["numbers"]["n"] = 2
    assert row["texts"] == ["a", ("b", ["c"])]
    assert row["thing"] == Thing([1])
    assert row["set"] == {1, 2}
    assert row["numbers"]["n"] == 1


def test_what_cannot_be_copied_is_handed_over_as_it_is():
    class Stubborn:
        def __deepcopy__(self, _memo):
            raise SystemExit(1)

    stubborn, lock = Stubborn(), threading.Lock()
    own = own_copy({"stubborn": stubborn, "lock": lock, "list": [1]})
    assert own["stubborn"] is stubborn
    assert own["lock"] is lock


def test_a_value_that_holds_itself_or_is_very_deep_can_be_copied():
    loop = [1]
    loop.append(loop)
    own = own_copy(loop)
    assert own is not loop
    assert own[1] is own
    deep = []
    for _ in range(5_000):
        deep = [deep]
    assert own_copy(deep)
    assert own_containers(deep)
