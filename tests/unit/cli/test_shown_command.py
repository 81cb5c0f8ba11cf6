"""The command printed at the end of a run: as typed, without secrets."""

import pytest

from limpet.cli.shown_command import without_secrets


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
        (["--endpoint_header=X-Key: abc"], ["--endpoint_header=X-Key: …"]),
        (["--endpoint-header", "X-Key: ${T:-abc}"], ["--endpoint-header", "X-Key: ${T:-…}"]),
        (["--endpoint-header", "X-Key: abc ${T}"], ["--endpoint-header", "X-Key: …"]),
        (["--endpoint", "http://h/x?api-key=abc&n=1"], ["--endpoint", "http://h/x?api-key=…&n=1"]),
        (["--override=llms.a.api_key", "abc", "--x"], ["--override=llms.a.api_key", "…", "--x"]),
        (["--override=llms.a.model", "abc", "--x"], ["--override=llms.a.model", "abc", "--x"]),
        (["--override", "llms.a", "{b: c, api_key: abc}"], ["--override", "llms.a", "…"]),
        (
            ["--override", "llms.a.headers.X-Any", "abc"],
            ["--override", "llms.a.headers.X-Any", "…"],
        ),
        (["--set", "llms.a.headers.X-Any=abc"], ["--set", "llms.a.headers.X-Any=…"]),
        (["--set=llms.a.headers.X-Any=abc"], ["--set=llms.a.headers.X-Any=…"]),
        (["--set", "llms.a={b: c, api_key: abc}"], ["--set", "llms.a=…"]),
        (["--set", "llms.a={api_key: '${KEY}'}"], ["--set", "llms.a={api_key: '${KEY}'}"]),
        (["--set", "llms.a.base_url=http://me:pw@h"], ["--set", "llms.a.base_url=http://…@h"]),
        (["--set", "functions.f.args=[--api-key, abc]"], ["--set", "functions.f.args=…"]),
        (["--set", "x.max_tokens=3", "--set"], ["--set", "x.max_tokens=3", "--set"]),
        (["--override"], ["--override"]),
        (["--override", "llms.a.api_key"], ["--override", "llms.a.api_key"]),
    ],
)
def test_what_is_secret_in_a_command_is_not_shown(typed, shown):
    assert list(without_secrets(typed)) == shown
