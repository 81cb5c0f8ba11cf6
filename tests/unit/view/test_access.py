"""Who may read the pages: a real client against a real server on this machine's loopback."""

import asyncio
import os
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, CookieJar

import limpet
from limpet.view.server import serving


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    (folder / "outside").mkdir()
    for place in ("runs/one", "outside/secret"):
        limpet.evaluate(
            [{"id": "0", "question": "a", "answer": "A"}],
            str.upper,
            [limpet.exact_match()],
            run=limpet.Run(folder / place, durability="flush"),
        )
    (folder / "runs" / "link").symlink_to(folder / "outside" / "secret")
    return folder / "runs"


@asynccontextmanager
async def client(runs, **options):
    async with (
        serving(runs, **options) as server,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as session,
    ):
        yield server, session, f"http://127.0.0.1:{server.port}"


def ask(runs, *requests, sign_in=True, **options):
    """Return the status and the text of each answer; a request is a path or (path, options)."""

    async def main():
        found = []
        async with client(runs, **options) as (server, session, base):
            if sign_in:
                async with session.get(server.address) as answer:
                    assert answer.status == 200
            for request in requests:
                path, more = (
                    (request, {}) if isinstance(request, str) else (request[0], {**request[1]})
                )
                method = more.pop("method", "GET")
                headers = {
                    name: value.format(port=server.port)
                    for name, value in more.pop("headers", {}).items()
                }
                async with session.request(method, base + path, headers=headers, **more) as answer:
                    found.append((answer.status, await answer.text(), answer.headers))
        return found

    return asyncio.run(main())


def statuses(runs, *requests, **options):
    return [status for status, *_ in ask(runs, *requests, **options)]


def test_the_printed_address_lets_in_and_leaves_no_token_in_the_address(runs):
    async def main():
        async with client(runs) as (server, session, base):
            async with session.get(server.address, allow_redirects=False) as answer:
                assert answer.status == 303
                assert answer.headers["Location"] == "/"
                cookie = answer.headers["Set-Cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=Strict" in cookie
            async with session.get(f"{base}/api/runs") as answer:
                assert [run["name"] for run in (await answer.json())["runs"]] == ["one"]

    asyncio.run(main())


def test_without_the_token_nothing_is_said_about_runs(runs):
    found = ask(
        runs, "/api/runs", "/", "/live.js", "/?token=wrong", "/api/runs?token=wrong", sign_in=False
    )
    assert [status for status, *_ in found] == [401] * 5
    assert "Open the address that limpet view printed" in found[1][1]
    assert not any(
        "one" in text and "runs" in text for _, text, _ in found if text.startswith('{"runs')
    )


def test_a_token_in_the_address_of_data_does_not_count(runs):
    async def main():
        async with client(runs) as (server, session, base):
            token = server.address.partition("token=")[2]
            async with session.get(f"{base}/api/runs?token={token}") as answer:
                assert answer.status == 401

    asyncio.run(main())


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "",
        "localhost.evil.example:{port}",
    ],
)
def test_another_host_is_refused(runs, host):
    assert statuses(runs, ("/api/runs", {"headers": {"Host": host}})) == [403]


def test_a_forwarded_port_is_named(runs):
    request = ("/api/runs", {"headers": {"Host": "box.example:8080"}})
    assert statuses(runs, request) == [403]
    # Its cookie is of another port: it must sign in under that name.
    [answer] = ask(runs, request, allow_hosts=["box.example:8080"])
    assert answer[0] == 401
    assert "token" in answer[1]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1"]
)
def test_a_page_of_another_site_is_refused(runs, origin):
    assert statuses(runs, ("/api/runs", {"headers": {"Origin": origin}})) == [403]


def test_our_own_page_is_not(runs):
    headers = {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}
    assert statuses(runs, ("/api/runs", {"headers": headers})) == [200]
    assert statuses(runs, ("/api/runs", {"headers": {"Sec-Fetch-Site": "cross-site"}})) == [403]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(runs, method):
    assert statuses(runs, ("/api/runs", {"method": method})) == [405]


def test_head_is_reading(runs):
    assert statuses(runs, ("/api/runs", {"method": "HEAD"})) == [200]


@pytest.mark.parametrize(
    "run",
    ["../outside/secret", "link", "..%2Foutside%2Fsecret", "..%252Foutside%252Fsecret",
     "one/../one", "./one", "one/", "%2Fetc", ".", "", "one%00", "%F0%9F%90%9A",
     "..\\outside\\secret"],
)  # fmt: skip
def test_no_run_outside_the_directory_is_opened(runs, run):
    paths = [f"/api/{view}?run={run}&id=0" for view in ("run", "items", "item")]
    assert statuses(runs, *paths) == [404, 404, 404]


def test_an_absolute_path_is_no_run(runs):
    secret = os.fspath((runs.parent / "outside" / "secret").resolve())
    assert statuses(runs, f"/api/run?run={secret}", f"/api/run?run={runs / 'one'}") == [404, 404]


@pytest.mark.parametrize(
    "path",
    ["/../server.py", "/..%2fserver.py", "/access.py", "/uplot/../../server.py", "/uplot/LICENSE"],
)
def test_only_files_of_the_pages_are_served(runs, path):
    assert statuses(runs, path) == [404]


def test_each_answer_binds_the_browser(runs):
    for _, _, headers in ask(runs, "/", "/api/runs", "/api/none", ("/", {"method": "POST"})):
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers


def test_an_answer_that_has_not_changed_is_not_sent_again(runs):
    async def main():
        async with client(runs) as (server, session, base):
            async with session.get(server.address):
                pass
            for path in (
                "run?run=one",
                "items?run=one",
                "item?run=one&id=0",
                "compare?base=one&new=one",
            ):
                async with session.get(f"{base}/api/{path}") as answer:
                    assert answer.status == 200, await answer.text()
                    tag = answer.headers["ETag"]
                async with session.get(
                    f"{base}/api/{path}", headers={"If-None-Match": tag}
                ) as answer:
                    assert answer.status == 304

    asyncio.run(main())


@pytest.mark.parametrize(
    "query",
    [
        "sort=none", "below=x", "below=score:x", "where=x", "from=-1", "count=1e9", "label=x",
        "below=exact_match:nan", "below=exact_match:inf", "above=exact_match:-inf",
        "below=exact_match:1e999", "below=exact_match:1_0", "below=exact_match:", "failed=nobody",
    ],
)  # fmt: skip
def test_a_wrong_query_is_said(runs, query):
    [(status, text, _)] = ask(runs, f"/api/items?run=one&{query}")
    assert status == 400
    assert query.partition("=")[0] in text or "no score" in text or "no step" in text


def test_a_port_in_use_is_said(runs):
    async def main():
        async with serving(runs) as server:
            with pytest.raises(limpet.LimpetError, match=f"port {server.port}: .*in use"):
                async with serving(runs, port=server.port):
                    pass

    asyncio.run(main())
