"""How do texts become vectors?"""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.models.server import Server
from limpet.pacing.registry import endpoint
from limpet.types import Usage

_PATH = "/embeddings"
_LARGEST = 1e300


class Vectors(list[list[float]]):
    """A vector for each text.

    Attributes:
        usage: What the request used; None if the server does not tell.
    """

    usage: Usage | None = None


async def embedded(
    server: Server, pace: str, constant: Mapping[str, Any], texts: Sequence[str]
) -> Vectors:
    """Return the vector of each text, from one request.

    Args:
        server: The server.
        pace: The endpoint that the request is paced with.
        constant: The model, and parameters of every request.
        texts: The texts.

    Raises:
        InvalidReplyError: The response does not have one vector for each text.
    """
    if not texts:
        return Vectors()
    request = {"encoding_format": "float", **constant, "input": list(texts)}
    async with endpoint(pace):
        response = await server.post(server.url(_PATH), request)
        reading = server.reading
        usage = reading.usage(response.body)
        if (error := reading.error_in(response.body, response.headers)) is not None:
            raise error
        try:
            vectors = Vectors(_vectors_in(response.body, len(texts)))
        except ValueError as why:
            raise reading.invalid(str(why), "", usage) from None
        vectors.usage = usage
        return vectors


def _vectors_in(body: Any, expected: int) -> list[list[float]]:
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list) or len(data) != expected:
        count = len(data) if isinstance(data, list) else "no"
        raise ValueError(f"{count} vectors for {expected} texts")
    vectors: list[list[float] | None] = [None] * expected
    for position, entry in enumerate(data):
        index = entry.get("index", position) if isinstance(entry, dict) else None
        if type(index) is not int or not 0 <= index < expected or vectors[index] is not None:
            raise ValueError("the vectors are not numbered from 0, each once")
        vectors[index] = _vector(entry.get("embedding"))
    lengths = {len(vector) for vector in vectors if vector is not None}
    if len(lengths) != 1:
        raise ValueError("the vectors have different lengths")
    return [vector for vector in vectors if vector is not None]


def _vector(value: Any) -> list[float]:
    if not isinstance(value, list) or not value:
        raise ValueError("a vector is not a list of numbers")
    if not all(type(part) in (int, float) and abs(part) < _LARGEST for part in value):
        raise ValueError("a vector is not a list of numbers")
    return value
