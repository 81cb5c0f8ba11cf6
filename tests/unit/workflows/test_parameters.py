"""Which arguments a workflow gets does not hang on what its first parameter is called."""

import asyncio
import dataclasses
import functools

import pytest

from limpet.errors import LimpetError
from limpet.shapes import Item
from limpet.workflows import as_workflow

ROW = {"question": "why?", "context": "because", "n": 3}
ITEM = Item("q1", "why?", "so", ROW)


def called(function):
    workflow = as_workflow(function)

    async def call():
        try:
            return await workflow.call(ITEM)
        finally:
            await workflow.close()  # which ends its thread

    return asyncio.run(call()).value, workflow.seen(ITEM)


@pytest.mark.parametrize(
    "function",
    [
        lambda question, context="": (question, context),
        lambda q, context="": (q, context),
        lambda q, context: (q, context),
        lambda questions, context: (questions, context),
        lambda input, context="": (input, context),  # noqa: A006 - it may be called so
        lambda prompt, *, context: (prompt, context),
        lambda prompt="", context="": (prompt, context),
        lambda context, question: (question, context),
        lambda q, context, other=1: (q, context),
        lambda q, /, context="": (q, context),
        functools.partial(lambda q, context, model: (q, context), model="m"),
    ],
)
def test_a_field_is_bound_by_its_name_whatever_the_first_parameter_is_called(function):
    value, seen = called(function)
    assert value == ("why?", "because")
    assert "because" in str(seen)  # what it depends on
    assert "why?" in str(seen)


@dataclasses.dataclass
class Agent:
    """It has no hash, as it can be compared and changed."""

    model: str = "m"

    def __call__(self, question, context=""):
        return question, context


def test_an_object_without_a_hash_is_a_workflow():
    assert called(Agent())[0] == ("why?", "because")


def test_what_is_not_a_field_keeps_its_default():
    assert called(lambda q, temperature=0.5: (q, temperature)) == (("why?", 0.5), "why?")


def test_item_and_expected_are_bound_too():
    value, _ = called(lambda q, item, expected: (q, item.id, expected))
    assert value == ("why?", "q1", "so")


@pytest.mark.parametrize("function", [lambda contxt, question: 1, lambda q, contxt: 1])
def test_a_misspelt_field_is_refused(function):
    with pytest.raises(LimpetError, match="parameter 'contxt', .* did you mean 'context'"):
        called(function)
