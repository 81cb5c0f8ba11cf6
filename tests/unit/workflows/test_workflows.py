"""What is evaluated: functions, classes, references."""

import asyncio
import functools

import pytest

from limpet import Item, LimpetError, Output, Usage
from limpet.workflows import Workflow, as_workflow

ITEM = Item("q1", "why?", "because", {"id": "q1", "question": "why?", "answer": "because", "n": 3})


def call(workflow, item=ITEM):
    async def main():
        await workflow.open()
        try:
            return await workflow.call(item)
        finally:
            await workflow.close()

    return asyncio.run(main())


async def asynchronous(text):
    return text.upper()


def unnamed(question, /, n=9):
    return question * n


def unnamed_answer(answer, /):
    return answer


def unnamed_item(item, /):
    return item.row["n"]


def plain(question, n):
    return question * n


def whole(item):
    return item.row["n"]


@pytest.mark.parametrize(
    ("function", "value", "seen"),
    [
        (asynchronous, "WHY?", "why?"),
        (plain, "why?why?why?", {"question": "why?", "n": 3}),
        (whole, 3, {"item": ["q1", "why?", "because", dict(ITEM.row)]}),
        (lambda question, n=9: question * n, "why?why?why?", {"question": "why?", "n": 3}),
        (lambda input: input, "why?", "why?"),  # noqa: A006 - the contract's word
        (functools.partial(plain, n=2), "why?why?", {"question": "why?"}),
        (lambda x, mood="calm": x + mood, "why?calm", "why?"),
        (lambda x: asynchronous(x), "WHY?", "why?"),
        (unnamed, "why?why?why?", {"input": "why?", "by_name": {"n": 3}}),
        (unnamed_answer, "because", "because"),
        (unnamed_item, 3, {"input": ["q1", "why?", "because", dict(ITEM.row)], "by_name": {}}),
    ],
)
def test_a_function_gets_the_input_or_the_columns_it_names(function, value, seen):
    workflow = as_workflow(function)
    assert isinstance(workflow, Workflow)
    assert call(workflow) == Output(value)
    assert workflow.seen(ITEM) == seen


def test_a_function_may_say_more_than_a_value():
    output = Output("x", usage=Usage(3, 4), trace=[{"name": "search"}])
    assert call(as_workflow(lambda _: output)) is output


def test_a_column_that_is_not_there_is_named_with_the_nearest():
    with pytest.raises(LimpetError, match="has a parameter 'questions'") as caught:
        call(as_workflow(lambda n, questions: 1))
    assert "did you mean 'question'" in str(caught.value)


def test_a_class_is_set_up_once_and_torn_down():
    story = []

    class Bot:
        async def setup(self):
            story.append("setup")

        def __call__(self, question):
            story.append(question)
            return question

        async def teardown(self):
            story.append("teardown")

    async def main():
        workflow = as_workflow(Bot)
        await workflow.open()
        for _ in range(2):
            await workflow.call(ITEM)
        await workflow.close()

    asyncio.run(main())
    assert story == ["setup", "why?", "why?", "teardown"]


def test_a_class_that_asks_for_it_is_made_anew_for_each_item():
    made = []

    class Bot:
        per_item = True

        def __init__(self):
            made.append(self)
            self.asked = 0

        async def __call__(self, question):
            self.asked += 1
            return self.asked

    async def main():
        workflow = as_workflow(Bot)
        await workflow.open()
        answers = [(await workflow.call(ITEM)).value for _ in range(3)]
        await workflow.close()
        return answers

    assert asyncio.run(main()) == [1, 1, 1]
    assert len(made) == 3


def test_a_reference_is_imported(tmp_path, monkeypatch):
    (tmp_path / "my_flow.py").write_text("def answer(x):\n    return x[::-1]\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert call(as_workflow("my_flow:answer")).value == "?yhw"
    for reference, said in [
        ("my_flow:nothing", "nothing"),
        ("no_such_module:answer", "no_such_module"),
        ("my_flow", "must look like"),
    ]:
        with pytest.raises(LimpetError, match=said):
            as_workflow(reference)


def test_what_is_no_workflow_is_refused():
    with pytest.raises(LimpetError, match="workflow=3"):
        as_workflow(3)

    class Silent:
        pass

    with pytest.raises(LimpetError, match="__call__"):
        as_workflow(Silent)


def test_a_declared_version_replaces_the_code():
    one, two = as_workflow(plain, version="1"), as_workflow(whole, version="1")
    assert one.fingerprint == two.fingerprint
    assert as_workflow(plain).fingerprint != as_workflow(whole).fingerprint


def test_a_function_that_cannot_be_given_anything_is_refused_before_the_run():
    for function, said in [
        (lambda: 1, "takes no argument"),
        (lambda **more: 1, "takes no argument"),
        (lambda a, b, /: 1, "by position only"),
    ]:
        with pytest.raises(LimpetError, match=said):
            as_workflow(function)
    assert call(as_workflow(lambda text, /: text)).value == "why?"


def test_a_row_without_a_column_the_workflow_wants_is_named():
    workflow = as_workflow(plain)
    call(workflow)
    with pytest.raises(LimpetError, match="item 'q2' has no column 'n'"):
        workflow.seen(Item("q2", "x", None, {"question": "x"}))


def test_an_address_is_answered_with_what_to_pass():
    with pytest.raises(LimpetError, match="is an address, not a function") as caught:
        as_workflow("http://me:hush@localhost:8000/ask")
    assert "limpet.workflows.http(address)" in caught.value.hint
    assert "hush" not in str(caught.value) + caught.value.hint
