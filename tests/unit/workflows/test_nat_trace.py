"""The toolkit's steps become a trace, and a trace its steps again: nothing is lost on the way."""

import copy
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.json_values import kept_form
from limpet.nat_trace import event_of, nat_steps, trace_of
from limpet.trace import kept_events

COUNTS = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def step(kind, **payload):
    """Return a step as the toolkit writes it."""
    return {
        "parent_id": "root",
        "function_ancestry": {
            "function_id": "f1", "function_name": "agent",
            "parent_id": "root", "parent_name": "root",
        },
        "payload": {
            "event_type": kind, "event_timestamp": 12.5, "span_event_timestamp": None,
            "framework": None, "name": "big", "tags": None, "metadata": {"a": 1},
            "data": {"input": "x", "output": None, "chunk": None, "payload": None},
            "usage_info": None, "UUID": "u1", **payload,
        },
    }  # fmt: skip


def test_a_step_becomes_an_event_and_nothing_is_held_twice():
    used = {"token_usage": COUNTS, "num_llm_calls": 1}
    data = {"input": "long", "output": "longer", "chunk": None, "payload": None}
    [event] = trace_of([step("LLM_END", span_event_timestamp=11.0, usage_info=used, data=data)])
    rest = event.pop("nat")
    assert event == {
        "kind": "model", "type": "LLM_END", "name": "big", "started": 11.0, "ended": 12.5,
        "input": "long", "output": "longer", "usage": COUNTS, "id": "u1", "parent": "root",
    }  # fmt: skip
    assert rest["payload"] == {
        "framework": None, "tags": None, "metadata": {"a": 1},
        "data": {"chunk": None, "payload": None}, "usage_info": {"num_llm_calls": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "kind", "phase"),
    [
        ("LLM_START", "model", "start"),
        ("LLM_NEW_TOKEN", "model", None),
        ("TOOL_START", "tool", "start"),
        ("TOOL_END", "tool", None),
        ("FUNCTION_END", "agent", None),
        ("WORKFLOW_START", "agent", "start"),
        ("RETRIEVER_END", "other", None),
        ("", "other", None),
    ],
)
def test_a_type_says_the_kind_and_whether_something_only_began(type_, kind, phase):
    [event] = trace_of([step(type_)])
    assert (event["kind"], event.get("phase")) == (kind, phase)
    assert event.get("started") == (12.5 if phase else None)


class Type(str, Enum):  # noqa: UP042 - as the toolkit has it, in the same process
    LLM_END = "LLM_END"


def test_a_type_may_be_a_member_of_the_toolkits_enum():
    [event] = trace_of([step(Type.LLM_END, usage_info={"token_usage": COUNTS})])
    assert (event["kind"], event["ended"], event["usage"]) == ("model", 12.5, COUNTS)
    assert kept_events(kept_form([event]), ["LLM_END"]) == [kept_form(event)]


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
TYPES = st.sampled_from(
    ["LLM_START", "LLM_END", "LLM_NEW_TOKEN", "TOOL_START", "TOOL_END", "WORKFLOW_END", "X", ""]
)


def some_of(*names):
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, ODD))


PAYLOADS = st.fixed_dictionaries(
    {},
    optional={
        "event_type": TYPES | ODD, "event_timestamp": st.floats(0, 2e9) | ODD,
        "span_event_timestamp": st.floats(0, 2e9) | ODD, "name": st.text(max_size=3) | ODD,
        "UUID": st.text(max_size=3) | ODD, "metadata": ODD,
        "data": ODD | some_of("input", "output", "chunk"),
        "usage_info": ODD | some_of("token_usage", "num_llm_calls"),
    },
)  # fmt: skip
STEPS = st.fixed_dictionaries(
    {"payload": PAYLOADS}, optional={"parent_id": ODD, "function_ancestry": ODD}
)


@given(st.lists(STEPS, max_size=4))
def test_steps_of_any_content_are_the_same_after_there_and_back(steps):
    before = copy.deepcopy(steps)
    trace = trace_of(steps)
    assert nat_steps(trace) == before
    assert steps == before
    assert trace_of(nat_steps(trace)) == trace


@given(ODD)
def test_what_a_server_sends_is_one_event_and_one_step_whatever_it_is(sent):
    [written] = nat_steps([event_of(sent)])
    assert set(written) == {"parent_id", "function_ancestry", "payload"}
    assert isinstance(written["payload"], dict)


@pytest.mark.parametrize("odd", [None, "text", {"a": 1}, {"payload": "text"}])
def test_what_is_no_list_of_steps_makes_no_trace_and_what_is_no_step_stays(odd):
    assert trace_of(odd) == []
    assert trace_of([odd]) == [odd]


def test_events_of_a_workflow_in_python_become_steps_that_the_toolkit_reads():
    tool = {"kind": "tool", "name": "search", "input": "q", "output": "found", "ended": 3}
    made = nat_steps([tool, "think", {"name": "plan"}])
    assert [one["payload"]["event_type"] for one in made] == [
        "TOOL_END",
        "CUSTOM_END",
        "CUSTOM_END",
    ]
    assert [one["payload"]["name"] for one in made] == ["search", "step", "plan"]
    assert made[0]["payload"]["event_timestamp"] == 3.0
    assert made[0]["payload"]["data"] == {
        "input": "q", "output": "found", "chunk": None, "payload": tool,
    }  # fmt: skip
    assert made[1]["payload"]["data"]["output"] == "think"


@pytest.mark.parametrize(
    "odd", [10**400, float("nan"), True, "12", None], ids=lambda odd: type(odd).__name__
)
def test_a_time_that_is_none_costs_nobody_the_file(odd):
    [made] = nat_steps([{"kind": "tool", "name": "search", "ended": odd}])
    assert made["payload"]["event_timestamp"] == 0.0


def test_a_filter_keeps_types_kinds_and_what_names_neither():
    steps = [step("LLM_START"), step("LLM_END"), step("TOOL_END")]
    for trace in (steps, trace_of(steps)):
        assert kept_events(trace, None) == trace
        assert kept_events(trace, ["LLM_END"]) == trace[1:2]
        assert kept_events(trace, ["tool"]) == trace[2:]
    own = [{"name": "a"}, {"type": "think"}, {"kind": "tool"}, "text", 3]
    assert kept_events(own, ["think"]) == [own[0], own[1], own[3], own[4]]
