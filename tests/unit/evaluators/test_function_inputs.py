"""Parameters of a user's function that templates fill."""

import asyncio

import pytest

from limpet.evaluators import Scored, as_evaluator
from limpet.shapes import Item

SCORED = Scored("4", "a", "q", Item("1", "q", "a", {"docs": ["x", "y"], "output": "row's"}))


def called(function, **inputs):
    evaluator = as_evaluator(function, inputs=inputs)
    return evaluator, asyncio.run(evaluator.call(SCORED))["score"].label


def test_a_parameter_is_filled_by_a_field_of_the_dataset():
    def cites(output, context):
        return f"{output} {context}"

    evaluator, label = called(cites, context="{{docs}}")
    assert label == "4 ['x', 'y']"
    assert evaluator.reads == {"output", "row.docs"}


def test_all_parameters_can_be_filled():
    def joined(*, a, b):
        return a + b

    evaluator, label = called(joined, a="{{row.output}} ", b="{{id}}: {{expected}}")
    assert label == "row's 1: a"
    assert evaluator.reads == {"row.output", "id", "expected"}


def test_a_parameter_that_it_does_not_take_is_an_error():
    def cites(output):
        return output

    with pytest.raises(TypeError, match="inputs names 'context', which cites does not take"):
        as_evaluator(cites, inputs={"context": "{{docs}}"})


def test_an_edit_of_the_inputs_changes_the_fingerprint():
    def cites(output, context):
        return output

    def fingerprint(template):
        return as_evaluator(cites, inputs={"context": template}).fingerprint

    assert fingerprint("{{docs}}") == fingerprint("{{docs}}") != fingerprint("{{output}}")
