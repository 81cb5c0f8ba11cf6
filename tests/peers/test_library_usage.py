"""What the evaluators of seven libraries were paid for is in the numbers of the run, to the token.

The server counts what it gives, each reply with another usage.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from model_server import completion, failure, model_server
from peers.library_environment import libraries, run, variables
from peers.test_evaluator_libraries_a import KINDS, good, python
from peers.test_evaluator_libraries_b import JUDGES
from peers.test_evaluator_libraries_b import good as good_b

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPTS = Path(__file__).parent / "libraries"
QUIET = {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "RAGAS_DO_NOT_TRACK": "true"}


class Till:
    """Gives each reply a usage of its own, and counts it by the model that was asked for."""

    def __init__(self):
        self.tokens = Counter()
        self.replies = 0

    def __call__(self, request, reply):
        self.replies += 1
        prompt, completed = 1000 + self.replies**2, self.replies
        self.tokens[request["model"]] += prompt + completed
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completed,
            "total_tokens": prompt + completed,
        }
        if isinstance(reply, dict) and "tools" in request:
            name = request["tools"][0]["function"]["name"]
            call = {"name": name, "arguments": json.dumps(reply)}
            calls = [{"id": "1", "type": "function", "function": call}]
            return completion(None, finish="tool_calls", usage=usage, tool_calls=calls)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return completion(text, usage=usage)

    def bad(self, number):
        """Return a reply that cannot be used, another each time, and what is sent with it."""
        return ["I would rather not say", '{"reason": "it f', "{}"][number % 3]


def summary(folder):
    return json.loads((folder / "run" / "summary.json").read_text())["evaluators"]


ENDS = {
    "good": lambda till, reply: lambda request, number: till(request, reply(request, number)),
    "bad": lambda till, reply: lambda request, number: till(request, till.bad(number)),
    "good, bad and refused": lambda till, reply: (
        lambda request, number: (
            failure(500)
            if number % 3 == 2
            else till(request, reply(request, number) if number % 3 else till.bad(number))
        )
    ),
}


@pytest.mark.parametrize("kind", [*KINDS, "deepeval_unknown_model"])
@pytest.mark.parametrize("ends", ENDS)
def test_each_reply_is_counted(kind, ends, tmp_path):
    of_kind = kind.removesuffix("_unknown_model")
    till = Till()
    with model_server(ENDS[ends](till, good(of_kind))) as server:
        given = variables(JUDGE_URL=server.url, **QUIET)
        run(
            str(python(of_kind)), str(SCRIPTS / "judge_a.py"), kind, str(tmp_path),
            cwd=tmp_path, env=given,
        )  # fmt: skip
    assert till.replies >= 3
    assert summary(tmp_path)["judge"]["usage"]["total_tokens"] == till.tokens.total()


@pytest.mark.parametrize("ends", ENDS)
def test_each_reply_to_the_others_is_counted(ends, tmp_path):
    till = Till()
    with model_server(ENDS[ends](till, lambda request, _: good_b(request))) as server:
        given = variables(JUDGE_URL=server.url, ITEMS="one,two,three,four")
        run(
            str(libraries() / "python"), str(SCRIPTS / "judges_b.py"), str(tmp_path),
            cwd=tmp_path, env=given,
        )  # fmt: skip
    found = summary(tmp_path)
    reported = {name: found[name].get("usage", {}).get("total_tokens", 0) for name in JUDGES}
    assert reported == {name: till.tokens[name] for name in JUDGES}
