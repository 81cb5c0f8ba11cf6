"""No key that a client puts into its exceptions is in what Limpet prints, logs or writes.

The key is in the user's code alone: no variable holds it, and nobody declared it.
"""

import os
import subprocess
import sys

import pytest
from model_server import failure, model_server

KEY, PASSWORD = "k9-Planted0123456789abcdef", "Planted-too"
APP = """
import asyncio
import logging
import os
import sys

KEY = "k9-Plan" + "ted0123456789abcdef"  # not as one literal
URL = os.environ["APP_ADDRESS"]
WITH_PASSWORD = URL.replace("://", "://user:Planted" + "-too@")
HEADERS = {"Authorization": "Bearer " + KEY}


async def by_aiohttp(question):
    import aiohttp

    async with aiohttp.ClientSession(headers=HEADERS) as session:
        async with session.post(URL, json={"messages": question}) as response:
            response.raise_for_status()


async def by_httpx(question):
    import httpx2

    async with httpx2.AsyncClient(headers=HEADERS) as client:
        response = await client.post(WITH_PASSWORD, json={"messages": question})
        if response.is_error:
            raise RuntimeError(response.request.url, response.request.headers.raw)


def by_requests(question):
    import requests

    response = requests.post(WITH_PASSWORD, headers=HEADERS, json={"messages": question})
    if not response.ok:
        raise RuntimeError(f"{response.request.headers} {response.request.url}")


async def by_openai(question):
    import openai

    async with openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as client:
        try:
            await client.chat.completions.create(model="m", messages=[])
        except openai.APIStatusError as error:
            raise RuntimeError(error.request.headers) from error


CALLS = {"aiohttp": by_aiohttp, "httpx2": by_httpx, "requests": by_requests, "openai": by_openai}
answer = CALLS[os.environ["APP_CLIENT"]]

if __name__ == "__main__":
    import limpet
    from limpet.executors import AsyncExecutor, SyncExecutor

    logging.basicConfig(level=logging.DEBUG if "-v" in sys.argv else logging.INFO)
    for name in ("urllib3", "httpx2", "httpcore2", "openai", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)  # theirs is theirs
    rows = [{"id": str(n), "question": "?"} for n in range(3)]
    retry = limpet.Retry(1, limpet.executors.Backoff(0, 0))
    kind = sys.argv[1]
    if kind == "map":
        print(limpet.map(answer, ["a", "b"], retry=retry))
        print(limpet.map(answer, ["a", "b"], retry=retry, journal="kept")._repr_html_())
    elif kind == "evaluate":
        limpet.evaluate(rows, answer, run="run", retry=retry)
    else:
        bar = "{l_bar}{bar}" if kind == "executor with a bar" else None
        executor = SyncExecutor if answer is by_requests else AsyncExecutor
        executor = executor(answer, tqdm_bar_format=bar, max_retries=1, exit_on_error=False)
        print(executor.run(["a", "b"])[0])
"""
KINDS = ("map", "executor", "executor with a bar", "evaluate", "limpet run")
CLIENTS = ("aiohttp", "httpx2", "requests", "openai")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_no_output_has_the_key(tmp_path, kind, client):
    pytest.importorskip(client)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "rows.jsonl").write_text(
        '{"id": "a", "question": "?"}\n{"id": "b", "question": "!"}\n'
    )
    (tmp_path / "eval.yml").write_text(
        "dataset: rows.jsonl\nworkflow: app:answer\n"
        "retry: {max_retries: 1, backoff: {base: 0, cap: 0}}\n"
    )
    command = ["app.py", kind] if kind != "limpet run" else ["-m", "limpet", "run", "eval.yml"]
    with model_server(lambda *_: failure(500)) as server:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env={**os.environ, "APP_ADDRESS": server.url, "APP_CLIENT": client},
            capture_output=True,
            check=False,
            text=True,
        )
    said = done.stdout + done.stderr
    assert len(server.asked) >= 4, said
    shows_failures = kind not in ("evaluate", "limpet run") and client in ("aiohttp", "requests")
    assert "[redacted]" in said or not shows_failures, said  # the other clients hide it themselves
    assert KEY not in said
    assert PASSWORD not in said
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "app.py"]
    assert not [path for path in files if "Planted0" in path.read_bytes().decode(errors="ignore")]


@pytest.mark.parametrize("kind", ["map", "evaluate"])
def test_what_is_printed_of_a_hook_that_fails_has_no_key(tmp_path, kind):
    script = f"""
import limpet, logging
logging.basicConfig()
def hook(_):
    raise RuntimeError({{"Authorization": "Bearer " + "k9-Plan" + "ted0123456789abcdef"}})
if {kind == "map"}:
    limpet.map(lambda q: q, ["a"], watcher=hook)
else:
    limpet.evaluate([{{"id": "a", "question": "?"}}], lambda question: "!", watcher=hook, run="run")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert "[redacted]" in done.stderr
    assert KEY not in done.stdout + done.stderr
