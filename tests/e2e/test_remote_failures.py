"""Every way in which a server fails, by a real server: the kind, the reason, the attempts."""

import asyncio
import gzip
import json
import os

import pytest
from aiohttp import web
from cut_short import ended
from e2e.servers import (
    AGENT_ERROR,
    CHUNKED,
    LAST_CHUNK,
    OK,
    STREAM,
    answering,
    chunk,
    data,
    peer,
    reset,
    sending,
    silence,
    site,
    step,
    streaming,
    unanswered_port,
)

import limpet
from limpet.executors import Backoff
from limpet.workflows import http, nat
from tests.exported import exported

NO_WAIT = Backoff(0, 0)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


class Tries(limpet.types.Watcher):
    count = 0

    def started(self, cell, attempt):
        self.count += 1


def ask(workflow, count=1, **more):
    """Evaluate; the result also says how many attempts were made."""
    tries = Tries()
    rows = [{"id": f"q{n}", "question": f"Repeat {n}"} for n in range(count)]
    options = {"pace": 1, "retry": limpet.Retry(2, NO_WAIT), "save": False, "watcher": tries}
    result = ended(limpet.evaluate, rows, workflow, **(options | more))
    result.tries = tries.count
    return result


def the_failure(result):
    (item,) = result.items
    assert (item.status, item.output) == ("failed", None)
    error = item.error
    return error["class"], error["message"], result.tries


def nat_fails(server, kind, attempts, *says, **options):
    """Ask the agent; it must fail in this way, with the path in its message."""
    failed, message, tries = the_failure(ask(nat(server.url, **options)))
    assert "POST " in message
    assert "/generate/full" in message
    for one in says:
        assert one in message
    assert (failed, tries) == (kind, attempts)
    return message


# ---- streams that are no answer -----------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("raw", "kind", "attempts", "says"),
    [
        (STREAM + b"\r\n", "transient", 3, "the stream may be truncated"),
        (CHUNKED + chunk(data("half an an")), "transient", 3, "the response is incomplete"),
        (CHUNKED + chunk(data("x") + b"\n\n") + b"ff\r\ndata: {", "transient", 3, "is incomplete"),
        (STREAM + b"Content-Length: 999\r\n\r\n" + data("x"), "transient", 3, "is incomplete"),
        (STREAM + b"\r\n" + data("x") + b"\n\n", "transient", 3, "the stream may be truncated"),
        (CHUNKED + chunk(b'data: {"value":"\xff\xfe"}\n\n') + LAST_CHUNK, "transient", 3,
         "not UTF-8"),
        (CHUNKED + chunk(b'data: {"value":"a"\n\n') + LAST_CHUNK, "transient", 3, "not JSON"),
        (CHUNKED + chunk(b'data: {"value":null}\n\n') + LAST_CHUNK, "permanent", 1,
         "the answer is null"),
        (CHUNKED + chunk(data("a") + b"\n\n" + data({"b": 1})) + LAST_CHUNK, "permanent", 1,
         "2 parts that are not all strings: dict, str"),
        (CHUNKED + chunk(data("half") + b"\n\n" + json.dumps(AGENT_ERROR).encode()) + LAST_CHUNK,
         "transient", 3, "the workflow failed: RuntimeError: no such tool"),
        (CHUNKED + chunk(json.dumps(AGENT_ERROR).encode()) + LAST_CHUNK, "transient", 3,
         "the workflow failed: RuntimeError: no such tool"),
        (OK + b"Content-Type: text/html\r\nContent-Length: 14\r\n\r\n<h1>Login</h1>",
         "permanent", 1, "the response is text/html, not text/event-stream"),
        (OK + b"Content-Length: 2\r\n\r\nhi", "permanent", 1, "the response is untyped"),
        (OK + b"Content-Type: application/json\r\nContent-Length: 3\r\n\r\n{]}", "transient", 3,
         "not JSON"),
        (OK + b"Content-Type: application/json\r\nContent-Length: 0\r\n\r\n", "transient", 3,
         "the response is empty"),
        (OK + b"Content-Type: application/json\r\nContent-Length: 14\r\n\r\n" + b'{"value":null}',
         "permanent", 1, "the answer is null"),
        (OK + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n" + b"{}",
         "permanent", 1, "no 'value': {}"),
        (b"", "transient", 3, "the connection was closed without a response"),
        (b"SSH-2.0-OpenSSH_9\r\n", "transient", 3, "the response is not HTTP"),
        (STREAM + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx", "permanent", 1,
         "encoded as 'br'"),
        (STREAM + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain", "transient", 3,
         "the compressed response is broken"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)  # fmt: skip
def test_a_stream_that_is_no_whole_answer_is_a_failed_attempt(raw, kind, attempts, says):
    with peer(sending(raw)) as server:
        nat_fails(server, kind, attempts, says)
        assert len(server.asked) == attempts


def test_a_reset_in_the_middle_of_a_stream_is_tried_again_and_no_part_is_kept():
    times = []

    async def script(writer, asked):
        times.append(asked)
        writer.write(CHUNKED + chunk(data("half ") + b"\n\n"))
        await writer.drain()
        if len(times) < 3:
            reset(writer)
            return
        writer.write(chunk(data("and half") + b"\n\n") + LAST_CHUNK)

    with peer(script) as server:
        (item,) = ask(nat(server.url)).items
        assert item.output.value == "half and half"
        assert item.attempts == 3
        assert len(server.asked) == 3


def test_a_chunk_that_ends_inside_a_character_is_whole_with_the_next():
    text = "日本語 Grüße 😀"
    raw = b"data: " + json.dumps({"value": text}, ensure_ascii=False).encode() + b"\r\n\r\n"
    pieces = [chunk(raw[at : at + 1]) for at in range(len(raw))]
    with peer(sending(CHUNKED, *pieces, LAST_CHUNK)) as server:
        assert ask(nat(server.url)).items[0].output.value == text


def test_a_line_of_megabytes_is_an_answer_like_any_other():
    text = "x" * 4_000_000
    with site(streaming(data(text))) as server:
        assert ask(nat(server.url)).items[0].output.value == text


# ---- too much -----------------------------------------------------------------------------------


def test_a_response_beyond_the_bound_is_refused_by_its_announced_length():
    with peer(sending(STREAM + b"Content-Length: 99999999\r\n\r\n")) as server:
        message = nat_fails(server, "permanent", 1, max_response_mb=1)
        assert message.endswith("the response is larger than 1 MB")


def test_a_response_beyond_the_bound_is_refused_while_it_comes():
    async def endless(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    with site(endless) as server:
        nat_fails(server, "permanent", 1, "larger than 2 MB", max_response_mb=2)


def test_a_packed_bomb_is_not_unpacked():
    bomb = gzip.compress(b"x" * 50_000_000)
    head = STREAM + f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    with peer(sending(head + bomb)) as server:
        nat_fails(server, "permanent", 1, "larger than 1 MB", max_response_mb=1)
        assert b"Accept-Encoding: identity" in server.asked[0].head


def test_a_packed_answer_is_read_though_nobody_asked_for_it():
    packed = gzip.compress(data("hello") + b"\n\n")
    head = STREAM + f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    with peer(sending(head + packed)) as server:
        assert ask(nat(server.url)).items[0].output.value == "hello"


# ---- too slow -----------------------------------------------------------------------------------


def test_a_server_that_never_answers_meets_the_first_byte_timeout():
    with peer(silence) as server:
        nat_fails(server, "transient", 3, "no response within 0.1 s", first_byte_timeout=0.1)


def test_a_stream_that_stops_meets_the_between_bytes_timeout():
    async def script(writer, asked):
        writer.write(CHUNKED + chunk(data("half") + b"\n\n"))
        await silence(writer, asked)

    with peer(script) as server:
        says = "no more of the response within 0.1 s"
        nat_fails(server, "transient", 3, says, between_bytes_timeout=0.1)


def test_a_stream_that_drips_meets_the_total_timeout_and_not_the_other():
    async def drip(writer, asked):
        writer.write(CHUNKED)
        while True:
            writer.write(chunk(b": ping\n\n"))
            await writer.drain()
            await asyncio.sleep(0.02)

    with peer(drip) as server:
        options = {"between_bytes_timeout": 5, "first_byte_timeout": 5, "timeout": 0.3}
        nat_fails(server, "transient", 3, "no complete answer within 0.3 s", **options)


def test_a_timeout_is_a_timeout_error():
    async def go(url):
        workflow = nat(url, first_byte_timeout=0.1)
        await workflow.open()
        try:
            with pytest.raises(TimeoutError):
                await workflow.call(limpet.Item("1", "x"))
        finally:
            await workflow.close()

    with peer(silence) as server:
        asyncio.run(go(server.url))


# ---- statuses -----------------------------------------------------------------------------------


def test_429_waits_as_long_as_the_server_says():
    times = []

    async def answer(request):
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            return web.json_response({"error": "slow"}, status=429, headers={"Retry-After": "0.3"})
        return web.json_response({"value": "x"})

    with site(answer) as server:
        result = ask(nat(server.url), retry=limpet.Retry(backoff=NO_WAIT))
    assert result.items[0].output.value == "x"
    assert times[1] - times[0] >= 0.3


@pytest.mark.parametrize(
    ("status", "kind", "attempts"),
    [(500, "transient", 3), (503, "transient", 3), (410, "permanent", 1), (403, "permanent", 1)],
)
def test_a_status_that_is_no_success_is_a_failure_of_its_kind(status, kind, attempts):
    with site(answering({"why": "because\x1b[31m"}, status)) as server:
        message = nat_fails(server, kind, attempts, f"status {status}", "because")
        assert "\x1b" not in message


def test_the_toolkits_422_with_its_error_object_is_a_workflow_failure():
    with site(answering(AGENT_ERROR, 422)) as server:
        kind, message, attempts = the_failure(ask(nat(server.url, path="/generate")))
        assert (kind, attempts) == ("transient", 3)
        assert message.endswith("/generate: the workflow failed: RuntimeError: no such tool")


DETAIL = {"detail": [{"type": "missing", "loc": ["body", "question"], "msg": "Field required"}]}


def test_a_422_with_detail_stops_the_run_at_the_first_item_and_names_the_field():
    with site(answering(DETAIL, 422)) as server:
        result = ask(nat(server.url), count=1000)
        assert len(server.seen) == 1
    assert isinstance(result.stop_reason, limpet.errors.SetupError)
    assert "/generate/full: the server expects a different request" in str(result.stop_reason)
    assert "'question': Field required" in str(result.stop_reason)
    assert "'input_message'" in result.stop_reason.hint
    assert result.summary["workflow"]["failed"] == {}
    assert result.summary["workflow"]["not_run"] == 1000


def test_a_422_with_detail_after_answers_is_about_that_item():
    async def answer(request):
        if b"Repeat 1" in await request.read():
            return web.json_response(DETAIL, status=422)
        return web.json_response({"value": "x"})

    with site(answer) as server:
        result = ask(nat(server.url), count=3)
    assert result.stop_reason is None
    assert [one.status for one in result.items] == ["completed", "failed", "completed"]


def test_a_wrong_key_stops_the_run_and_is_not_shown_though_the_server_repeats_it():
    async def answer(request):
        text = "x" * 280 + f" bad key: {request.headers['Authorization']}"
        return web.Response(text=text, status=401)

    with site(answer) as server:
        workflow = nat(server.url, headers={"Authorization": "Bearer hunter22hunter22"})
        result = ask(workflow, count=100)
        assert len(server.seen) == 1
    assert isinstance(result.stop_reason, limpet.errors.SetupError)
    assert "status 401" in str(result.stop_reason)
    assert "hunter2" not in str(result.stop_reason)


# ---- redirects ----------------------------------------------------------------------------------


def test_a_redirect_to_another_server_is_refused_when_headers_would_go_there():
    with site(streaming(data("stolen"))) as thief:

        async def answer(request):
            return web.Response(status=307, headers={"Location": f"{thief.url}/generate/full"})

        with site(answer) as server:
            message = nat_fails(
                server, "permanent", 1, "redirects to another server", thief.url,
                headers={"X-Api-Key": "hunter22hunter22"},
            )  # fmt: skip
            assert "hunter2" not in message
            assert thief.seen == []
            # Without any, there is nothing to steal.
            assert ask(nat(server.url)).items[0].output.value == "stolen"


def test_a_redirect_on_the_same_server_is_followed_with_what_is_sent():
    async def answer(request):
        if request.path == "/generate/full":
            return web.Response(status=308, headers={"Location": "/moved"})
        return web.json_response({"value": (await request.json())["input_message"]})

    with site(answer) as server:
        result = ask(nat(server.url, headers={"X-Api-Key": "hunter22"}))
        assert result.items[0].output.value == "Repeat 0"
        assert [headers["X-Api-Key"] for _, _, headers, _ in server.seen] == ["hunter22"] * 2


@pytest.mark.parametrize(
    ("status", "location", "says"),
    [
        (302, "/login", "would drop the request body"),
        (307, "/generate/full", "redirected more than 5 times"),
        (307, "", "without a valid location"),
        (307, "http://[", "without a valid location"),
    ],
)
def test_a_redirect_that_leads_nowhere_good_is_a_failure(status, location, says):
    async def answer(request):
        return web.Response(status=status, headers={"Location": location})

    with site(answer) as server:
        nat_fails(server, "permanent", 1, says)


# ---- the nine failures of the peer, as far as they concern remote runs --------------------------


def test_peers_failure_5_one_bad_answer_does_not_end_the_run():
    bad = {
        "Repeat 1": CHUNKED + chunk(b"data: " + b"x" * 600_000) + LAST_CHUNK,
        "Repeat 2": CHUNKED + chunk(b'data: {"value":7}\n\n') + LAST_CHUNK,
        "Repeat 3": CHUNKED + chunk(json.dumps(AGENT_ERROR).encode()) + LAST_CHUNK,
        "Repeat 4": CHUNKED + chunk(data("half") + b"\n\n" + json.dumps(AGENT_ERROR).encode())
        + LAST_CHUNK,
        "Repeat 5": b"",
    }  # fmt: skip
    good = CHUNKED + chunk(data("fine") + b"\n\n") + LAST_CHUNK

    async def script(writer, asked):
        question = json.loads(asked.body)["input_message"]
        if question == "Repeat 6":
            await silence(writer, asked)
        writer.write(bad.get(question, good))

    with peer(script) as server:
        result = ask(nat(server.url, first_byte_timeout=0.2), count=9, pace=4)
    assert result.stop_reason is None
    assert [one.output and one.output.value for one in result.items] == [
        "fine", None, 7, None, None, None, None, "fine", "fine",
    ]  # fmt: skip
    assert result.summary["workflow"]["completed"] == 4
    assert sum(result.summary["workflow"]["failed"].values()) == 5


def test_peers_failure_5_a_server_that_is_down_is_one_error_and_nothing_is_called():
    port = unanswered_port()
    with pytest.raises(limpet.errors.EndpointDownError) as caught:
        ask(nat(f"http://127.0.0.1:{port}"), count=1000)
    assert str(caught.value) == (f"http://127.0.0.1:{port}: connection refused")
    assert caught.value.hint == "start the server, or check the address; nothing was called"


def test_peers_failure_5_retry_after_is_heeded_and_a_reset_is_tried_again():
    test_429_waits_as_long_as_the_server_says()
    test_a_reset_in_the_middle_of_a_stream_is_tried_again_and_no_part_is_kept()


def test_peers_failure_2_without_evaluators_the_answers_are_written(tmp_path):
    with site(streaming(data("fine"))) as server:
        ask(nat(server.url), count=3, run=tmp_path / "run")
    written = exported(tmp_path / "run")
    assert [one["generated_answer"] for one in written] == ["fine"] * 3


def test_peers_failure_6_a_failure_is_no_answer_and_has_no_score():
    with site(answering(AGENT_ERROR, 422)) as server:
        result = ask(nat(server.url), count=2, evaluators=[limpet.exact_match()])
    summary = result.summary["evaluators"]["exact_match"]
    mean = result.summary["scores"]["exact_match"]["mean"]
    assert (summary["completed"], mean) == (0, None)
    assert [one.scores for one in result.items] == [{}, {}]


# ---- an outage later is the pacer's matter ------------------------------------------------------


def test_an_outage_in_the_middle_of_a_run_costs_no_item_its_attempts():
    down = []

    async def answer(request):
        if 20 <= len(server.seen) < 26:
            down.append(1)
            request.transport.abort()
            return web.Response()
        return web.json_response({"value": "x"})

    with site(answer) as server:
        result = ask(
            nat(server.url), count=50, pace="auto", retry=limpet.Retry(max_retries=10, backoff=None)
        )
    assert down
    assert result.summary["workflow"]["completed"] == 50


def test_steps_after_the_answer_are_read():
    lines = [step("LLM_START", 1.0), data("fine"), step("LLM_END", 2.0), step("WORKFLOW_END", 3.0)]
    with site(streaming(*lines)) as server:
        everything = ask(nat(server.url)).items[0].output.trace
        assert [event.get("ended", event.get("started")) for event in everything] == [1.0, 2.0, 3.0]


def test_http_has_the_same_ground_under_it():
    with peer(sending(OK + b"Content-Length: 99\r\n\r\n{")) as server:
        kind, message, attempts = the_failure(ask(http(f"{server.url}/ask?key=hunter22")))
    assert (kind, attempts) == ("transient", 3)
    assert message.startswith(f"POST {server.url}/ask: the response is incomplete")
    assert "hunter22" not in message


def test_a_bare_number_without_a_marked_end_may_be_cut_and_is_tried_again():
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n1234"
    with peer(sending(raw)) as server:
        kind, message, tries = the_failure(ask(http(server.url)))
    assert (kind, tries) == ("transient", 3)
    assert "a bare number of unknown length" in message


def test_a_stream_whose_workflow_has_not_ended_was_cut_though_its_framing_is_whole():
    begun = [step("WORKFLOW_START", uuid="w"), data("The answer is "), data("not ")]
    with site(streaming(*begun)) as server:
        nat_fails(server, "transient", 3, "it ended before its workflow")
    whole = [*begun, data("so"), step("WORKFLOW_END", uuid="w")]
    with site(streaming(*whole)) as server:
        assert ask(nat(server.url)).items[0].output.value == "The answer is not so"


def test_a_refusal_of_one_item_stays_its_own_in_later_sessions(tmp_path):
    async def choosy(request):
        asked = (await request.json())["input_message"]
        if asked.endswith("1"):
            return web.json_response({"detail": [{"loc": ["body", "x"], "msg": "no"}]}, status=422)
        return web.json_response({"value": "yes"})

    with site(choosy) as server:
        for _ in range(2):
            rows = [{"id": f"q{n}", "question": f"Q{n}"} for n in range(4)]
            result = limpet.evaluate(
                rows, nat(server.url, path="/generate"), run=tmp_path / "run", pace=1
            )
            assert result.stop_reason is None
            assert result.summary["workflow"]["failed"] == {"permanent": 1}
