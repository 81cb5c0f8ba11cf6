"""What do the responses say that another library's evaluator receives and does not pass on?

Most libraries keep only the text of a reply. Their clients are OpenAI's or Anthropic's, built on
httpx: while an evaluator is open, a hook reads the headers and the usage of each response. Clients
of another kind are left alone: then there is no usage, and nothing else changes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from limpet.evaluators.libraries.shapes import get
from limpet.pacing.ticket import observe
from limpet.types import Usage

_Counts = list[Mapping[str, Any]]
_current: ContextVar[tuple["Clients", _Counts] | None] = ContextVar(
    "limpet_responses", default=None
)


class Clients:
    """The HTTP clients behind an evaluator, while it is open.

    Args:
        clients: The clients of the model's API, in any form. Several evaluators may share one.
    """

    def __init__(self, clients: Iterable[Any] = ()) -> None:
        found = {id(http): http for http in map(_http_client, clients) if http is not None}
        self._http = list(found.values())

    async def open(self) -> None:
        """Add the hooks, and close connections of an earlier event loop.

        The client would send a request over them, fail when the response is there, and pay for it
        twice.
        """
        for http in self._http:
            await _close_idle(http)
            http.event_hooks["response"].append(self._note)

    async def close(self) -> None:
        """Remove the hooks, and close the connections of this event loop."""
        for http in self._http:
            if self._note in http.event_hooks["response"]:
                http.event_hooks["response"].remove(self._note)
            await _close_idle(http)

    @contextmanager
    def counting(self) -> Iterator[_Counts]:
        """Collect the usage of each response to this task within the block."""
        counts: _Counts = []
        token = _current.set((self, counts))
        try:
            yield counts
        finally:
            _current.reset(token)

    async def _note(self, response: Any) -> None:
        owner, counts = _current.get() or (None, [])
        if owner is not self or not response.is_success:
            return  # an error has its headers with it
        observe(headers=response.headers)
        if not response.headers.get("content-type", "").startswith("application/json"):
            return
        try:
            body = json.loads(await response.aread())
        except ValueError:  # the library will say so
            return
        usage = body.get("usage") if isinstance(body, dict) else None
        if isinstance(usage, dict):
            counts.append(usage)


def usage_of(counts: _Counts) -> Usage | None:
    """Return the sum of several calls; None if there is none."""
    if not counts:
        return None

    def total(*names: str) -> int:
        return sum(_number(count, *names) for count in counts)

    prompt = total("prompt_tokens", "input_tokens")
    completion = total("completion_tokens", "output_tokens")
    return Usage(prompt, completion, total("total_tokens") or prompt + completion)


def _number(count: Mapping[str, Any], *names: str) -> int:
    numbers = [count[name] for name in names if type(count.get(name)) is int]
    return numbers[0] if numbers else 0


def _http_client(client: Any) -> Any:
    """Return the httpx client in a client of an API; None if there is none."""
    for candidate in (client, get(client, "_client"), get(client, "client", "_client")):
        hooks = get(candidate, "event_hooks")
        if isinstance(hooks, dict) and "response" in hooks and get(candidate, "aclose"):
            return candidate
    return None


async def _close_idle(http: Any) -> None:
    """Close a client's connections that no request uses."""
    pool = get(http, "_transport", "_pool")
    connections = get(pool, "_connections")
    for connection in list(connections) if isinstance(connections, list) else ():
        if connection.is_idle():
            connections.remove(connection)
            with suppress(RuntimeError):  # its event loop is closed, and the connection with it
                await connection.aclose()
