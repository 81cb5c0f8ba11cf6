"""The command that a run ends with: as it was typed, without secrets."""

import pytest

from holdfast.cli.again import without_secrets


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (["run", "eval.yml", "--limit", "5"], ["run", "eval.yml", "--limit", "5"]),
        (["--endpoint-header", "X-Key: abc"], ["--endpoint-header", "X-Key: …"]),
        (["--endpoint_header", "X-Key: abc"], ["--endpoint_header", "X-Key: …"]),
        (["--endpoint-header=X-Key: abc"], ["--endpoint-header=X-Key: …"]),
        (["--endpoint-header", "A: Bearer ${T}"], ["--endpoint-header", "A: Bearer ${T}"]),
        (["--endpoint", "http://me:pw@host/x"], ["--endpoint", "http://…@host/x"]),
        (["--endpoint=http://me:pw@host/x"], ["--endpoint=http://…@host/x"]),
        (["--set", "llms.a.api_key=abc"], ["--set", "llms.a.api_key=…"]),
        (["--set=llms.a.api_key=abc"], ["--set=llms.a.api_key=…"]),
        (["--set", "llms.a.api_key=${KEY}"], ["--set", "llms.a.api_key=${KEY}"]),
        (["--set", "trials=3"], ["--set", "trials=3"]),
        (["--override", "llms.a.api_key", "abc"], ["--override", "llms.a.api_key", "…"]),
        (["--override", "llms.a.model", "abc"], ["--override", "llms.a.model", "abc"]),
    ],
)
def test_what_is_secret_in_a_command_is_not_shown(typed, shown):
    assert list(without_secrets(typed)) == shown
