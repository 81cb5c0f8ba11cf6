"""With `cache`, the provider is told where the part of a judge's prompt ends that never changes."""

import json

import pytest
from model_server import model_server, raw

import limpet
from limpet.models import openai_api, provider_api

ROWS = [{"id": f"q{n}", "question": f"question {n}", "answer": "a"} for n in range(2)]
PROMPT = "Is {{output}} an answer to {{input}}? " + "Think of all the rules. " * 20
EXAMPLE = {"output": "b", "input": "c", "reason": "so", "label": "correct"}
GOOD = {"reason": "it fits", "label": "correct"}
MARK = {"type": "ephemeral"}


def message(request, _):
    text = {"type": "text", "text": json.dumps(GOOD)}
    return raw({"model": "claude", "content": [text], "stop_reason": "end_turn"})


def judged(model, tmp_path, name):
    judge = limpet.judge(model, PROMPT, examples=[EXAMPLE])
    result = limpet.evaluate(ROWS, lambda q: q, [judge], run=tmp_path / name, show=False)
    assert result.summary["evaluators"]["judge"]["completed"] == 2
    return judge


def claude(server, cache):
    address = server.url.removesuffix("/v1")
    return provider_api("anthropic", address, model="claude", key=None, cache=cache)


def words(content):
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def marked_prefix(body):
    """Return all that stands before the last mark, as text."""
    said = [*body["system"]]
    for turn in body["messages"]:
        content = turn["content"]
        said += [{"text": content}] if isinstance(content, str) else content
    last = max(index for index, part in enumerate(said) if "cache_control" in part)
    assert all(part["cache_control"] == MARK for part in said if "cache_control" in part)
    return [part["text"] for part in said[: last + 1]]


def test_the_rules_the_examples_and_the_prompt_are_the_cached_prefix(tmp_path):
    with model_server(message) as server:
        judged(claude(server, cache=True), tmp_path, "run")
    first, second = server.asked
    assert marked_prefix(first) == marked_prefix(second)
    assert marked_prefix(first)[-1] == PROMPT
    assert "".join(marked_prefix(first)).count(PROMPT) == 2  # in the example, too
    assert first["messages"] != second["messages"]


def test_the_words_and_the_fingerprint_are_the_same_with_and_without(tmp_path):
    with model_server(message) as server:
        plain = judged(claude(server, cache=False), tmp_path, "plain")
        cached = judged(claude(server, cache=True), tmp_path, "cached")
        judged(claude(server, cache=True), tmp_path, "plain")  # nothing is asked again
    assert plain.stated == cached.stated
    assert len(server.asked) == 4
    assert not any("cache_control" in json.dumps(body) for body in server.asked[:2])
    for before, after in zip(server.asked[:2], server.asked[2:], strict=True):
        last, now = (words(body["messages"][-1]["content"]) for body in (before, after))
        key = last.partition("Key of the data: ")[2][:16]
        assert now.replace(now.partition("Key of the data: ")[2][:16], key) == last


def test_a_server_that_caches_by_itself_gets_the_prompt_as_before(tmp_path):
    with model_server(GOOD) as server:
        judged(openai_api(server.url, model="m", key=None), tmp_path, "run")
    for body in server.asked:
        assert all(isinstance(turn["content"], str) for turn in body["messages"])
        assert body["response_format"]["json_schema"]["strict"] is True


@pytest.mark.parametrize("part", [{"cache_control": {"type": "ephemeral", "ttl": "1h"}}, {}])
def test_a_users_own_mark_is_kept_as_it_is(tmp_path, part):
    content = [{"type": "text", "text": "{{input}}", **part}]
    with model_server(message) as server:
        workflow = limpet.workflows.openai(
            model=claude(server, cache=False), messages=[{"role": "user", "content": content}]
        )
        limpet.evaluate(ROWS[:1], workflow, [], run=tmp_path / "run", show=False)
    assert server.asked[0]["messages"][0]["content"][0] == {
        "type": "text", "text": "question 0", **part,
    }  # fmt: skip
