"""Answers that look like answers and are none, and secrets that a server repeats."""

import base64
import json
import os

import pytest
from aiohttp import web
from cut_short import ended
from e2e.servers import (
    AGENT_ERROR,
    CHUNKED,
    LAST_CHUNK,
    answering,
    chunk,
    data,
    peer,
    sending,
    site,
    streaming,
)

import limpet
from limpet.executors import Backoff
from limpet.workflows import http, nat

JSON = b"Content-Type: application/json\r\n"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def ask(workflow, count=1, row=None, **more):
    rows = [{"id": f"q{n}", "question": f"Repeat {n}", **(row or {})} for n in range(count)]
    options = {"pace": 1, "retry": limpet.Retry(2, Backoff(0, 0)), "save": False}
    return ended(limpet.evaluate, rows, workflow, **(options | more))


def failure(workflow):
    result = ask(workflow)
    assert result.stop_reason is None
    (item,) = result.items
    assert (item.status, item.output) == ("failed", None)
    return item.error["class"], item.error["message"]


def whole(body, status=b"200 OK", more=JSON):
    head = b"HTTP/1.1 " + status + b"\r\nConnection: close\r\n" + more
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


# ---- secrets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"X-Api-Key": "k3y"}, "k3y"),
        ({"Authorization": "Bearer pw-1"}, "pw-1"),
        ({"Cookie": "sid=s3cr; theme=dark"}, "s3cr"),
        ({"X-My-Token": "a/b"}, "a%2Fb"),
        ({"Authorization": "Basic " + base64.b64encode(b"me2:pw2").decode()}, "pw2"),
    ],
)
def test_a_short_secret_is_hidden_where_the_name_of_its_header_tells_that_it_is_one(headers, said):
    with site(answering(f"no {said}, no", 500)) as server:
        _, message = failure(nat(server.url, headers=headers))
    assert message.endswith('500: "no [redacted], no"')


def test_what_is_no_secret_can_still_be_read():
    async def answer(request):
        return web.Response(text="Bearer token 1: the monkey's keyk3y is no k3y", status=500)

    with site(answer) as server:
        options = {"headers": {"X-Api-Key": "k3y", "X-Level": "1", "Authorization": "Bearer x1y"}}
        _, message = failure(nat(server.url, **options))
    assert message.endswith("500: Bearer token 1: the monkey's keyk3y is no [redacted]")


FORMS = {
    "as it is": lambda secret: f"bad: {secret}.",
    "percent-encoded": lambda _: "http://me:p%22w%20%2Fx@host/",
    "in lower case": lambda _: "http://me:p%22w%20%2fx@host/",
    "as JSON": lambda secret: json.dumps({"m": f"bad\n{secret}"}),
    "as base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "as a header": lambda secret: base64.b64encode(f"me:{secret}".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_password_of_an_address_is_hidden_in_each_of_its_forms(form):
    secret = 'p"w /x'  # noqa: S105 - it is made up

    async def answer(request):
        return web.Response(text=FORMS[form](secret), status=500)

    with site(answer) as server:
        url = server.url.replace("://", "://me:p%22w%20%2Fx@")
        _, message = failure(nat(url))
    assert "[redacted]" in message
    assert "w /x" not in message
    assert "w%20" not in message
    assert base64.b64encode(secret.encode()).decode() not in message


def test_a_key_in_the_query_and_a_proxys_password_are_hidden(monkeypatch):
    said = b"no: /ask?api_key=k3y, me2:pw2, cHcy"
    with peer(sending(whole(said, b"500 No"))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("://", "://me2:pw2@"))
        _, message = failure(http("http://agent.invalid/ask?api_key=k3y"))
    hidden = "[redacted]"
    assert message.endswith(f"no: /ask?api_key={hidden}, {hidden}, {hidden}")


def test_a_key_of_many_kilobytes_is_hidden_though_only_its_beginning_would_be_shown():
    async def answer(request):
        return web.Response(text="bad: " + request.headers["Authorization"], status=500)

    with site(answer) as server:
        options = {"headers": {"Authorization": "Bearer " + "jwt" * 1000}}
        _, message = failure(nat(server.url, **options))
    assert "jwt" not in message


# ---- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("/a b/{{n}}", "/a%20b/7"),
        ("/a%20b/{{n}}", "/a%20b/7"),
        ("/größe/{{n}}?q=ü&x={{n}}", "/gr%C3%B6%C3%9Fe/7?q=%C3%BC&x=7"),
        ("/100%/{{n}}", "/100%25/7"),
        ("/{{place}}", "/a%20b%2F%25C3%C3%BC"),
        ("?x={{n}}&y=<{{place}}>", "/?x=7&y=%3Ca%20b%2F%25C3%C3%BC%3E"),
    ],
)
def test_the_literal_parts_of_an_address_are_encoded_once_as_without_placeholders(written, sent):
    row = {"n": 7, "place": "a b/%C3ü"}
    answer = b'{"a":1}'
    with peer(sending(whole(answer))) as server:
        (item,) = ask(http(server.url + written, method="GET"), row=row).items
        assert item.output.value == {"a": 1}
        plain = written.replace("{{n}}", "7")
        if "{{" not in plain:
            ask(http(server.url + plain, method="GET"))
        lines = {one.head.split(b"\r\n")[0].decode() for one in server.asked}
    assert lines == {f"GET {sent} HTTP/1.1"}


# ---- a refusal that is cut ----------------------------------------------------------------------

DETAIL = json.dumps({"detail": [{"loc": ["body", "question"], "msg": "Field required"}]}).encode()
UNPROCESSABLE = b"HTTP/1.1 422 No\r\nConnection: close\r\n" + JSON


@pytest.mark.quick(4)
@pytest.mark.parametrize("workflow", [nat, http])
@pytest.mark.parametrize("body", [DETAIL, json.dumps(AGENT_ERROR).encode()])
@pytest.mark.parametrize(
    ("head", "says"),
    [
        (UNPROCESSABLE + b"Content-Length: 999\r\n\r\n", "the response is incomplete"),
        (UNPROCESSABLE + b"Transfer-Encoding: chunked\r\n\r\n3e7\r\n", "response is incomplete"),
        (UNPROCESSABLE + b"\r\n", "status 422, with a truncated body"),
    ],
)
def test_a_422_that_is_cut_is_tried_again_for_nobody_knows_who_is_to_blame(
    workflow, body, head, says
):
    with peer(sending(head + body[:-2])) as server:
        kind, message = failure(workflow(server.url))
        assert len(server.asked) == 3
    assert kind == "transient"
    assert says in message


def test_a_422_whose_detail_repeats_a_large_input_is_still_about_the_form():
    detail = {"detail": [{"loc": ["body", "q"], "msg": "Field required", "input": "x" * 200_000}]}
    with site(answering(detail, 422)) as server:
        result = ask(nat(server.url), count=5)
        assert len(server.seen) == 1
    assert "'q': Field required" in str(result.stop_reason)


@pytest.mark.parametrize(("status", "kind"), [(b"410 Gone", "permanent"), (b"500 No", "transient")])
def test_where_the_status_tells_enough_a_cut_body_changes_nothing(status, kind):
    raw = b"HTTP/1.1 " + status + b"\r\nContent-Length: 999\r\n\r\nbecause"
    with peer(sending(raw)) as server:
        found, message = failure(nat(server.url))
    assert found == kind
    assert message.endswith(f"status {status.decode()[:3]}: because")


# ---- JSON that cannot be kept -------------------------------------------------------------------


def nested(levels):
    return b'{"value":' + b"[" * levels + b"]" * levels + b"}"


BAD_JSON = {
    "infinite": (b'{"value":1e999}', "a number too large to store (1e999)"),
    "minus infinite": (b'{"value":[-1E+400]}', "a number too large to store (-1E+400)"),
    "long": (b'{"value":%s}' % (b"7" * 5000), "a number too long to read (5000 digits)"),
    "deep": (nested(200), "nested too deep to store, beyond 200 levels"),
    "deeper": (nested(2_000), "nested too deep to store, beyond 200 levels"),
    "deepest": (nested(100_000), "nested too deep to store, beyond 200 levels"),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", BAD_JSON)
@pytest.mark.parametrize("kind", ["nat", "nat stream", "http"])
def test_json_that_cannot_be_kept_is_a_failed_attempt_with_its_reason(name, kind, tmp_path):
    body, says = BAD_JSON[name]
    raw = whole(body)
    if kind == "nat stream":
        raw = CHUNKED + chunk(b"data: " + body + b"\n\n") + LAST_CHUNK
    with peer(sending(raw)) as server:
        workflow = http(server.url) if kind == "http" else nat(server.url)
        result = ask(workflow, run=tmp_path / "run")
        assert len(server.asked) == 3
    (item,) = result.items
    assert (result.stop_reason, item.error["class"]) == (None, "transient")
    assert says in item.error["message"]
    assert "Traceback" not in item.error["message"]


def test_an_answer_as_deep_as_allowed_is_kept_and_read_back(tmp_path):
    for body, path in ((nested(199), "$"), (nested(199), "$.value")):
        with peer(sending(whole(body))) as server:
            workflow = http(server.url, answer=path, version="1")
            for _ in range(2):
                run = tmp_path / path.strip("$.")
                (item,) = ask(workflow, run=run / "run").items
                assert item.status == "completed", item.error
            assert len(server.asked) == 1
    assert json.dumps(item.output.value) == "[" * 199 + "]" * 199


# ---- headers ------------------------------------------------------------------------------------


def test_a_long_header_is_no_obstacle_and_one_beyond_all_bounds_is_said():
    with peer(
        sending(whole(b'{"value":"x"}', more=JSON + b"X-Long: %s\r\n" % (b"x" * 60_000)))
    ) as server:
        assert ask(nat(server.url)).items[0].output.value == "x"
    with peer(
        sending(whole(b'{"value":"x"}', more=JSON + b"X-Long: %s\r\n" % (b"x" * 70_000)))
    ) as server:
        kind, message = failure(nat(server.url))
    assert kind == "permanent"
    assert message.endswith("a header of the response is longer than 64 KB")


# ---- successes without an answer ----------------------------------------------------------------

NO_ANSWERS = {
    b"202 Accepted": "status 202: accepted, but the answer is not ready",
    b"204 No Content": "status 204: no content, so no answer",
    b"205 Reset Content": "status 205: no content, so no answer",
    b"206 Partial Content": "status 206: only part of the answer",
}


@pytest.mark.parametrize("workflow", [nat, http])
@pytest.mark.parametrize("status", NO_ANSWERS)
def test_a_success_without_the_answer_is_a_failure_with_its_reason(workflow, status):
    body = b"" if status.startswith((b"204", b"205")) else b'{"value":"job 7"}'
    with peer(sending(whole(body, status))) as server:
        kind, message = failure(workflow(server.url))
        assert len(server.asked) == 1
    assert kind == "permanent"
    assert NO_ANSWERS[status] in message


def test_a_status_that_is_listed_is_an_answer_if_it_has_one():
    with peer(sending(whole(b'{"job":7}', b"202 Accepted"))) as server:
        assert ask(http(server.url, statuses=[202])).items[0].output.value == {"job": 7}
    with peer(sending(whole(b"", b"204 No Content"))) as server:
        kind, message = failure(http(server.url, statuses=[200, 204]))
    assert (kind, message.endswith("status 204 has no body, so no answer")) == (
        "permanent",
        True,
    )
    with peer(sending(whole(b'{"value":"x"}', b"201 Created"))) as server:
        assert ask(nat(server.url)).items[0].output.value == "x"


def test_a_redirect_cannot_be_listed_for_it_is_followed():
    for statuses in ([200, 302], [304]):
        with pytest.raises(limpet.LimpetError, match="a redirect is not an answer") as caught:
            http("http://agent", statuses=statuses)
        assert "redirects are followed" in caught.value.hint


# ---- errors that come as answers ----------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"error": "no tool"}, "no tool"),
        ({"error": {"message": "no tool", "code": 7}}, "'message': 'no tool'"),
        ({"error": True, "message": "no tool"}, "'message': 'no tool'"),
        ({"jsonrpc": "2.0", "id": 1, "result": None, "error": {"message": "no tool"}}, "no tool"),
    ],
)
@pytest.mark.parametrize("kind", ["nat", "nat stream", "http"])
def test_an_error_that_comes_as_an_answer_is_a_failed_attempt_with_what_it_says(kind, body, says):
    line = b"data: " + json.dumps(body).encode()
    handler = streaming(data("half"), line) if kind == "nat stream" else answering(body)
    with site(handler) as server:
        found, message = failure(http(server.url) if kind == "http" else nat(server.url))
        assert len(server.seen) == 3
    assert found == "transient"
    assert ("the response is an error: " if kind == "http" else "the workflow failed: ") in message
    assert says in message


@pytest.mark.parametrize(
    "body",
    [
        {"error": None, "result": "x"},
        {"error": "", "result": "x"},
        {"error": False},
        {"error": "rounded", "result": 7},
        {"error": 0.25},
        {"error": {}},
        ["error"],
    ],
)
def test_an_answer_that_only_mentions_an_error_is_an_answer(body):
    with site(answering(body)) as server:
        assert ask(http(server.url)).items[0].output.value == body


def test_an_agents_value_is_its_answer_whatever_stands_beside_it():
    with site(answering({"value": "x", "error": "late"})) as server:
        assert ask(nat(server.url)).items[0].output.value == "x"


def test_where_the_path_finds_nothing_the_error_is_shown_though_it_stands_last():
    body = {"request": "x" * 1000, "error": {"message": "no tool"}}
    with site(answering(body)) as server:
        kind, message = failure(http(server.url, answer="$.choices[0].text"))
    assert kind == "permanent"
    assert message.endswith(
        "'$.choices[0].text' finds nothing in the response: it says {'message': 'no tool'}"
    )


# ---- event streams ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([b"event: error\ndata: no tool"], "the workflow failed: no tool"),
        ([b"event:error\r\ndata: no\r\ndata: tool"], "the workflow failed: no\\ntool"),
        ([data("half"), b'id: 7\nevent: error\ndata: {"error":"no tool"}'], "failed: no tool"),
        ([b"event: error\ndata: " + json.dumps(AGENT_ERROR).encode()],
         "the workflow failed: RuntimeError: no such tool"),
        ([data("half"), b"event: error"], "an empty error event"),
        ([data("half"), b'event: error\ndata: {"value":"no tool"}', data("more")], "no tool"),
    ],
)  # fmt: skip
def test_an_error_event_is_a_failure_with_what_it_says(lines, says):
    with site(streaming(*lines)) as server:
        kind, message = failure(nat(server.url))
    assert kind == "transient"
    assert says in message


def test_comments_and_the_other_fields_of_an_event_stream_are_no_part_of_the_answer():
    lines = [b": ping", b"retry: 3000", b"id: 7\nevent: message\n" + data("so"), data(" it is")]
    with site(streaming(*lines)) as server:
        assert ask(nat(server.url)).items[0].output.value == "so it is"


# ---- a path that is not there -------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 405])
def test_a_path_that_is_not_there_stops_the_run_at_the_first_item(status):
    with site(answering({"detail": "no"}, status)) as server:
        result = ask(nat(server.url, path="/generat"), count=100)
        assert len(server.seen) == 1
        assert isinstance(result.stop_reason, limpet.errors.SetupError)
        assert f"/generat: status {status}" in str(result.stop_reason)
        assert "path='/generat'" in result.stop_reason.hint
        assert result.summary["workflow"]["not_run"] == 100
        result = ask(http(f"{server.url}/ask"), count=100)
        assert isinstance(result.stop_reason, limpet.errors.SetupError)
        assert len(server.seen) == 1 + (5 if status == 404 else 1)
        # The place of one item may be missing.
        result = ask(http(f"{server.url}/{{{{id}}}}"), count=3)
        assert result.summary["workflow"]["failed"] == {"permanent": 3}


def test_when_the_first_items_are_all_refused_the_run_stops():
    with site(answering({"message": "no such model"}, 403)) as server:
        for workflow in (nat(server.url), http(server.url)):
            server.seen.clear()
            result = ask(workflow, count=100)
            assert len(server.seen) == 5
            assert "the first 5 items were refused, and none was answered" in str(
                result.stop_reason
            )
            assert "no such model" in str(result.stop_reason)


def test_after_an_answer_a_404_is_about_that_item():
    async def answer(request):
        missing = b"Repeat 1" in await request.read()
        return web.json_response({"value": "x"}, status=404 if missing else 200)

    with site(answer) as server:
        for workflow in (nat(server.url), http(server.url)):
            result = ask(workflow, count=3)
            assert result.stop_reason is None
            assert [one.status for one in result.items] == ["completed", "failed", "completed"]


def test_a_first_item_that_is_not_found_by_what_was_asked_stops_nothing():
    async def answer(request):
        missing = b"Repeat 0" in await request.read()
        return web.json_response("x", status=404 if missing else 200)

    with site(answer) as server:
        result = ask(http(server.url), count=3)
        assert [one.status for one in result.items] == ["failed", "completed", "completed"]
