"""Served workflows in an eval.yml: `nat` and `http`, short and in full."""

import json
from pathlib import Path

import pytest

from limpet.config import json_schema, load_config
from limpet.errors import ConfigError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "question": "Q"}\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(workflow, *overrides):
    text = f"dataset: rows.jsonl\nworkflow: {workflow}\n"
    Path("eval.yml").write_text(text, encoding="utf-8")
    return load_config("eval.yml", overrides)


def refusal(workflow):
    with pytest.raises(ConfigError) as caught:
        loaded(workflow).prepare()
    return str(caught.value), caught.value.hint


@pytest.mark.parametrize(
    ("workflow", "name", "endpoint"),
    [
        ("{nat: http://localhost:8000}", "nat", "http://localhost:8000"),
        (
            "{nat: {endpoint: http://localhost:8000, path: /generate, input_key: q, timeout: 2m}}",
            "nat",
            "http://localhost:8000",
        ),
        ("{http: http://localhost:8000/ask}", "http", "http://localhost:8000"),
        (
            ("{http: {url: http://h/ask, method: PUT, body: {q: '{{question}}'}, answer: $.a, "
            "statuses: [200, 404], max_response_mb: 1, headers: {X-One: 'two'}}}"),
            "http",
            "http://h:80",
        ),
    ],
)  # fmt: skip
def test_a_served_workflow_is_named_by_its_kind(workflow, name, endpoint):
    made = loaded(workflow).prepare().workflow
    assert (made.name, made.endpoint) == (name, endpoint)


def test_a_version_goes_with_every_kind():
    one = loaded("{nat: http://one:1, version: '3'}").prepare().workflow
    two = loaded("{nat: http://two:2, version: '3'}").prepare().workflow
    assert one.fingerprint == two.fingerprint


def test_a_set_goes_below_the_short_form():
    config = loaded("{nat: http://one:1}", "workflow.nat.input_key=q")
    assert (
        config.prepare().workflow.fingerprint
        != loaded("{nat: http://one:1}").prepare().workflow.fingerprint
    )


@pytest.mark.parametrize(
    ("workflow", "said", "hint"),
    [
        ("{nat: {endpont: http://x}}", ".nat: unknown key 'endpont'", "did you mean 'endpoint'?"),
        ("{nat: {path: /x}}", ".nat: endpoint is missing", "write workflow: {nat: http"),
        ("{nat: nowhere}", ".nat: must be the address of a server", "for example http"),
        ("{nat: {endpoint: http://x, path: y}}", ".nat.path: must start with a slash", None),
        ("{http: {url: http://x, method: FETCH}}", ".http.method: must be one of", None),
        (
            "{http: {url: http://x, statuses: 200}}",
            ".http.statuses: must be a list",
            "for example [200",
        ),
        (
            "{http: {url: http://x, headers: {A: 1}}}",
            ".http.headers.A: must be a string",
            "put it",
        ),
        (
            "{http: {url: http://x, max_response_mb: 0}}",
            ".http.max_response_mb: must be above 0, not",
            None,
        ),
        ("{nat: 'http://a b'}", ".nat: must be the address of a server", "for example http"),
        ("{nat: 'http://..'}", ".nat: must be the address of a server", "for example http"),
        ("{nat: 'http://a:0'}", ".nat: must be the address of a server", "for example http"),
        ("{http: 'http://x/{{question'}", ".http: '{{question' has no '}}'", "write {{column}}"),
        ("{http: 'http://x/{{}}'}", ".http: '{{' is not a placeholder", "write {{column}}"),
        (
            "{http: {url: http://x, body: {a: ['{{ quest']}}}",
            ".http.body: '{{ quest' has no '}}'",
            "write {{column}}",
        ),
        (
            "{http: {url: http://x, body: {'{{a}}': 1}}}",
            ".http.body: '{{a' is in a key: only values are filled",
            "write {{column}}",
        ),
        (
            "{http: {url: http://x, headers: {X-Question: '{{question}}'}}}",
            ".http.headers.X-Question: its value contains '{{': placeholders are filled in the url",
            None,
        ),
        (
            "{http: {url: http://x, method: get}}",
            ".http.method: must be one of GET, POST, PUT, PATCH, DELETE, not 'get'",
            "did you mean 'GET'?",
        ),
        ("{http: http://x, nat: http://x}", ".http: cannot be used with nat", None),
        ("{}", ": needs python or nat or http or command or openai", "write workflow: app:answer"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(workflow, said, hint):
    found, told = refusal(workflow)
    assert found.startswith(f"eval.yml:2: workflow{said}")
    assert hint is None or told.startswith(hint)


def test_a_header_is_kept_as_its_variable_and_a_literal_one_is_masked(monkeypatch):
    monkeypatch.setenv("API_KEY", "very-secret-key")
    config = loaded(
        "{nat: {endpoint: 'http://me:pw@x', "
        "headers: {Authorization: 'Bearer ${API_KEY}', X: literal}}}"
    )
    kept = json.dumps(config.public)
    assert "Bearer ${API_KEY}" in kept
    for secret in ("very-secret-key", "literal", "me:pw"):
        assert secret not in kept
    config.prepare()


def test_what_the_environment_holds_is_not_shown(monkeypatch):
    monkeypatch.setenv("WHERE", "hush-hush")
    said, _ = refusal("{nat: {endpoint: http://x, path: '${WHERE}'}}")
    assert "hush" not in said
    assert said.startswith("eval.yml:2: workflow.nat.path: ")


@pytest.mark.parametrize("kind", ["nat: {endpoint", "http: {url"])
def test_a_header_that_cannot_be_sent_is_named_with_its_variable(monkeypatch, kind):
    monkeypatch.setenv("API_KEY", "hush-hush\n")
    said, _ = refusal(f"{{{kind}: http://x, headers: {{Authorization: 'Bearer ${{API_KEY}}'}}}}}}")
    section = kind.partition(":")[0]
    assert said == (
        f"eval.yml:2: workflow.{section}.headers.Authorization: "
        "the value of Bearer ${API_KEY} contains a line break"
    )


def test_a_wrong_value_is_not_blamed_on_the_environment_that_holds_another(monkeypatch):
    monkeypatch.setenv("API_KEY", "hush-hush")
    monkeypatch.setenv("WHERE", "nowhere")
    said, _ = refusal(
        "{http: {url: http://x, answer: '$.[', headers: {Authorization: '${API_KEY}'}}}"
    )
    assert said.startswith("eval.yml:2: workflow.http.answer: '$.[' is not a JSONPath: ")
    said, _ = refusal("{http: {url: '${WHERE}'}}")
    assert said == (
        "eval.yml:2: workflow.http.url: must be the address of a server, not the value of ${WHERE}"
    )


def test_the_schema_has_both_forms():
    schema = json_schema()
    workflow = schema["$defs"]["WorkflowSection"]["properties"]
    for kind, section in (("nat", "NatSection"), ("http", "HttpSection")):
        assert workflow[kind]["anyOf"] == [
            {"type": "string", "minLength": 1},
            {"$ref": f"#/$defs/{section}"},
        ]
