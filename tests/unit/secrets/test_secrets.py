"""No secret of a configuration is written down, and nothing else is taken for one."""

import pytest
import yaml

from limpet.integrations.nat.workflow import counted_blocks
from limpet.secrets.in_configs import masked, masked_text, without_query, without_user

FILE = """
llms:
  m:
    api_key: nvapi-LITERAL-1
    api_keys_are: fine
    password: 'it''s-QUOTED-4'
    headers: {X-Any: HEADER-5, Y: "${NAME}"}
    credentials: [LIST-one-1, {deep: MAP-3}]
    url: postgres://u:p@URL-6@host/db
    max_new_token: 17
    stop_token: </s>
functions:
  password_reset: {prompt: be kind}
"""
SECRETS = ("nvapi-LITERAL-1", "QUOTED-4", "HEADER-5", "LIST-one-1", "MAP-3", "URL-6")
KEPT = ("fine", "${NAME}", "17", "</s>", "be kind")


def test_a_file_is_written_down_without_its_secrets_and_with_all_else():
    for written in (masked_text(FILE), yaml.safe_dump(masked(yaml.safe_load(FILE)))):
        assert [secret for secret in SECRETS if secret in written] == []
        assert [text for text in KEPT if text not in written] == []
        assert yaml.safe_load(written)["functions"] == {"password_reset": {"prompt": "be kind"}}


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("be kind", "be rude", True),
        ("</s>", "<end>", True),
        ("17", "18", True),
        ("nvapi-LITERAL-1", "nvapi-ROTATED-2", False),
    ],
)
def test_what_answers_depend_on_is_noticed_and_a_rotated_key_is_not(tmp_path, old, new, counts):
    before = counted_blocks(yaml.safe_load(FILE), tmp_path)
    after = counted_blocks(yaml.safe_load(FILE.replace(old, new)), tmp_path)
    assert (before != after) is counts


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("http://h/p", "http://h/p"),
        ("http://us:p@SS@h/p", "http://[redacted]@h/p"),
        ("http://us:PW@${HOST}/p", "http://[redacted]@${HOST}/p"),
        ("http://${USER}:${PW}@h/p", "http://${USER}:${PW}@h/p"),
        ("http://${USER}:${PW:-p}@h/p", "http://${USER}:${PW:-[redacted]}@h/p"),
    ],
)
def test_an_address_is_kept_without_its_user(address, kept):
    assert without_user(address) == kept


def test_headers_and_queries_are_masked_but_for_variables():
    workflow = {
        "http": {
            "url": "http://h/p?api_key=SECRET&who={{id}}&k=${K}",
            "headers": {
                "A": "Bearer ${K}",
                "B": "Bearer SECRET ${K}",
                "C": "SECRET",
                "D": "${K:-SECRET}",
            },
        }
    }
    kept = masked(workflow)["http"]
    assert kept["url"] == "http://h/p?api_key=[redacted]&who={{id}}&k=${K}"
    assert kept["headers"] == {
        "A": "Bearer ${K}",
        "B": "[redacted]",
        "C": "[redacted]",
        "D": "${K:-[redacted]}",
    }


def test_every_literal_in_the_query_of_an_address_can_be_hidden():
    address = "http://us:PW@h/p?code=SECRET&who={{id}}&k=${K}"
    assert without_query(address) == "http://[redacted]@h/p?code=[redacted]&who={{id}}&k=${K}"
