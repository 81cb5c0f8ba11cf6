"""A server of any provider's own API on loopback, which answers as the test says.

    with native_server(raw({"candidates": []})) as server:
        model = provider_api("gemini", server.url, model="m", key="k")

What is answered: a `raw(…)`, a plain body, or a function of the request's JSON and its number.
"""

import json
from contextlib import contextmanager

from aiohttp import web
from e2e.servers import served_by
from model_server import Asked, Raw, raw


class NativeServer:
    """The server.

    Attributes:
        url: Its address.
        requests: Every `Asked` in order; the path as it was sent.
    """

    def __init__(self, answer, listed):
        self._answer = answer if callable(answer) else lambda request, number: answer
        self._listed = listed
        self.requests = []

    @property
    def asked(self):
        """The bodies of the calls."""
        return [request.json for request in self.requests if request.method == "POST"]

    async def handle(self, request):
        sent = await request.read()
        body = json.loads(sent or b"null")
        number = len(self.asked)
        path = request.raw_path
        self.requests.append(Asked(request.method, path, request.headers.copy(), body))
        self.sent = sent
        listed = self._listed(path) if callable(self._listed) else self._listed
        made = listed if request.method == "GET" else self._answer(body, number)
        made = made if isinstance(made, Raw) else raw(made)
        return web.Response(body=made.body, status=made.status, headers=made.headers)


@contextmanager
def native_server(answer, listed=None):
    """Run a server; `listed` is its list of models, or a function of the path."""
    server = NativeServer(answer, raw({}, 404) if listed is None else listed)
    with served_by(server.handle) as server.url:
        yield server


def events(*bodies):
    """Return a stream of events, each after `data:`."""
    lines = [b"data: " + json.dumps(body).encode() + b"\r\n\r\n" for body in bodies]
    return raw(b"".join(lines), headers={"Content-Type": "text/event-stream"})
