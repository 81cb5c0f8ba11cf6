"""A prompt is filled with the row's fields, and with images and files; the answer is the reply."""

import asyncio
import base64

import pytest
from model_server import calling, completion, model_server

import limpet
from limpet.errors import DatasetError, LimpetError, PermanentError
from limpet.fingerprints.keys import digest
from limpet.models import Model, Reply
from limpet.shapes import Item, Usage
from limpet.workflows import openai

PNG = b"\x89PNG not really"


class Recorder(Model):
    """Replies with its script, and notes what it was asked."""

    def __init__(self, reply="ok", **more):
        self.name = "recorder"
        self.endpoint = "server recorder"
        self.fingerprint = {"model": digest("recorder")}
        self.secrets = ["sk-of-recorder"]
        self._reply = Reply(reply, **more)
        self.asked = []

    async def ask(self, messages, *, schema=None, **params):
        self.asked.append((messages, schema, params))
        return self._reply


def item(**row):
    return Item("7", row.get("question"), None, row)


def call(workflow, an_item):
    return asyncio.run(workflow.call(an_item))


def told(an_item, **arguments):
    """Return the messages that the model gets."""
    model = Recorder()
    call(openai(model=model, **arguments), an_item)
    return model.asked[0][0]


# ---- the conversation ---------------------------------------------------------------------------


def test_a_prompt_is_one_message_of_the_user():
    messages = told(item(question="Why?", n=3), prompt="Q{{n}}: {{ question }}")
    assert messages == [{"role": "user", "content": "Q3: Why?"}]


def test_content_is_text_whatever_the_field_holds():
    messages = told(item(question=["a", 1]), messages=[{"role": "user", "content": "{{question}}"}])
    assert messages == [{"role": "user", "content": '["a",1]'}]


def test_a_field_may_hold_the_messages():
    history = [{"role": "user", "content": "hi {{n}}"}, {"role": "assistant", "content": "yes?"}]
    messages = told(
        item(history=history, question="Why?", n=3),
        messages=[
            {"role": "system", "content": "Be brief."},
            "{{history}}",
            {"role": "user", "content": "{{question}}"},
        ],
    )
    last = {"role": "user", "content": "Why?"}
    assert messages == [{"role": "system", "content": "Be brief."}, *history, last]


@pytest.mark.parametrize("held", [None, "hi", [3], [{"role": "boss", "content": "x"}]])
def test_a_field_that_holds_no_messages_is_an_error_before_the_first_call(held):
    workflow = openai(model=Recorder(), messages="{{history}}")
    with pytest.raises(DatasetError, match=r"^item '7': \{\{history\}\}"):
        workflow.seen(item(history=held))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "needs prompt or messages"),
        ({"prompt": "a", "messages": ["{{b}}"]}, "prompt: excludes messages"),
        ({"prompt": " "}, "prompt: must be a non-empty string"),
        ({"prompt": "{{a"}, "prompt: '{{a' has no '}}'"),
        ({"messages": []}, "messages: must be a list of messages"),
        ({"messages": [{"role": "user"}]}, "messages: message 1 must have content"),
        ({"prompt": "a", "files": [""]}, "files: must be a list of strings"),
        ({"prompt": "a", "params": 3}, "params=3: must be a mapping"),
        ({"prompt": "a", "params": {"model": "b"}}, "params: 'model' is not a parameter"),
    ],
)
def test_a_conversation_that_is_none_is_refused(arguments, said):
    with pytest.raises(LimpetError) as caught:
        openai(model=Recorder(), **arguments)
    assert str(caught.value).startswith(said)


def test_options_of_a_server_need_its_address():
    with pytest.raises(TypeError, match="'headers' works only with url"):
        openai(model=Recorder(), prompt="a", headers={"a": "b"})


# ---- what an answer depends on ------------------------------------------------------------------


def test_only_the_fields_that_the_prompt_names_count():
    workflow = openai(model=Recorder(), prompt="{{question}}")
    seen = workflow.seen(item(question="Why?", note="a"))
    assert seen == workflow.seen(item(question="Why?", note="b"))
    assert seen != workflow.seen(item(question="How?", note="a"))


def test_prompt_params_schema_and_model_count():
    model = Recorder()

    def fingerprint(**arguments):
        return dict(openai(**{"model": model, "prompt": "a", **arguments}).fingerprint)

    alone = fingerprint()
    other = Recorder()
    other.fingerprint = {"model": digest("other")}
    schema = {"type": "object"}
    changes = ({"prompt": "b"}, {"params": {"top_p": 1}}, {"schema": schema}, {"model": other})
    assert all(fingerprint(**change) != alone for change in changes)
    versions = [fingerprint(version="2", model=which) for which in (model, other)]
    assert versions[0] == versions[1] != alone


# ---- the answer ---------------------------------------------------------------------------------


def test_the_answer_has_usage_and_the_call_in_its_trace():
    model = Recorder("42", usage=Usage(3, 2, 5), model="recorder-1", finish="stop")
    output = call(
        openai(model=model, prompt="{{question}}", params={"top_p": 1}), item(question="?")
    )
    assert (output.value, output.usage, output.metadata) == ("42", Usage(3, 2, 5), None)
    (event,) = output.trace
    assert event["started"] <= event["ended"]
    assert {key: event[key] for key in ("kind", "name", "input", "output", "usage")} == {
        "kind": "model",
        "name": "recorder-1",
        "input": [{"role": "user", "content": "?"}],
        "output": "42",
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
    assert model.asked[0][1:] == (None, {"top_p": 1})


def test_a_schema_makes_the_answer_a_value():
    model = Recorder('{"n": 1}', parsed={"n": 1})
    output = call(openai(model=model, prompt="a", schema={"type": "object"}), item())
    assert output.value == {"n": 1}
    assert model.asked[0][1] == {"type": "object"}


def test_a_truncated_answer_says_so():
    assert call(openai(model=Recorder("4", finish="length"), prompt="a"), item()).metadata == {
        "finish": "length"
    }


# ---- tool calls ---------------------------------------------------------------------------------

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALLS = [
    {"id": "a", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}},
    {"id": "b", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}},
]


def asked_of(reply, run, evaluators=(), **more):
    """Ask a server that replies so, with a tool that it may call."""
    with model_server(reply) as server:
        workflow = openai(
            server.url,
            model="m",
            key=None,
            prompt="{{question}}",
            params={"tools": [WEATHER]},
            **more,
        )
        rows = [{"question": "Rain?", "tools": ["weather", "weather"]}]
        return limpet.evaluate(rows, workflow, evaluators, run=run, retry=0).items[0]


@pytest.mark.parametrize("content", [None, ""])
def test_a_reply_that_only_calls_tools_has_the_calls_as_its_answer(tmp_path, content):
    reply = completion(content, finish="tool_calls", tool_calls=CALLS)
    tools = limpet.trajectory(expected_column="tools", mode="exact")
    item = asked_of(reply, tmp_path, [tools])
    assert item.output.value == {
        "tool_calls": [
            {"name": "weather", "arguments": {"city": "Rome"}},
            {"name": "weather", "arguments": {"city": "Paris"}},
        ]
    }
    assert item.output.trace[0]["output"] == item.output.value
    assert item.output.trace[1:] == [
        {"kind": "tool", "name": "weather", "input": {"city": "Rome"}, "id": "a"},
        {"kind": "tool", "name": "weather", "input": {"city": "Paris"}, "id": "b"},
    ]
    assert item.scores["trajectory"].value is True


def test_a_streamed_call_is_the_same(tmp_path):
    item = asked_of(calling("weather", {"city": "Rome"}), tmp_path, stream=True)
    assert item.output.value == {"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}
    assert [event.get("id") for event in item.output.trace] == [None, "call_1"]


def test_text_is_the_answer_and_the_calls_beside_it_are_in_the_trace(tmp_path):
    item = asked_of(completion("Let me look.", finish="tool_calls", tool_calls=CALLS), tmp_path)
    assert item.output.value == "Let me look."
    assert [event["name"] for event in item.output.trace] == ["m", "weather", "weather"]


def test_arguments_that_are_not_json_stay_text(tmp_path):
    item = asked_of(calling("weather", '{"city": '), tmp_path)
    assert item.output.value == {"tool_calls": [{"name": "weather", "arguments": '{"city": '}]}


@pytest.mark.parametrize("finish", ["stop", "length", "tool_calls"])
@pytest.mark.parametrize("calls", [None, [], [None, {"function": None}]])
def test_no_text_and_no_call_is_a_failure(tmp_path, finish, calls):
    item = asked_of(completion(None, finish=finish, tool_calls=calls), tmp_path)
    assert item.error["class"] == "invalid_reply"
    assert f"the reply has no text (finish_reason: {finish})" in item.error["message"]


def test_an_empty_text_is_an_answer(tmp_path):
    assert asked_of(completion("", tool_calls=[]), tmp_path).output.value == ""


# ---- images and files ---------------------------------------------------------------------------


@pytest.fixture(name="folder")
def a_folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.png").write_bytes(PNG)
    (folder / "paper.pdf").write_bytes(b"%PDF")
    (folder / "notes").write_bytes(b"?")
    (folder / ".env").write_text("KEY=1")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    return folder


def test_a_path_is_sent_as_a_data_url_and_a_url_is_passed_on(folder):
    (message,) = told(
        item(photo=["a.png", "https://x/b.png"], paper="paper.pdf", none=None),
        prompt="Look",
        images=["{{photo}}", "{{none}}"],
        files="{{paper}}",
        folder=folder,
    )
    text, first, second, paper = message["content"]
    assert text == {"type": "text", "text": "Look"}
    encoded = base64.b64encode(PNG).decode()
    assert first == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}}
    assert second == {"type": "image_url", "image_url": {"url": "https://x/b.png"}}
    data = f"data:application/pdf;base64,{base64.b64encode(b'%PDF').decode()}"
    assert paper == {"type": "file", "file": {"filename": "paper.pdf", "file_data": data}}


def test_parts_may_be_in_the_messages(folder):
    parts = [
        {"type": "text", "text": "Is it {{n}}?"},
        {"type": "image_url", "image_url": "{{photo}}"},
        {"type": "image_url", "image_url": {"url": "{{photo}}", "detail": "low"}},
    ]
    (message,) = told(
        item(photo="a.png", n=3), messages=[{"role": "user", "content": parts}], folder=folder
    )
    text, plain, low = message["content"]
    assert text == {"type": "text", "text": "Is it 3?"}
    assert plain["image_url"]["url"].startswith("data:image/png;base64,")
    assert low["image_url"] == {**plain["image_url"], "detail": "low"}


def test_the_trace_has_the_path_of_a_file_not_its_content(folder):
    workflow = openai(model=Recorder(), prompt="a", images=["{{photo}}"], folder=folder)
    (event,) = call(workflow, item(photo="a.png")).trace
    assert event["input"][0]["content"][1]["image_url"] == {"url": "a.png"}


def test_the_content_of_a_file_counts(folder):
    workflow = openai(model=Recorder(), prompt="a", images=["{{photo}}"], folder=folder)
    before = workflow.seen(item(photo="a.png"))
    assert workflow.seen(item(photo="a.png")) == before
    (folder / "a.png").write_bytes(PNG + b"!")
    assert workflow.seen(item(photo="a.png")) != before


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("../secret.png", "'../secret.png' is outside data/"),
        ("/etc/passwd", "'/etc/passwd' is outside data/"),
        ("link.png", "'link.png' is outside data/"),
        (".env", "'.env' is hidden: hidden files are never sent"),
        ("b.png", "'b.png' does not exist"),
        (".", "'.' is not a file"),
        ("paper.pdf", "'paper.pdf' is not an image"),
        ("notes", "'notes' is not an image"),
        ("a\0.png", "'a\\x00.png' is not a path"),
        ("file:///etc/passwd", "'file:///etc/passwd' does not exist"),
        (3, "image_url: must be a path or a URL, not '3'"),
    ],
)
def test_a_row_cannot_send_what_it_likes(reference, said, folder):
    workflow = openai(model=Recorder(), prompt="a", images=["{{photo}}"], folder=folder)
    with pytest.raises(DatasetError) as caught:
        workflow.seen(item(photo=reference))
    assert str(caught.value) == f"item '7': {said}"
    with pytest.raises(PermanentError):
        call(workflow, item(photo=reference))


def test_a_row_cannot_send_what_it_likes_in_its_messages_either(folder):
    workflow = openai(model=Recorder(), messages="{{history}}", folder=folder)
    parts = [{"type": "file", "file": {"file_data": "../secret.png"}}]
    with pytest.raises(DatasetError, match=r"is outside data/"):
        workflow.seen(item(history=[{"role": "user", "content": parts}]))


def test_a_file_that_is_too_large_is_refused(folder, monkeypatch):
    monkeypatch.setattr("limpet.workflows.prompt_templates.LARGEST_MB", 1)
    (folder / "big.png").write_bytes(bytes(2**20 + 1))
    workflow = openai(model=Recorder(), prompt="a", images=["{{photo}}"], folder=folder)
    with pytest.raises(DatasetError, match=r"'big.png' is larger than 1 MB"):
        workflow.seen(item(photo="big.png"))


def test_the_trace_has_the_time_of_the_first_token_and_the_answer_has_not():
    workflow = openai(model=Recorder(first_token_s=0.25), prompt="{{question}}")
    answered = call(workflow, item(question="a"))
    assert answered.trace[0]["first_token_s"] == 0.25
    assert answered.value == "ok"
