"""Which connections may be reused?

A server may send data on an idle connection: a second answer, a late one, or a goodbye. aiohttp
would take it for the answer to the next call, and an item would get another item's answer. So a
connection that received anything while idle, or has unread data or an end of stream, is not reused.

aiohttp has no public way to do this. We use parts that have been there since version 3: `_factory`
creates connections, `_release` returns one to the pool, and `is_connected` is called before reuse.
A connection that was not created here is never reused: slower, but never wrong.
"""

import functools
import select
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class Pool(aiohttp.TCPConnector):
    """A connection pool that drops connections which received unexpected data."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        handler: type[ResponseHandler] = _Connection
        self._factory = functools.partial(handler, loop=self._loop)

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        ours = isinstance(protocol, _Connection)
        if ours:
            protocol.idle = True
        super()._release(key, protocol, should_close=should_close or not ours)


class _Connection(ResponseHandler):
    """A connection.

    Attributes:
        idle: No call has been sent since the last answer.
    """

    idle = False
    _poll: "select.poll | None" = None

    def set_response_params(self, **params: Any) -> None:  # a call begins
        self.idle = False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if not self.idle:
            super().data_received(data)
        elif data:
            self.force_close()
            if self.transport is not None:
                self.transport.abort()

    def is_connected(self) -> bool:
        if not super().is_connected():
            return False
        return not self.idle or not (self.should_close or self._has_unread_data())

    def _has_unread_data(self) -> bool:
        """Return whether data has arrived that the event loop has not read yet."""
        if self._poll is None:  # made once: a connection keeps its socket
            transport = self.transport
            socket = None if transport is None else transport.get_extra_info("socket")
            if socket is None:
                return False
            self._poll = select.poll()  # select() is limited to 1,024 files
            self._poll.register(socket, select.POLLIN)
        return bool(self._poll.poll(0))
