"""A mistake of the code is tried once more at most; what a provider says is judged as ever."""

import asyncio
import json
from collections import Counter

import pytest

import limpet
from limpet.executors.retry import Backoff
from limpet.run.executing.guards import is_mistake

ROWS = [{"id": "q1", "question": "a", "answer": "a"}]
AT_ONCE = Backoff(base_s=0)
MISTAKES = [
    TypeError("x"),
    KeyError("choices"),
    IndexError("list index out of range"),
    AttributeError("x"),
    AssertionError(),
    ZeroDivisionError("x"),
    NotImplementedError(),
    RecursionError("x"),
    FileNotFoundError(2, "no such file"),
    ExceptionGroup("two", [KeyError("a"), TypeError("b")]),
]


def raise_(error):
    raise error


def raised(function):
    with pytest.raises(Exception) as caught:
        function()
    return caught.value


def evaluated(tmp_path, workflow, evaluators=(), **options):
    return limpet.evaluate(
        ROWS,
        workflow,
        evaluators,
        run=tmp_path / "run",
        version="1",
        **{"retry": limpet.Retry(backoff=AT_ONCE), **options},
    )


@pytest.mark.parametrize("error", MISTAKES, ids=repr)
def test_a_workflows_mistake_is_tried_once_more_and_no_further(tmp_path, error):
    tried = []

    async def workflow(question):
        tried.append(question)
        raise error

    result = evaluated(tmp_path, workflow)
    assert len(tried) == 2
    assert result.summary["workflow"]["failed"] == {"mistake": 1}


@pytest.mark.parametrize("error", [NameError("x"), ImportError("x"), SyntaxError("x")], ids=repr)
def test_a_mistake_that_no_try_can_mend_is_not_tried_again(tmp_path, error):
    tried = []

    def workflow(question):
        tried.append(question)
        raise error

    assert evaluated(tmp_path, workflow).summary["workflow"]["failed"] == {"permanent": 1}
    assert len(tried) == 1


def test_an_evaluators_mistake_is_judged_by_the_same_rule(tmp_path):
    tried = Counter()

    def slips(output):
        tried["slips"] += 1
        return {}["missing"]

    def parses(output):
        tried["parses"] += 1
        return json.loads("{")

    evaluated(tmp_path, str.upper, [slips, parses], retry=limpet.Retry(3, AT_ONCE), pace=1)
    assert tried == {"slips": 2, "parses": 4}


@pytest.mark.parametrize("journal", [None, "out.jsonl"])
def test_map_has_the_same_rule(tmp_path, journal):
    tried = []

    def fn(one):
        tried.append(one)
        return {}["choices"]

    path = None if journal is None else tmp_path / journal
    result = limpet.map(fn, [1, 2], journal=path, retry=limpet.Retry(backoff=AT_ONCE))
    assert sorted(tried) == [1, 1, 2, 2]
    assert len(result.failures) == 2


def test_what_may_pass_with_the_next_answer_is_tried_as_often_as_before(tmp_path):
    tried = []

    def workflow(question):
        tried.append(question)
        return json.loads("I think the answer is 4")

    result = evaluated(tmp_path, workflow, retry=3, pace=1)
    assert len(tried) == 4
    assert result.summary["workflow"]["failed"] == {"transient": 1}


def test_one_odd_response_is_forgiven(tmp_path):
    answers = iter([{"error": "overloaded"}, {"choices": "A"}])
    result = evaluated(tmp_path, lambda question: next(answers)["choices"])
    assert result.items[0].output.value == "A"


def test_a_mistake_is_not_kept_for_a_second_pass(tmp_path):
    tried = Counter()

    async def workflow(question):
        tried[question] += 1
        if question == "b":
            return {}["choices"]
        return question

    rows = [{"id": one, "question": one} for one in "abc"]
    limpet.evaluate(
        rows,
        workflow,
        run=tmp_path / "run",
        version="1",
        retry=limpet.Retry(backoff=AT_ONCE),
        pace="auto",
    )
    assert tried == {"a": 1, "b": 2, "c": 1}


def test_a_mistake_after_other_failures_has_its_one_more_try(tmp_path):
    met = iter([ConnectionError("reset"), ConnectionError("reset"), KeyError("a"), KeyError("a")])
    tried = []

    def workflow(question):
        tried.append(question)
        raise next(met)

    result = evaluated(tmp_path, workflow, pace=1)
    assert len(tried) == 4
    assert result.summary["workflow"]["failed"] == {"mistake": 1}


def test_no_retries_means_none(tmp_path):
    tried = []

    def workflow(question):
        tried.append(question)
        return {}["choices"]

    evaluated(tmp_path, workflow, retry=0)
    assert len(tried) == 1


@pytest.mark.parametrize(("said", "many"), [("transient", 4), ("permanent", 1), (None, 2)])
def test_the_users_own_classify_goes_first(tmp_path, said, many):
    tried = []

    def workflow(question):
        tried.append(question)
        return {}["choices"]

    evaluated(
        tmp_path, workflow, retry=limpet.Retry(max_retries=3, classify=lambda _: said), pace=1
    )
    assert len(tried) == many


def test_a_classify_that_cannot_be_called_is_refused(tmp_path):
    with pytest.raises(TypeError, match="classify"):
        evaluated(tmp_path, str.upper, retry=limpet.Retry(classify="transient"))
    with pytest.raises(TypeError, match="classify"):
        limpet.map(str.upper, ["a"], retry=limpet.Retry(classify="transient"))


def test_an_output_that_cannot_be_stored_is_not_asked_for_again(tmp_path):
    tried = []

    class Endless(dict):
        def items(self):
            raise ValueError("cannot be read")

    def workflow(question):
        tried.append(question)
        return Endless(a=1)

    result = evaluated(tmp_path, workflow)
    assert result.summary["workflow"]["failed"] == {"encoding": 1}
    assert len(tried) == 1


def test_the_executors_keep_their_contract():
    tried = []

    async def fn(one):
        tried.append(one)
        return {}["choices"]

    executor = limpet.AsyncExecutor(fn, exit_on_error=False, max_retries=3, backoff=AT_ONCE)
    asyncio.run(executor.execute([1]))
    assert len(tried) == 4


def test_a_plain_executor_too_may_be_told_of_mistakes():
    tried = []

    def fn(one):
        tried.append(one)
        raise OSError

    executor = limpet.SyncExecutor(
        fn, exit_on_error=False, classify=lambda _: "mistake", backoff=AT_ONCE
    )
    executor.run([1])
    assert len(tried) == 2


# ---- which ---------------------------------------------------------------------------------------


class StatusError(LookupError):
    status_code = 503


def from_a_timeout():
    try:
        raise TimeoutError
    except TimeoutError as error:
        raise KeyError("choices") from error


def while_handling_a_timeout():
    try:
        raise TimeoutError
    except TimeoutError:
        raise KeyError("choices")  # noqa: B904 - that is the case


def after_a_timeout():
    try:
        raise TimeoutError
    except TimeoutError:
        raise KeyError("choices") from None


def while_handling_a_missing_module():
    try:
        raise ImportError
    except ImportError:
        raise KeyError("choices")  # noqa: B904 - that is the case


@pytest.mark.parametrize(
    "function",
    [
        lambda: raise_(StatusError()),
        lambda: raise_(ValueError("x")),
        lambda: raise_(json.JSONDecodeError("x", "y", 0)),
        lambda: raise_(UnicodeDecodeError("utf-8", b"x", 0, 1, "y")),
        lambda: raise_(OSError("x")),
        lambda: raise_(limpet.TransientError("x")),
        lambda: raise_(RuntimeError("x")),
        lambda: raise_(ExceptionGroup("two", [KeyError("a"), TimeoutError()])),
        lambda: raise_(ExceptionGroup("two", [KeyError("a"), ValueError("b")])),
        from_a_timeout,
        while_handling_a_timeout,
    ],
)
def test_what_may_pass_is_no_mistake(function):
    assert not is_mistake(raised(function))


@pytest.mark.parametrize("function", [after_a_timeout, while_handling_a_missing_module])
def test_what_was_left_behind_does_not_excuse_a_mistake(function):
    assert is_mistake(raised(function))


def test_a_circle_of_exceptions_is_judged_all_the_same():
    one, other = KeyError("a"), KeyError("b")
    one.__context__, other.__context__ = other, one
    assert is_mistake(one)
    group = KeyError("a")
    for _ in range(5_000):
        group = ExceptionGroup("x", [group])
    assert not is_mistake(group)
