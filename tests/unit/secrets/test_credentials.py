"""Credentials that nobody declared: in messages, in the URLs of variables, and in traces."""

import json
import logging
import re
from pathlib import Path

import pytest

import limpet
from limpet.secrets.masking import LOGGERS, Mask, Masking, without_credentials

KEY = "k9-Planted0123456789"
FORMS = [
    f"<CIMultiDictProxy('Host': 'h', 'Authorization': 'Bearer {KEY}', 'Accept': '*/*')>",
    f'{{"Authorization": "Bearer {KEY}"}}',
    json.dumps(json.dumps({"authorization": f"Bearer {KEY}"})),
    f"[(b'authorization', b'Bearer {KEY}')]",
    f"Authorization: Basic {KEY}",
    f"authorization={KEY}",
    f"proxy-authorization: {KEY}",
    f"{{'x-api-key': '{KEY}'}}",
    f"cannot connect to postgres://user:{KEY}@db.example.com/x",
    f"sent Bearer {KEY}, and was refused",
    f"Incorrect API key provided: sk-{KEY}",
]


@pytest.mark.parametrize("text", FORMS)
def test_credentials_in_a_message_are_hidden_and_the_rest_is_not(text):
    hidden, count = without_credentials(text)
    assert "Planted" not in hidden
    assert count == 1
    before = re.split(r"Bearer|Basic|k9|sk-", text)[0]
    assert hidden.startswith(before)
    assert without_credentials(hidden) == (hidden, 0)


@pytest.mark.parametrize(
    "text",
    [
        "unknown key: 'pace'",
        "Unexpected token: '<' at 3",
        "the bearer of bad news",
        "authorization is required",
        "without authorization, nothing works",
        "https://example.com/@me",
        "ghosts, hf_hub and skipping_all_of_the_slow_tests",
        "mail me at a@example.com or see http://x.y",
    ],
)
def test_what_only_sounds_like_it_stays(text):
    assert without_credentials(text) == (text, 0)


def test_the_password_in_the_url_of_any_variable_is_masked():
    url = "postgres://app:Planted0123456789xY@db/x"
    short = "redis://:Planted9@cache"
    masking = Masking(environment={"DATABASE_URL": url, "CACHE": short, "HOME_PAGE": "http://h/x"})
    for mask in (masking.ours, masking.certain, masking.results):
        assert mask.data({"a": f"got {url}"}) == ({"a": "got [redacted]"}, 1)
        assert mask.text("Planted0123456789xY") == "[redacted]"
        assert mask.text(f"no {short}") in ("no [redacted]", "no redis://:[redacted]@cache")
    assert masking.ours.text("it is Planted9") == "it is [redacted]"
    assert (
        masking.certain.text("it is Planted9, see http://h/x") == "it is Planted9, see http://h/x"
    )


def test_authorization_in_a_trace_is_masked_wherever_it_stands():
    request = {"headers": {"Authorization": f"Bearer {KEY}", "Accept": "*"}, "n": 1}
    trace = [{"kind": "tool", "input": request}, {"output": f"Authorization: Bearer {KEY}"}]
    masked, count = Mask().trace(trace)
    assert "Planted" not in json.dumps(masked)
    assert count == 2
    assert masked[0]["input"] == {"headers": {"Authorization": "[redacted]", "Accept": "*"}, "n": 1}
    harmless = [{"kind": "tool", "input": {"headers": {"Accept": "*"}}}]
    assert Mask().trace(harmless)[0] is harmless


@pytest.mark.parametrize("mask", [True, False])
def test_a_trace_on_disk_has_no_authorization_and_an_answer_is_as_it_was(tmp_path, mask):
    said = f"Send the header Authorization: Bearer {KEY}."
    seen = []

    def answer(question):
        trace = [{"kind": "tool", "name": "get", "input": {"authorization": f"Bearer {KEY}"}}]
        return limpet.Output(said, trace=trace, metadata={"Authorization": KEY})

    def saw(trace):
        seen.append(trace[0]["input"]["authorization"])
        return True

    limpet.evaluate(
        [{"id": "a", "question": "?"}], answer, [saw], run=tmp_path / "run", mask=mask,
        show=False,
    )  # fmt: skip
    (line,) = (tmp_path / "run" / "workflow_output.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["output"] == said
    assert line.count("Planted") == (1 if mask else 3)
    assert ("masked" in record["_limpet"]) is mask
    assert seen == [f"Bearer {KEY}"]


def test_an_error_on_disk_has_no_authorization(tmp_path):
    def answer(question):
        raise limpet.PermanentError(f"refused: {{'Authorization': 'Bearer {KEY}'}}")

    result = limpet.evaluate(
        [{"id": "a", "question": "?"}], answer, run=tmp_path / "run", show=False
    )
    assert result.items[0].error["message"] == "refused: {'Authorization': 'Bearer [redacted]'}"
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [path for path in files if b"Planted0123" in path.read_bytes()]


def test_each_of_our_loggers_masks(caplog):
    source = Path(limpet.__file__).parent
    named = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r'getLogger\("(limpet\.[^"]+)"\)', path.read_text(encoding="utf-8"))
    }
    assert named <= set(LOGGERS)
    for name in LOGGERS:
        try:
            raise ValueError({"Authorization": f"Bearer {KEY}"})
        except ValueError as error:
            logging.getLogger(name).error("it failed: %r", error, exc_info=error)  # noqa: TRY400
    assert len(caplog.records) == len(LOGGERS)
    assert "Planted" not in caplog.text
    assert caplog.text.count("[redacted]") >= 2 * len(LOGGERS)  # the source line has it, too


def test_a_password_in_a_url_of_the_environment_is_masked_wherever_it_stands():
    masking = Masking(environment={"DATABASE_URL": "postgres://app:hunter2secret@db/x"})
    assert masking.certain.text("login failed for hunter2secret") == "login failed for [redacted]"


@pytest.mark.parametrize(
    "text",
    [
        f"404 for http://127.0.0.1/x?key={'d41d8cd9' * 4}&page=2",
        f"404 for http://127.0.0.1/x?access_token={'d41d8cd9' * 4}",
        f"Client(api_key='{'d41d8cd9' * 4}', base_url='x')",
    ],
)
def test_a_key_among_parameters_is_masked_by_its_name(text):
    masked, count = without_credentials(text)
    assert (count, "d41d8cd9" in masked) == (1, False)


@pytest.mark.parametrize(
    "text", ["sort(key=lambda one: one.name)", "max_token=1234567890", "key=5"]
)
def test_other_parameters_stay(text):
    assert without_credentials(text) == (text, 0)
