"""Which models share connections?

Models on one server with the same headers share a client and its pool. Each step that uses a model
opens it, so uses are counted. A client belongs to the event loop that opened it.
"""

import asyncio
from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

from limpet.transport.client import Client

_Clients = dict[Hashable, "SharedClient"]
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()


class SharedClient:
    """An open client, and how many have opened it.

    Attributes:
        client: The client.
        models: The names of the server's models, once they have been asked for.
        listing: Held by the call that asks for them.
    """

    def __init__(self, client: Client, forget: Callable[[], object]) -> None:
        self.client = client
        self.models: list[str] | None = None
        self.listing = asyncio.Lock()
        self._forget = forget
        self._uses = 0
        self._lock = asyncio.Lock()  # the second user waits until the first has opened it

    async def open(self) -> None:
        """Open it for another user."""
        async with self._lock:
            if not self._uses:
                await self.client.open()
            self._uses += 1

    async def close(self) -> None:
        """Give it back. The last user closes it."""
        async with self._lock:
            self._uses -= 1
            if not self._uses:
                self._forget()
                await self.client.close()


async def opened(settings: Hashable, make: Callable[[], Client]) -> SharedClient:
    """Return the open client with these settings.

    Args:
        settings: Everything that distinguishes clients.
        make: Makes the client, if there is none yet.

    Raises:
        EndpointDownError: No connection is possible.
        LimpetError: The environment names a proxy or certificates that cannot be used.
    """
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    shared = clients.get(settings)
    if shared is None:
        shared = SharedClient(make(), lambda: clients.pop(settings, None))
        clients[settings] = shared
    try:
        await shared.open()
    except BaseException:
        clients.pop(settings, None)
        raise
    return shared
