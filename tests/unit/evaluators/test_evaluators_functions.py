"""A user's function is as good an evaluator as a built-in one."""

import asyncio
import functools
import math
import threading
import time
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction

import numpy as np
import pytest

import limpet
from limpet.errors import PermanentError
from limpet.evaluators import Evaluator, Scored, as_evaluator, as_evaluators, exact_match
from limpet.evaluators.coerce import BUILT_INS
from limpet.shapes import Item, Score

RESERVED = ("workflow", "run", "summary", "events", "failures", "map", "output", "Error", "id")
ITEM = Item("q1", "2+2?", "4", {"question": "2+2?", "answer": "4"})
SCORED = Scored(output="four", expected="4", input="2+2?", item=ITEM, trace=("think",))


def call(thing, scored=SCORED, **options):
    options.setdefault("name", "mine")
    return asyncio.run(as_evaluator(thing, **options).call(scored))


def returning(value):
    return call(lambda output: value)


# --- what it sees ---------------------------------------------------------------------------


def test_a_function_sees_what_its_parameters_name():
    seen = {}

    def look(trace, item, output, *, expected, input):  # noqa: A002
        seen.update(trace=trace, item=item, output=output, expected=expected, input=input)
        return 1

    assert call(look) == {"score": Score(1)}
    assert seen == {name: getattr(SCORED, name) for name in seen}


def test_one_parameter_by_another_name_gets_the_output():
    assert call(len)["score"].value == 4
    assert call(lambda answer: answer == "four")["score"].value is True
    assert call(lambda answer, least=3: len(answer) >= least)["score"].value is True
    assert call(lambda *, text: text)["score"].label == "four"
    assert call(float, Scored("1.5"))["score"].value == 1.5


def test_a_default_is_replaced_by_the_field_of_its_name_and_kept_otherwise():
    assert (
        call(lambda output, expected="no", least=2: f"{expected}x{least}")["score"].label == "4x2"
    )


def test_beside_the_output_a_required_parameter_is_a_column():
    assert call(lambda output, question: question)["score"].label == "2+2?"
    assert call(lambda question, output: f"{question}{output}")["score"].label == "2+2?four"
    assert call(lambda output, *, answer: f"is {answer}")["score"].label == "is 4"
    assert call(lambda question, **given: f"{question}{len(given)}")["score"].label == "2+2?5"
    assert call(lambda output, question="mine": question)["score"].label == "mine"
    with pytest.raises(PermanentError, match="has no field 'topic', which the evaluator takes"):
        call(lambda output, topic: topic)


def test_a_column_that_reads_leaves_out_is_refused():
    def on_topic(output, topic):
        return topic in output

    for reads in (["output", "row.topic"], ["output", "row"], None):
        assert limpet.evaluator(reads=reads)(on_topic).needs == {"row.topic"}
    with pytest.raises(TypeError, match=r"takes 'row.topic', but reads=\['output'\] leaves it out"):
        limpet.evaluator(reads=["output"])(on_topic)


def test_keyword_arguments_get_all_five():
    assert call(lambda **given: len(given))["score"].value == 5
    assert call(lambda output, **given: len(given))["score"].value == 4
    assert call(lambda output, /, **given: len(given))["score"].value == 4


def test_parameters_by_position_only_get_their_fields():
    assert call(lambda expected, output, /: f"{expected}{output}")["score"].label == "4four"
    assert call(lambda output, x=1, expected=7, /: expected)["score"].value == 7


def test_what_a_partial_has_bound_stays_bound():
    def same(output, expected):
        return output == expected

    assert call(functools.partial(same, expected="four"))["score"].value is True
    assert call(functools.partial(lambda least, output: len(output) >= least, 4))["score"].value
    bound = functools.partial(lambda **given: ",".join(given.values()), output="x")
    assert call(bound, Scored("a", "b", "c", "d", "e"))["score"].label.startswith("x")


def test_methods_and_objects_are_functions_too():
    class Length:
        def __init__(self, least):
            self.least = least

        def long(self, output):
            return len(output) >= self.least

        def __call__(self, output):
            return self.long(output)

    class Slow:
        async def __call__(self, output, expected):
            await asyncio.sleep(0)
            return f"of {expected}"

    assert call(Length(4).long, name=None) == {"score": Score(value=True)}
    assert as_evaluator(Length(5).long).name == "long"
    assert as_evaluator(Length(5)).name == "Length"
    assert call(Length(5))["score"].value is False
    assert call(Slow())["score"].label == "of 4"


class Unreadable:
    __signature__ = "as of some functions in C"

    def __call__(self, output):
        return 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda answer, expected: 1,
            "mine takes 'answer'.*output, expected, input, item, trace",
        ),
        (lambda expected, lang: 1, r"'lang'.*take the output, too: def mine\(output, lang\)"),
        (lambda item, lang: 1, "'lang'.*take the output, too"),
        (lambda output, lang, /: 1, "'lang'"),
        (lambda inputs: 1, "'inputs'.*did you mean 'input'"),
        (lambda *args: 1, r"takes \*args"),
        (lambda output, *rest: 1, r"takes \*rest"),
        (lambda: 1, "takes no field"),
        (lambda a=1, b=2: 1, "takes no field"),
        (Unreadable(), "cannot be read: wrap it"),
    ],
)
def test_a_function_that_wants_something_else_is_refused_at_once(function, message):
    with pytest.raises(TypeError, match=message):
        as_evaluator(function, name="mine")


# --- where it runs --------------------------------------------------------------------------


def test_a_plain_function_runs_in_a_thread_and_leaves_none_behind():
    before = threading.active_count()
    where = []
    evaluator = as_evaluator(lambda output: where.append(threading.current_thread()) or 1, "mine")

    async def several():
        return await asyncio.gather(*(evaluator.call(SCORED) for _ in range(5)))

    assert len(asyncio.run(several())) == 5
    assert threading.main_thread() not in where
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_while_it_is_open_its_threads_are_used_again():
    where = set()
    evaluator = as_evaluator(lambda output: where.add(threading.get_ident()) or 1, "mine")

    async def one_by_one():
        await evaluator.open()
        for _ in range(5):
            await evaluator.call(SCORED)
        await evaluator.close()

    asyncio.run(one_by_one())
    assert len(where) == 1


def test_an_async_function_runs_on_the_event_loop():
    async def here(output):
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    assert call(here)["score"].value is True
    assert call(functools.partial(here))["score"].value is True
    assert call(lambda output: here(output))["score"].value is True  # awaited here
    assert call(lambda output: asyncio.sleep(0, "done"))["score"].label == "done"


# --- what it returns ------------------------------------------------------------------------


class Grade(StrEnum):
    GOOD = "good"


class Points(Enum):
    TWO = 2


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (1, Score(1)),
        (0, Score(0)),
        (-0.5, Score(-0.5)),
        (True, Score(value=True)),
        ("good", Score(None, label="good")),
        (Score(0.5, explanation="so so"), Score(0.5, explanation="so so")),
        (Score(0.5, explanation=["so", "so"]), Score(0.5, explanation=["so", "so"])),
        (Score(None, label="good"), Score(None, label="good")),
        (Score(label="0.9"), Score(None, label="0.9")),
        (np.float64(0.25), Score(0.25)),
        (np.float32(0.25), Score(0.25)),
        (np.int64(3), Score(3)),
        (np.bool_(True), Score(value=True)),
        (np.array(0.5), Score(0.5)),
        (Score(np.float32(0.5)), Score(0.5)),
        (Fraction(1, 4), Score(0.25)),
        (Decimal("0.25"), Score(0.25)),
        (Grade.GOOD, Score(None, label="good")),
        (Points.TWO, Score(2)),
    ],
)
def test_numbers_bools_labels_and_scores_are_scores(value, score):
    (only,) = returning(value).items()
    assert only == ("score", score)
    assert type(only[1].value) is type(score.value)
    assert type(only[1].label) is type(score.label)


def test_a_dict_is_several_scores_in_its_order():
    scores = returning(
        {"style": 0.5, "correct": True, "tone": "dry", "why": Score(1, explanation="x")}
    )
    assert list(scores.items()) == [
        ("style", Score(0.5)),
        ("correct", Score(value=True)),
        ("tone", Score(None, label="dry")),
        ("why", Score(1, explanation="x")),
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "mine returned None; return a number, a bool, a label, a dict of scores or a Score"),
        (math.nan, "returned nan, which is not a score"),
        (math.inf, "returned inf"),
        (np.float32("nan"), "returned nan"),
        (Decimal("NaN"), "NaN"),
        (Decimal("sNaN"), "NaN"),
        (10**400, "not a score"),
        ("", "empty string"),
        ("0.9", r"mine returned the string '0.9'; return a number, or Score\(label='0.9'\)"),
        (" 1e3 ", "returned the string ' 1e3 '"),
        ("NaN", "returned the string 'NaN'"),
        ({"a": "1"}, "mine, under 'a', returned the string '1'"),
        ([1, 2], r"returned a list \(\[1, 2\]\)"),
        (np.array([1.0]), "returned a ndarray"),
        (1j, "returned a complex"),
        (b"x", "returned a bytes"),
        (object, "returned a type"),
        ({}, "empty dict"),
        ({1: 2}, "the key 1"),
        ({"": 2}, "the key ''"),
        ({"a": None}, "mine, under 'a', returned None"),
        ({"a": {"b": 1}}, "under 'a', returned a dict"),
        ({"a": math.nan}, "under 'a', returned nan"),
        (Score(None), "without a value or a label"),
        (Score(None, explanation="because"), "without a value or a label"),
        (Score(math.nan), "returned nan"),
        (Score("good"), "give a string as label="),
        (Score([1]), "returned a list"),
        (Score(None, label=3), "label=3"),
    ],
)
def test_what_is_no_score_is_an_error_and_never_a_score(value, message):
    with pytest.raises(PermanentError, match=message):
        returning(value)


def test_an_exception_goes_through_as_it_is():
    def broken(output):
        raise KeyError("where")

    async def broken_too(output):
        raise KeyError("there")

    with pytest.raises(KeyError, match="where"):
        call(broken)
    with pytest.raises(KeyError, match="there"):
        call(broken_too)


# --- what it is called ----------------------------------------------------------------------


def my_score(output):
    return 1


def test_a_function_is_called_as_it_calls_itself_or_as_the_user_says():
    assert as_evaluator(my_score).name == "my_score"
    assert as_evaluator(functools.partial(my_score)).name == "my_score"
    assert as_evaluator(my_score, "other-1").name == "other-1"


def test_a_lambda_has_to_be_given_a_name():
    with pytest.raises(ValueError, match="lambda has no name: give it one"):
        as_evaluator(lambda output: 1)


@pytest.mark.parametrize(
    "name",
    [*RESERVED, "Run", "", "a b", "1a", "-a", "ä", "a/b", "..", "a\n"],
)
def test_some_names_cannot_be_had(name):
    with pytest.raises(ValueError, match=r"name=.*another with name="):
        as_evaluator(my_score, name)
    with pytest.raises(ValueError, match="name="):
        exact_match(name=name)
    with pytest.raises(ValueError, match="name="):
        as_evaluators({name: my_score})


def test_a_name_is_a_text():
    with pytest.raises(TypeError, match="name=3"):
        as_evaluator(my_score, 3)


def test_a_list_or_a_dict_of_things_becomes_evaluators():
    assert as_evaluators(None) == as_evaluators([]) == []
    assert [one.name for one in as_evaluators([exact_match(), my_score])] == [
        "exact_match",
        "my_score",
    ]
    named = as_evaluators({"strict": exact_match(), "short": lambda output: len(output) < 9})
    assert [one.name for one in named] == ["strict", "short"]
    assert asyncio.run(named[0].call(Scored("a", "a")))["score"].value is True


def test_two_of_the_same_name_are_an_error():
    with pytest.raises(ValueError, match="two evaluators are called 'my_score': give one"):
        as_evaluators([my_score, my_score])
    with pytest.raises(ValueError, match="'My_Score' and 'my_score'"):
        as_evaluators({"My_Score": my_score, "my_score": my_score})


@pytest.mark.parametrize("things", [my_score, "exact_match", 3, exact_match()])
def test_evaluators_are_a_list_or_a_dict(things):
    with pytest.raises(TypeError, match="must be a list of evaluators"):
        as_evaluators(things)


# --- an evaluator of the user's own ---------------------------------------------------------


class Judge(Evaluator):
    name = "judge"
    fingerprint = {"model": "x"}  # noqa: RUF012
    endpoint = "https://api.example/v1"

    async def call(self, scored):
        return {"score": Score(1)}


def test_an_evaluator_is_taken_as_it_is():
    judge = Judge()
    assert as_evaluator(judge) is judge
    assert isinstance(judge, Evaluator)


def test_an_evaluator_under_another_name_is_otherwise_the_same():
    again = as_evaluator(Judge(), "other")
    assert (again.name, again.fingerprint, again.endpoint) == (
        "other",
        Judge.fingerprint,
        Judge.endpoint,
    )
    assert asyncio.run(again.call(SCORED)) == {"score": Score(1)}
    assert (
        as_evaluator(Judge(), version="2").fingerprint
        == as_evaluator(my_score, version="2").fingerprint
    )
    assert "other" in repr(again)
    assert "my_score" in repr(as_evaluator(my_score))


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (3, "3 is not an evaluator: give a function"),
        ("exact_macth", "is not a built-in evaluator; did you mean 'exact_match'"),
        (Judge, r"Judge is a class: give an instance of it, Judge\(…\)"),
        (
            type("Half", (), {"name": "h", "call": None})(),
            r"no fingerprint \(a dict of strings: .*no reads \(what it reads.*limpet.Evaluator",
        ),
        (type("Odd", (Judge,), {"fingerprint": lambda self: {}})(), "make it a dict"),
    ],
)
def test_what_is_no_evaluator_is_refused_with_the_reason(thing, message):
    with pytest.raises(TypeError, match=message):
        as_evaluator(thing)


def test_a_function_may_say_which_provider_it_calls():
    assert as_evaluator(my_score).endpoint == "my_score"  # its own
    assert as_evaluator(my_score, endpoint=None).endpoint is None
    assert as_evaluator(my_score, endpoint="https://api.example").endpoint == "https://api.example"


# --- what it depends on ---------------------------------------------------------------------


def test_a_functions_fingerprint_is_its_code_or_its_declared_version():
    def a(output):
        return len(output)

    def b(output):
        return len(output) + 1

    assert as_evaluator(a).fingerprint == as_evaluator(a).fingerprint
    assert list(as_evaluator(a).fingerprint.values()) != list(as_evaluator(b).fingerprint.values())
    assert as_evaluator(a, version="1").fingerprint == as_evaluator(b, version="1").fingerprint
    assert as_evaluator(a, version="1").fingerprint != as_evaluator(a, version="2").fingerprint


def test_a_librarys_function_is_told_from_another_by_its_name():
    import textwrap

    one, other = as_evaluator(textwrap.dedent), as_evaluator(len)
    assert one.fingerprint
    assert other.fingerprint
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    "given",
    [[limpet.exact_match], ["exact_match"], {"exact_match": limpet.exact_match}],
)
def test_a_built_in_works_without_parentheses_and_by_its_name(given):
    rows = [{"id": "1", "input": "x", "expected": "x"}]
    result = limpet.evaluate(rows, lambda x: x, given, save=False)
    assert result.summary["scores"]["exact_match"]["mean"] == 1


def test_every_built_in_works_by_its_name():
    names = list(BUILT_INS)
    assert [evaluator.name for evaluator in as_evaluators(names)] == names
    assert [evaluator.name for evaluator in as_evaluators(list(BUILT_INS.values()))] == names


def test_a_built_in_that_is_misspelt_is_refused():
    with pytest.raises(TypeError, match="did you mean 'exact_match'"):
        as_evaluators(["exact"])
