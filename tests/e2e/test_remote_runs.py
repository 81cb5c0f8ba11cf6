"""Remote workflows that work: what is sent, what is kept, through which way, and after a kill."""

import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import sys
import textwrap

import pytest
from aiohttp import web
from cut_short import ended
from e2e import ready_limpet
from e2e.servers import (
    answering,
    data,
    peer,
    sending,
    server_tls,
    site,
    step,
    streaming,
    unanswered_port,
)

import limpet
from limpet.pacing.observation import Observation, observe_into
from limpet.workflows import http, nat
from tests.exported import exported

ROW = {"id": "q1", "question": "Wie?", "answer": "so", "n": 7, "place": "a b/ü"}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def ask(workflow, rows=(ROW,), **more):
    options = {"pace": 4, "retry": 0, "save": "run" in more}
    return ended(limpet.evaluate, list(rows), workflow, **(options | more))


async def called(workflow, item):
    await workflow.open()
    try:
        return await workflow.call(item)
    finally:
        await workflow.close()


def test_a_remote_workflow_leaves_the_garbage_collector_of_its_host_alone():
    before, during = gc.get_threshold(), []

    def look(output):
        during.append(gc.get_threshold())
        return True

    with site(answering({"answer": "so"})) as server:
        ask(http(server.url, answer="$.answer"), evaluators=[look])
    assert during == [before]


# ---- the toolkit --------------------------------------------------------------------------------


def test_tokens_are_joined_and_the_input_is_sent_under_its_key():
    with site(streaming(data("so "), data("it "), data("is"), b"data: [DONE]")) as server:
        result = ask(nat(server.url + "/", input_key="query", headers={"X-Key": "k"}))
        assert result.items[0].output.value == "so it is"
        ((method, path, headers, body),) = server.seen
    assert (method, path, json.loads(body)) == ("POST", "/generate/full", {"query": "Wie?"})
    assert headers["X-Key"] == "k"
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("path", ["/generate", "/v1/workflow/full"])
def test_another_path_may_answer_whole(path):
    with site(answering({"value": {"an": ["object"]}})) as server:
        assert ask(nat(server.url, path=path)).items[0].output.value == {"an": ["object"]}
        assert server.seen[0][1] == path


def test_usage_comes_from_the_steps_by_model_with_its_times():
    tokens = {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4, "total_tokens": 15}
    lines = [
        step("LLM_START", 1.0),
        step("LLM_END", 1.5, usage=tokens),
        data("x"),
        step("LLM_END", 4.0, name="other", uuid="u2", span_event_timestamp=3.0,
             usage={"prompt_tokens": 1, "reasoning_tokens": 1}),
        step("WORKFLOW_END", 5.0),
    ]  # fmt: skip
    with site(streaming(*lines)) as server:
        output = asyncio.run(called(nat(server.url), limpet.Item("1", "x")))
        summary = ask(nat(server.url), rows=[ROW, {**ROW, "id": "q2"}]).summary
    models, times = output.usage.models, output.usage.times
    assert models["model"]["cached_tokens"] == 4
    assert models["other"]["total_tokens"] == 1
    assert (times["min_timestamp"], times["max_timestamp"], times["runtime"]) == (1, 5, 4)
    assert times["llm_latency"] == pytest.approx(0.975)
    assert summary["workflow"]["models"]["model"]["cached_tokens"] == 8
    assert summary["workflow"]["llm_latency_p95"] == pytest.approx(0.975)
    assert summary["workflow"]["usage"] == {
        "prompt_tokens": 22, "completion_tokens": 10, "total_tokens": 32, "cached_tokens": 8,
        "reasoning_tokens": 2, "cache_write_tokens": 0,
    }  # fmt: skip


def test_the_pacer_is_told_what_the_response_says_of_limits_and_usage():
    async def watched(url):
        seen = Observation()
        observe_into(seen)
        await called(nat(url), limpet.Item("1", "x"))
        return seen

    headers = {"x-ratelimit-limit-requests": "100"}
    body = {"value": "x", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    with site(answering(body, headers=headers)) as server:
        seen = asyncio.run(watched(server.url))
        assert seen.headers["X-RateLimit-Limit-Requests"] == "100"
        assert seen.usage == {"total_tokens": 7}
        workflow = nat(server.url)
        pacer = limpet.pacing.Pacer(workflow.endpoint)
        ask(workflow, pace=limpet.Pace(concurrency="auto", pacer=pacer))
        assert pacer.state.usage == {"total_tokens": 7}


# ---- plain HTTP ---------------------------------------------------------------------------------


def test_the_body_is_made_of_the_row_and_the_answer_is_found_by_its_path():
    reply = {"choices": [{"text": "so"}], "model": "m", "usage": {"prompt_tokens": 2}}
    with site(answering(reply)) as server:
        workflow = http(
            f"{server.url}/v1/{{{{place}}}}?n={{{{n}}}}",
            method="PUT",
            body={"q": "{{input}}", "n": "{{n}}", "text": "{{id}}: {{expected}}"},
            answer="$.choices[0].text",
        )
        result = ask(workflow, evaluators=[limpet.exact_match()])
        ((method, path, _, body),) = server.seen
    assert (method, path) == ("PUT", "/v1/a%20b%2F%C3%BC?n=7")
    assert json.loads(body) == {"q": "Wie?", "n": 7, "text": "q1: so"}
    assert result.items[0].output.value == "so"
    assert result.summary["scores"]["exact_match"]["mean"] == 1
    assert result.summary["workflow"]["usage"]["prompt_tokens"] == 2


def test_a_get_sends_no_body_and_the_default_answer_is_all_of_it():
    with site(answering({"a": 1})) as server:
        result = ask(http(f"{server.url}/?q={{{{input}}}}", method="GET"))
        ((method, path, headers, body),) = server.seen
    assert (method, path, body) == ("GET", "/?q=Wie%3F", b"")
    assert "Content-Type" not in headers
    assert result.items[0].output.value == {"a": 1}


def test_the_default_body_is_the_input():
    with site(answering("x")) as server:
        ask(http(server.url))
        assert json.loads(server.seen[0][3]) == {"input": "Wie?"}


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ({"b": 1}, "'$.a[*]' finds nothing in the response: {'b': 1}"),
        ({"a": [1, 2]}, "'$.a[*]' finds 2 values in the response"),
        ({"a": [None]}, "the answer at '$.a[*]' is null"),
        ({"b": "x" * 1000}, "x…"),
    ],
)
def test_a_path_that_does_not_lead_to_one_value_is_a_permanent_failure(reply, says):
    with site(answering(reply)) as server:
        (item,) = ask(http(server.url, answer="$.a[*]"), retry=3).items
        assert len(server.seen) == 1
    assert item.error["class"] == "permanent"
    assert says in item.error["message"]


def test_statuses_say_what_is_a_success():
    with site(answering({"error": "teapot"}, 418)) as server:
        assert ask(http(server.url, statuses=[418])).items[0].output.value == {"error": "teapot"}
        assert "status 418" in ask(http(server.url)).items[0].error["message"]


def test_a_response_that_is_no_json_is_said_with_its_type():
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>"
    with peer(sending(raw)) as server:
        (item,) = ask(http(server.url)).items
    assert item.error["class"] == "permanent"
    assert item.error["message"].endswith("the response is text/html, not JSON: <p>")


def test_a_column_that_is_missing_is_said_before_anything_is_sent():
    with site(answering("x")) as server:
        with pytest.raises(limpet.LimpetError, match="no column 'nn'"):
            ask(http(server.url, body={"x": "{{nn}}"}))
        assert server.seen == []


# ---- what is kept -------------------------------------------------------------------------------


def test_an_agent_with_a_version_may_move_and_its_answers_are_kept(tmp_path):
    options = {"run": tmp_path / "run"}
    with site(streaming(data("x"))) as server:
        ask(nat(server.url, version="1"), **options)
    with site(streaming(data("y"))) as server:
        result = ask(nat(server.url, version="1"), **options)
        assert (result.items[0].output.value, len(server.seen)) == ("x", 0)
        assert ask(nat(server.url), **options).items[0].output.value == "y"


def test_no_header_value_is_written_into_the_run(tmp_path):
    async def answer(request):
        return web.Response(status=500, text=request.headers["X-Key"])

    with site(answer) as server:
        workflow = nat(server.url, headers={"X-Key": "hunter22hunter22"})
        ask(workflow, run=tmp_path / "run")
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) > 3
    assert all(b"hunter2" not in path.read_bytes() for path in files)


# ---- the way there ------------------------------------------------------------------------------


def test_one_connection_serves_many_calls():
    ports = set()

    async def answer(request):
        ports.add(request.transport.get_extra_info("peername"))
        return web.json_response({"value": "x"})

    with site(answer) as server:
        ask(nat(server.url), rows=[{**ROW, "id": str(n)} for n in range(50)], pace=2)
    assert len(ports) <= 2


def test_a_proxy_from_the_environment_is_used_with_its_credentials(monkeypatch):
    heads = []

    async def script(writer, asked):
        heads.append(asked.head)
        body = b'{"value":"by proxy"}'
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    with peer(script) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("://", "://me:hunter22@"))
        assert ask(nat("http://agent.invalid:8000")).items[0].output.value == "by proxy"
    assert heads[0].startswith(b"POST http://agent.invalid:8000/generate/full HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6aHVudGVyMjI=" in heads[0]


def test_a_proxy_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://me:hunter22@127.0.0.1:{unanswered_port()}")
    with pytest.raises(
        limpet.errors.EndpointDownError, match="its proxy http://127.0.0.1:"
    ) as caught:
        ask(nat("http://agent.invalid:8000"))
    assert "hunter22" not in str(caught.value)


def test_a_self_signed_certificate_is_refused_before_the_first_call(certificate):
    with site(answering({"value": "x"}), server_tls(*certificate)) as server:
        with pytest.raises(limpet.errors.EndpointDownError) as caught:
            ask(nat(server.url))
        assert server.seen == []
    assert "its certificate is not trusted: self-signed certificate" in str(caught.value)
    assert "SSL_CERT_FILE" in caught.value.hint


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_certificate_that_the_environment_names_is_trusted(certificate, monkeypatch, name):
    monkeypatch.setenv(name, str(certificate[0]))
    with site(answering({"value": "x"}), server_tls(*certificate)) as server:
        assert ask(nat(server.url)).items[0].output.value == "x"


def test_a_server_without_tls_behind_https_is_said():
    with site(answering({"value": "x"})) as server:
        url = server.url.replace("http://", "https://")
        with pytest.raises(limpet.errors.EndpointDownError, match="TLS failed"):
            ask(nat(url))


def test_a_name_that_nobody_knows_is_said():
    with pytest.raises(limpet.errors.EndpointDownError, match="^http://agent.invalid:8000: "):
        ask(nat("http://agent.invalid:8000"))


def test_a_server_that_is_not_there_ends_the_command_with_2(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "question": "x"}\n')
    (tmp_path / "app.py").write_text(
        "from limpet.workflows import nat\n"
        f"agent = nat('http://127.0.0.1:{unanswered_port()}', headers={{'X-Key': 'hunter22'}})\n"
    )
    (tmp_path / "eval.yml").write_text("dataset: rows.jsonl\nworkflow: app:agent\n")
    done = ready_limpet.run(["run"], cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "error: http://127.0.0.1:" in done.stderr
    assert "connection refused" in done.stderr
    assert "hint: start the server" in done.stderr


def test_importing_the_room_imports_no_http_client():
    script = (
        "import sys, limpet.run, limpet.workflows as w; w.as_workflow;"
        "print([m for m in ('aiohttp', 'jsonpath') if m in sys.modules])"
    )
    done = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert done == "[]\n"


# ---- killed -------------------------------------------------------------------------------------

SCRIPT = """
    import os, sys
    import limpet
    from limpet.workflows import nat

    rows = [{"id": f"q{n}", "question": str(n)} for n in range(int(sys.argv[3]))]
    os.write(1, b"ready\\n")
    result = limpet.evaluate(rows, nat(sys.argv[2]), run=sys.argv[1], pace=16)
    os.write(1, f"done {result.summary['workflow']['completed']}\\n".encode())
"""


def start(run, url, count):
    return ready_limpet.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(run), url, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def on_disk(run):
    column = run / "workflow_output.jsonl"
    lines = column.read_bytes().split(b"\n")[:-1] if column.exists() else []
    return {json.loads(line)["row"]["question"] for line in lines}


def kill_again_and_again(run, kills, count):
    rng = random.Random(7)

    async def answer(request):
        question = (await request.json())["input_message"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(data(question) + b"\n\n")
        await asyncio.sleep(rng.random() * 0.01)
        await response.write(data("y" * (int(question) * 37 % 3000)) + b"\n\n")
        await response.write_eof()
        return response

    with site(answer) as server:

        def asked_since(at):
            return {json.loads(body)["input_message"] for *_, body in server.seen[at:]}

        for _ in range(kills):
            done, seen = on_disk(run), len(server.seen)
            process = start(run, server.url, count)
            assert process.stdout.readline() == "ready\n"
            # At a random moment: after so many more calls as the server counts them.
            target = seen + rng.randrange(0, 60)
            while len(server.seen) < target and process.poll() is None:
                pass
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=250)
            assert done.isdisjoint(asked_since(seen)), "a finished item was asked for again"
            assert done <= on_disk(run), "an answer was lost"
        done, seen = on_disk(run), len(server.seen)
        out, _ = start(run, server.url, count).communicate(timeout=250)
        assert out.splitlines()[-1] == f"done {count}"
        assert done.isdisjoint(asked_since(seen))
    answers = exported(run)
    expected = [str(n) + "y" * (n * 37 % 3000) for n in range(count)]
    assert [one["generated_answer"] for one in answers] == expected


@pytest.mark.slow
def test_ten_kills_ask_no_finished_item_again(tmp_path):
    kill_again_and_again(tmp_path / "run", kills=10, count=400)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_thirty_kills_ask_no_finished_item_again(tmp_path):
    kill_again_and_again(tmp_path / "run", kills=30, count=1200)
