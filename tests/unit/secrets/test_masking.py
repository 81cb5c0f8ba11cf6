"""A result is never altered: what is masked, what is not, and that its line says so."""

import base64
import json
import logging
import re
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cut_short import cut_short

import limpet
from limpet import Output, PermanentError, Score, exact_match
from limpet.run.reading import RunReader
from limpet.secrets.known import looks_secret
from limpet.secrets.masking import MASK, Mask, Masking
from tests.exported import exported

KEY = "sk-Planted/0123+456789"
ROW = {"id": "a", "question": "q", "answer": "x"}


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def found_in(folder, *texts):
    """Return the files that hold one of these texts."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files for text in texts if text.encode() in file.read_bytes()]


def answering(value):
    async def answer(question):
        if isinstance(value, BaseException):
            raise value
        return value

    return answer


def evaluate(value, run, evaluators=(), row=ROW, **options):
    return limpet.evaluate([row], answering(value), evaluators, run, version="1", **options)


# ---- which values are secrets -------------------------------------------------------------------

JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0" * 20 + ".c2ln"
PEM = (
    "-----BEGIN PRIVATE KEY-----\n"
    + "MIIEvQIBADANBgkqhkiG9w0BAQ\n" * 30
    + "-----END PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("sk-0123456789abcdef", True),
        ("0123456789abcdef", True),
        ("very-secret-token", True),
        ("/planted+secret/0123456789", True),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", True),
        ("postgres://me:pw-12345678@host/db", True),
        ("https://host/x?api_key=0123456789abcdef", True),
        (JWT, True),
        (PEM, True),
        ("x\0" * 10 + "1", True),
        ("a\udc80bcdefghijklmnop1", True),
        ("a" * 100_000 + "1", True),
        ("", False),
        ("sk-01234", False),
        ("cl100k_base", False),
        ("postgres", False),
        ("internationalisation", False),
        ("PostgresDatabaseName", False),
        ("1234567890123456", False),
        ("1234-5678-9012-3456", False),
        ("/var/run/secrets/nvidia/key.json", False),
        ("~/.config/gcloud/credentials.json", False),
        ("C:\\Users\\me\\keys\\service.json", False),
        ("./keys/service.json", False),
        ("keys/service-account.json", False),
        ("/etc/keys/Service-Account_01.json", False),
        ("~/.ssh/id_ed25519_Work2", False),
        ("/home/Me2/Keys_Of-Mine/Prod01", False),
        ("https://api.example.com/v1/chat/completions", False),
        ("<|begin_of_text|>", False),
        ("<your-api-key-goes-here>", False),
    ],
)
def test_a_secret_is_told_from_a_path_a_word_a_number_and_an_address(value, secret):
    assert looks_secret(value) is secret


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("hf_token", True),
        ("CLIENT_SECRET", True),
        ("PGPASSWORD", True),
        ("GCP_CREDENTIALS", True),
        ("WATSONX_APIKEY", True),
        ("GITHUB_PAT", True),
        ("TOKEN", True),
        ("TOKENIZER", False),
        ("KEYBOARD", False),
        ("MAX_TOKENS", False),
        ("MONKEY", False),
        ("PATH", False),
    ],
)
def test_only_a_variable_whose_name_ends_so_is_certainly_a_secret(name, secret):
    masking = Masking(environment={name: KEY})
    assert (MASK in masking.certain.text(KEY)) is secret


def test_a_path_that_exists_is_no_secret(tmp_path):
    file = tmp_path / "Key+file=0123456789"
    file.write_text("x")
    assert not looks_secret(str(file))


def test_the_parts_of_a_secret_are_secrets():
    account = {"type": "service_account", "private_key": PEM, "token_uri": "https://host/token/uri"}
    environment = {
        "A_CREDENTIALS": json.dumps(account),
        "DB_PASSWORD": "db://me:sk-Planted-0123+456789@host/x",
    }
    mask = Masking(environment=environment).certain
    assert mask.text("pw sk-Planted-0123+456789") == f"pw {MASK}"
    assert "MIIEvQ" not in mask.text("  " + PEM.replace("\n", "\r\n  "))
    assert mask.text("https://host/token/uri service_account") == (
        "https://host/token/uri service_account"
    )


# ---- how they are found -------------------------------------------------------------------------

HARD = 'k"e\\y\n+/(a|b)[0-9]*$ ü%1'
FORMS = {
    "as it is": lambda secret: secret,
    "JSON": lambda secret: json.dumps({"a": secret}),
    "JSON with its letters": lambda secret: json.dumps({"a": secret}, ensure_ascii=False),
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"a": secret})),
    "repr": repr,
    "ascii": ascii,
    "repr of bytes": lambda secret: repr(secret.encode()),
    "URL": lambda secret: urllib.parse.quote(secret, safe=""),
    "URL in lower case": lambda secret: re.sub(
        "%..", lambda found: found[0].lower(), urllib.parse.quote(secret, safe="")
    ),
    "form": urllib.parse.quote_plus,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "base64 of three": lambda secret: base64.b64encode(f"u:{secret}".encode()).decode(),
    "base64 of a user": lambda secret: base64.b64encode(f"us:{secret}".encode()).decode(),
    "base64 of another": lambda secret: base64.b64encode(f"use:{secret}!".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [KEY, HARD])
def test_a_secret_is_found_in_each_of_its_forms(form, secret):
    text = FORMS[form](secret)
    masked = Mask([secret]).text(f"before {text} after")
    assert MASK in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert text[6:-6] not in masked


def test_the_longest_of_nested_secrets_is_masked():
    mask = Mask(["abc-0123456789", "abc-0123456789-longer", "x-abc-0123456789-longer-y"])
    assert mask.text("1 abc-0123456789 2 abc-0123456789-longer 3") == f"1 {MASK} 2 {MASK} 3"
    assert mask.text("x-abc-0123456789-longer-y") == MASK


@pytest.mark.parametrize("mark", ["…", "..."])
def test_the_start_of_a_shortened_secret_is_masked(mark):
    mask = Mask([KEY, "sk-Other/0123+456789"])
    for length in range(8, len(KEY)):
        assert mask.data([f"got '{KEY[:length]}{mark} not x"]) == ([f"got '{MASK}{mark} not x"], 1)
    for text in (f"got {KEY[:7]}{mark}", f"got {KEY[:9]}?{mark}", f"{KEY[:9]} and more{mark}"):
        assert mask.data(text) == (text, 0)


def test_a_hundred_secrets_are_all_found():
    secrets = [f"sk-{n:03}-{n * 7919:012}-Ab" for n in range(100)]
    text, found = Mask(secrets).data(" ".join(secrets))
    assert (text, found) == (" ".join([MASK] * 100), 100)


def test_two_keys_that_become_the_same_lose_no_value():
    other = "sk-Other/0123+456789"
    masked, found = Mask([KEY, other]).data({KEY: 1, MASK: 2, other: 3, "c": {KEY: [KEY]}})
    assert found == 4
    assert sorted(json.dumps(one) for one in masked.values()) == [
        "1", "2", "3", json.dumps({MASK: [MASK]}),
    ]  # fmt: skip


def test_a_secret_across_the_parts_of_a_list_is_not_in_its_json():
    masked, found = Mask(['begin-0123","end-4567']).data(["begin-0123", "end-4567"])
    assert found == 1
    assert 'begin-0123","end-4567' not in json.dumps(masked, separators=(",", ":"))


def test_bytes_are_masked_too():
    assert Mask([KEY]).data({"a": b"\xff " + KEY.encode()}) == ({"a": b"\xff [redacted]"}, 1)


def test_data_without_secrets_is_the_same_object():
    value = {"a": ["long-enough-to-look-at", 1, None]}
    assert Mask([KEY]).data(value) == (value, 0)
    assert Mask([KEY]).data(value)[0] is value


def test_a_declared_word_is_masked_only_where_it_stands_alone():
    mask = Mask(["postgres", "12345678"])
    assert mask.text("postgresql and postgres, 123456789") == f"postgresql and {MASK}, 123456789"


# ---- results ------------------------------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZER", "cl100k_base"),
        ("POSTGRES_PASSWORD", "postgres"),
        ("SORT_KEY", "internationalisation"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/secrets/nowhere/account.json"),
        ("KEYCLOAK_URL", "https://login.example.com/realms/one"),
        ("BOS_TOKEN", "<|begin_of_text|>"),
        ("KEY_COUNT", "1234567890123456"),
    ],
)
def test_what_is_hardly_a_secret_is_never_masked_in_a_result(tmp_path, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    row = {"id": value, "question": f"say {value}", "answer": value}

    def judge(output):
        return Score(1, explanation=f"it is {value}", metadata={value: value})

    result = evaluate(value, tmp_path / "run", [exact_match(), judge], row)
    (item,) = result.items
    assert (item.output.value, item.scores["exact_match"].value) == (value, True)
    assert (item.scores["judge"].explanation, item.scores["judge"].metadata) == (
        f"it is {value}",
        {value: value},
    )
    failed = evaluate(PermanentError(f"no {value}"), tmp_path / "failed", row=row)
    assert failed.items[0].error["message"] == f"no {value}"
    assert (result.summary["masked"], failed.summary["masked"]) == (0, 0)
    # What the code is made of is written of our own accord: there, a doubt is enough.
    assert {*found_in(tmp_path, MASK)} <= {"identity.json"}


def test_evaluators_see_the_original_and_the_disk_does_not(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MY_API_KEY", KEY)
    seen = []

    def judge(output, trace):
        seen.append((output, trace))
        return Score(output == f"my key: {KEY}", explanation=f"saw {KEY}", metadata={KEY: [KEY]})

    with caplog.at_level(logging.WARNING, "limpet"):
        result = evaluate(
            Output(f"my key: {KEY}", None, [{"said": KEY}], {"key": KEY}), tmp_path / "run", [judge]
        )
    assert seen == [(f"my key: {KEY}", [{"said": KEY}])]
    assert result.summary["scores"]["judge"]["mean"] == 1.0
    assert found_in(tmp_path, "Planted") == []
    (answer,) = lines(tmp_path / "run" / "workflow_output.jsonl")
    (score,) = lines(tmp_path / "run" / "judge_output.jsonl")
    assert (answer["output"], answer["_limpet"]["masked"]) == (f"my key: {MASK}", 3)
    assert answer["metadata"] == {"key": MASK}
    assert (score["metadata"], score["_limpet"]["masked"]) == ({MASK: [MASK]}, 3)
    assert score["_limpet"]["of"] == answer["_limpet"]["output"][1]  # it reads the trace, too
    assert result.summary["masked"] == 2
    assert json.loads((tmp_path / "run" / "summary.json").read_bytes())["masked"] == 2
    assert "workflow: the result for a contains a secret" in caplog.text


def test_a_masked_answer_is_not_scored_again_and_a_plan_knows_that(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)
    calls = []

    def judge(output):
        calls.append(output)
        return 1

    run = tmp_path / "run"
    evaluate(f"it is {KEY}", run, [judge])
    (run / "summary.json").unlink()  # or it would be known to be complete
    plan = limpet.plan([ROW], answering(None), [judge], run, version="1")
    again = evaluate(None, run, [judge])
    assert (plan.calls, again.plan.calls, calls) == (0, 0, [f"it is {KEY}"])
    assert again.items[0].scores["judge"].value == 1
    monkeypatch.delenv("MY_API_KEY")  # nor does it matter what is secret now
    assert limpet.plan([ROW], answering(None), [judge], run, version="1").calls == 0
    with RunReader(run) as reader:
        assert next(reader.items()).scores["judge"]["value"] == 1
        assert reader.summary()["masked"] == 1


def test_an_evaluator_that_comes_later_sees_the_masked_text_and_that_is_said(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("MY_API_KEY", KEY)
    run, seen = tmp_path / "run", []

    def late(output):
        seen.append(output)
        return 1

    evaluate(f"it is {KEY}", run)
    with caplog.at_level(logging.WARNING, "limpet"):
        result = evaluate(None, run, [late])
    assert seen == [f"it is {MASK}"]
    assert "late scores 1 answer with secrets masked" in caplog.text
    assert result.summary["evaluators"]["late"]["saw_masked"] == 1
    with RunReader(run) as reader:
        assert next(reader.items()).saw_masked == ("late",)


def test_masking_can_be_turned_off(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)
    result = evaluate(f"it is {KEY}", tmp_path / "run", mask=False)
    assert (result.items[0].output.value, result.summary["masked"]) == (f"it is {KEY}", 0)
    mapped = limpet.map(lambda one: KEY, [1], journal=tmp_path / "map.jsonl", mask=False)
    assert mapped.outputs == [KEY]


def test_rows_and_ids_are_never_masked(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)
    row = {"id": f"id {KEY}", "question": f"use {KEY}", "answer": KEY, KEY: {KEY: KEY}}
    result = evaluate("fine", tmp_path / "run", {"judge": lambda output: 1}, row)
    (line,) = lines(tmp_path / "run" / "workflow_output.jsonl")
    (final,) = exported(tmp_path / "run")
    assert line["row"] == {name: final[name] for name in row} == row
    assert (result.items[0].id, result.summary["masked"]) == (f"id {KEY}", 0)
    events = lines(tmp_path / "run" / "events.jsonl")
    assert {one["id"] for one in events if one["event"] == "started"} == {f"id {KEY}"}


class Unkept:
    """Has no JSON form, and a long repr that holds a secret where it is cut."""

    def __repr__(self):
        return f"<Unkept {KEY} {'x' * 9_000}{KEY * 80}>"


@pytest.mark.parametrize("where", ["answer", "deep", "dict key"])
def test_a_repr_of_what_has_no_json_form_holds_no_secret(tmp_path, monkeypatch, caplog, where):
    monkeypatch.setenv("MY_API_KEY", KEY)
    deep = [KEY]
    for _ in range(400):
        deep = [deep]
    values = {"answer": Unkept(), "deep": deep}
    value = values.get(where, {KEY: Unkept()})
    result = evaluate(value, tmp_path / "run")
    assert result.items[0].error["class"] == "encoding"
    assert found_in(tmp_path, "Planted", KEY[:9]) == []
    assert "Planted" not in caplog.text
    (failure,) = lines(tmp_path / "run" / "failures.jsonl")
    assert failure["_limpet"]["masked"] >= 1
    assert MASK in failure["repr"]
    assert result.summary["masked"] == 1


def test_steps_without_a_json_form_hold_no_secret(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MY_API_KEY", KEY)
    result = evaluate(Output("fine", trace=[Unkept(), KEY]), tmp_path / "run")
    assert result.items[0].output.value == "fine"
    assert found_in(tmp_path, "Planted", KEY[:9]) == []
    assert "Planted" not in caplog.text


def test_half_a_secret_is_not_written_either(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)
    for length in (980, 990, 1990):
        error = PermanentError("x" * length + KEY)
        result = evaluate(error, tmp_path / str(length))
        assert result.summary["masked"] == 1
    assert found_in(tmp_path, "Planted", KEY[:9]) == []


def test_a_map_writes_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)

    def fn(one):
        if one == 1:
            raise PermanentError(f"401 for {KEY}")
        return {2: Unkept(), 3: {KEY: 1}}.get(one, f"it is {KEY}")

    result = limpet.map(fn, [0, 1, 2, 3], journal=tmp_path / "out.jsonl")
    assert found_in(tmp_path, "Planted") == []
    assert result.outputs[0] == f"it is {MASK}"  # as it is kept, like every output
    assert result.outputs[3] == {MASK: 1}
    assert {one["_limpet"].get("masked") for one in lines(tmp_path / "out.jsonl")} == {1}
    failures = {one["id"]: one for one in lines(tmp_path / "out.jsonl.d" / "failures.jsonl")}
    assert failures["1"]["_limpet"]["masked"] == 3  # in message, attempt and traceback
    assert MASK in failures["2"]["repr"]
    assert limpet.map(fn, [0, 3], journal=tmp_path / "out.jsonl").kept == 2


def test_inputs_of_a_map_are_not_masked(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)
    limpet.map(len, [KEY], journal=tmp_path / "out.jsonl")
    assert lines(tmp_path / "out.jsonl")[0]["input"] == KEY


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"headers": dict(self.headers), "path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def echo():
    server = HTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({"Authorization": "Bearer hunter-2-x"}, "hunter-2-x"),
        ({"Authorization": "Bearer topsecret"}, "topsecret"),
        ({"X-Api-Key": "topsecret"}, "topsecret"),
        ({"X-Anything": "t-55-abc-x"}, "t-55-abc-x"),
        ({"Cookie": "sid=s3cr3t-sid; theme=x"}, "s3cr3t-sid"),
    ],
)
def test_an_answer_that_repeats_a_header_is_masked(tmp_path, echo, headers, secret):
    flow = limpet.workflows.http(f"http://{echo}/", headers=headers)
    result = limpet.evaluate([ROW], flow, [], tmp_path / "run")
    assert found_in(tmp_path, secret) == []
    assert result.items[0].output.value["path"] == "/"
    assert result.summary["masked"] == 1


def test_the_credentials_of_an_address_are_masked_in_an_answer(tmp_path, echo):
    flow = limpet.workflows.http(f"http://evaluation:pa55-word@{echo}/?api_key=k3y-9876&n=1")
    result = limpet.evaluate([ROW], flow, [], tmp_path / "run")
    basic = base64.b64encode(b"evaluation:pa55-word").decode()
    assert found_in(tmp_path, "pa55-word", "k3y-9876", basic) == []
    assert result.items[0].output.value["path"] == f"/?api_key={MASK}&n=1"


def test_headers_that_are_no_secrets_stay_in_an_answer(tmp_path, echo):
    headers = {"X-Role": "assistant", "Accept": "application/json", "X-Level": "1234567890"}
    flow = limpet.workflows.http(f"http://{echo}/", headers=headers)
    output = limpet.evaluate([ROW], flow, [], tmp_path / "run").items[0].output.value
    assert {name: output["headers"][name] for name in headers} == headers


def test_secrets_that_no_variable_holds_can_be_given(tmp_path):
    result = evaluate("from the vault: v4ult-key", tmp_path / "run", secrets=["v4ult-key"])
    assert result.items[0].output.value == f"from the vault: {MASK}"
    with pytest.raises(TypeError, match="^secrets: must be a list of strings$"):
        evaluate("x", tmp_path / "other", secrets="v4ult-key")
    given = {"journal": tmp_path / "map.jsonl", "secrets": ["v4ult-key"]}
    assert limpet.map(lambda _: "v4ult-key", [1], **given).outputs == [MASK]


@pytest.mark.quick(2)
@pytest.mark.parametrize("value", [JWT, PEM, "a/b" * 3000 + "1", "é1" * 200])
def test_a_long_secret_ends_nothing_and_is_masked(tmp_path, monkeypatch, value):
    monkeypatch.setenv("SERVICE_TOKEN", value)
    result = evaluate(f"it is {value}", tmp_path / "run")
    assert result.items[0].output.value == f"it is {MASK}"
    limpet.map(lambda _: value, [1], journal=tmp_path / "map.jsonl")
    assert found_in(tmp_path, value[30:60]) == []


def test_a_fingerprint_of_a_users_own_holds_no_secret_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)

    class Judge(limpet.Evaluator):
        name, endpoint, fingerprint = "judge", None, {"key": KEY}

        async def call(self, scored):
            return {"score": Score(1)}

    class Flow(limpet.Workflow):
        name, endpoint, fingerprint = "flow", "flow", {"key": KEY}

        def seen(self, item):
            return item.input

        async def open(self):
            """Nothing is needed."""

        async def close(self):
            """Nothing is held."""

        async def call(self, item):
            return Output("x")

    run = tmp_path / "run"
    limpet.evaluate([ROW], Flow(), [Judge()], run)
    again = limpet.evaluate([ROW], Flow(), [Judge()], run)
    assert (again.plan.calls, found_in(tmp_path, "Planted")) == (0, [])
    with RunReader(run) as reader:
        assert next(reader.items()).scores["judge"]["value"] == 1


def test_a_reason_to_stop_is_shown_and_kept_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)
    no_more = limpet.errors.QuotaExhaustedError(f"no more for {KEY}")
    result = cut_short(evaluate, no_more, tmp_path / "run")
    assert result.summary["stop_reason"] == f"no more for {MASK}"
    assert "Planted" not in result._repr_html_()
    assert found_in(tmp_path, "Planted") == []


def test_a_secret_as_the_name_of_a_model_is_masked(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", KEY)
    usage = limpet.Usage(1, models={f"https://u:{KEY}@host/m": {"prompt_tokens": 1}})

    def answer(question):
        return limpet.Output(question, usage)

    def judge(output):
        return limpet.Output(1, limpet.Usage(1, models={KEY: {"prompt_tokens": 1}}))

    run = tmp_path / "run"
    result = limpet.evaluate([ROW], answer, [judge], run=run, version="1")
    models = {"https://u:[redacted]@host/m": {"prompt_tokens": 1}}
    assert result.summary["workflow"]["models"] == models
    assert result.summary["evaluators"]["judge"]["models"] == {"[redacted]": {"prompt_tokens": 1}}
    files = [path for path in run.rglob("*") if path.is_file()]
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []
