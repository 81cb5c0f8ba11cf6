"""A trace as a tree: whatever a workflow recorded, the page and the report show it."""

import pytest

import limpet
from limpet.view.html_report import write_report
from limpet.view.item_answers import trace_tree
from limpet.view.server import encoded
from limpet.view.shown_values import Shortener


def event(**facts):
    return {"kind": "tool", "name": "look_up", **facts}


def names_in(tree):
    found = []
    for node in tree:
        found += [node["name"], *names_in(node["children"])]
    return found


def test_a_very_deep_trace_is_shown_whole_and_can_be_sent():
    trace = [event(name=f"n{n}", id=str(n), parent=str(n - 1)) for n in range(1_500)]
    tree = trace_tree(trace, Shortener())
    assert encoded(tree)
    assert names_in(tree) == [f"n{n}" for n in range(1_500)]


@pytest.mark.parametrize(
    "facts",
    [
        {"id": ["a"], "parent": {"b": 1}},
        {"id": {"c": 1}, "phase": "start"},
        {"id": "1", "started": 10**400, "ended": 10**401},
        {"id": "1", "started": 1.0, "ended": 10**401},
        {"started": float("nan"), "ended": float("inf")},
    ],
)
def test_an_event_with_strange_facts_is_shown_beside_the_others(facts):
    tree = trace_tree([event(**facts), event(name="other", started=2.0, ended=3.0)], Shortener())
    assert names_in(tree) == ["look_up", "other"]
    assert tree[0]["seconds"] is None
    assert (tree[1]["seconds"], encoded(tree) != b"") == (1.0, True)


def test_a_message_with_very_many_calls_is_cut():
    calls = [{"function": {"name": "look_up"}}] * 5_000
    tree = trace_tree([{"role": "assistant", "tool_calls": calls}], Shortener())
    assert len(tree) == 2_000


def test_of_messages_a_call_of_a_tool_has_its_result_and_what_was_said_beside_it_is_kept():
    calls = [{"id": id_, "function": {"name": f"t{id_}", "arguments": "{}"}} for id_ in "12"]
    trace = [
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "tool", "tool_call_id": "2", "content": "two again"},
        {"role": "tool", "tool_call_id": ["1"], "content": "of nobody"},
        {"role": "tool", "tool_call_id": "1", "content": "one"},
    ]
    tree = trace_tree(trace, Shortener())
    told = [(node["name"], node["output"]) for node in tree]
    assert told == [("assistant", "I look."), ("t1", "one"), ("t2", "two"),
                    ("tool", "two again"), ("tool", "of nobody")]  # fmt: skip
    assert [node["more"] for node in tree[:3]] == [None] * 3


def test_a_strange_trace_does_not_keep_a_run_from_its_report(tmp_path):
    def answer(question):
        deep = [event(id=str(n), parent=str(n - 1)) for n in range(1_500)]
        return limpet.Output(question, trace=[event(id=["a"], started=10**400), *deep])

    run = limpet.Run(tmp_path / "run", durability="flush")
    limpet.evaluate([{"question": "a"}], answer, {"length": len}, run=run, show=False)
    assert write_report(tmp_path / "run", tmp_path / "report.html").left_out == ""
