"""Which connection may be used again?

A server may speak on a connection on which nobody has asked it anything: it answers twice, or late,
or says good-bye. aiohttp would take that for the answer to the next call, and one item would get
another's. So a connection that said anything while it was idle, or on which something waits to be
read, be it its end, is not used again.

There is no public way to tell aiohttp so. What is used of its inner parts is as old as its version
3: `_factory` makes the connections, `_release` takes one back, and `is_connected` is asked before
one is used again. A connection that was not made here is not used twice: slower, and never wrong.
"""

import functools
import select
from asyncio import BaseTransport
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class Pool(aiohttp.TCPConnector):
    """Keeps connections for the next call, but for those on which something was said unasked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        line: type[ResponseHandler] = _Line
        self._factory = functools.partial(line, loop=self._loop)

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        ours = isinstance(protocol, _Line)
        if ours:
            protocol.idle = True
        super()._release(key, protocol, should_close=should_close or not ours)


class _Line(ResponseHandler):
    """A connection.

    Attributes:
        idle: Nobody has asked anything since the last answer.
    """

    idle = False

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
        return not self.idle or not (self.should_close or _waits(self.transport))


def _waits(transport: BaseTransport | None) -> bool:
    """Tell whether something has come that the event loop has not read yet."""
    line = None if transport is None else transport.get_extra_info("socket")
    if line is None:
        return False
    look = select.poll()  # select() knows no more than 1,024 files
    look.register(line, select.POLLIN)
    return bool(look.poll(0))
