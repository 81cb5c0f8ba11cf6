"""A page of `limpet view` that gives labels, without a browser."""

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import ClientSession, CookieJar

from limpet.view.server import serving


class Client:
    def __init__(self, session, server):
        self.session, self.base = session, f"http://127.0.0.1:{server.port}"

    async def get(self, path, **headers):
        async with self.session.get(f"{self.base}/api/{path}", headers=headers) as answer:
            return answer.status, await answer.json() if answer.status != 304 else None

    async def data(self, path):
        status, data = await self.get(path)
        assert status == 200, data
        return data

    async def item(self, id_, trial=0, **query):
        more = "".join(f"&{name}={value}" for name, value in query.items())
        return await self.data(f"item?run=one&id={id_}&trial={trial}{more}")

    async def send(self, body, **headers):
        headers = {"Origin": self.base, "Content-Type": "application/json", **headers}
        headers = {name: value for name, value in headers.items() if value is not None}
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        async with self.session.post(
            f"{self.base}/api/label", data=data, headers=headers, skip_auto_headers=["Content-Type"]
        ) as answer:
            return answer.status, await answer.json()

    async def label(self, id_, label, score="right", trial=0, **more):
        """Label an answer as the page does."""
        return await self.send(
            {"run": "one", "id": id_, "trial": trial, "evaluator": score, "label": label, **more}
        )


@asynccontextmanager
async def page(runs, **options):
    async with (
        serving(runs, **options) as server,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as session,
    ):
        async with session.get(server.address):
            pass
        yield Client(session, server)


def on_page(runs, **options):
    """Run a test's coroutine with a page that is signed in."""

    def run(test):
        async def main():
            async with page(runs, **options) as client:
                return await test(client)

        return asyncio.run(main())

    return run


def lines(runs):
    path = runs / "one" / "labels.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
