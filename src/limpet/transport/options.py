"""How is a server called: which options does everything behind HTTP take?"""

from collections.abc import Mapping
from typing import TypedDict

from limpet.arguments import positive_number
from limpet.text import did_you_mean
from limpet.transport.address import Address, checked_headers
from limpet.transport.client import Client
from limpet.transport.deadlines import Deadlines


class CallOptions(TypedDict, total=False):
    """How a server is called: options that every remote workflow and model takes.

    Attributes:
        headers: Headers to send. The values are secrets: never shown, and in no fingerprint.
        connect_timeout: Seconds to connect (10).
        first_byte_timeout: Seconds until the response begins, including connecting.
        between_bytes_timeout: Seconds between two pieces of the response.
        timeout: Seconds for the whole call.
        max_response_mb: A larger response is a failure (64).
    """

    headers: Mapping[str, str] | None
    connect_timeout: float | None
    first_byte_timeout: float | None
    between_bytes_timeout: float | None
    timeout: float | None
    max_response_mb: float


def client_for(kind: str, address: Address, options: CallOptions) -> Client:
    """Return a client for a server.

    Args:
        kind: What is called, for messages.
        address: The server's address.
        options: How to call it.

    Raises:
        LimpetError: A header cannot be sent.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    known = CallOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"{name!r} is not an option of {kind}{did_you_mean(name, known)}")
    deadlines = Deadlines(
        options.get("connect_timeout", 10.0),
        options.get("first_byte_timeout"),
        options.get("between_bytes_timeout"),
        options.get("timeout"),
    )
    max_response_mb = positive_number(max_response_mb=options.get("max_response_mb", 64))
    return Client(address, checked_headers(options.get("headers")), deadlines, max_response_mb)
