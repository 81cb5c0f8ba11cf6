"""How is a compressed response read safely?

A few kilobytes may decompress to gigabytes. So they are decompressed in small pieces, and the
reader stops when the total is too large.
"""

import zlib
from collections.abc import Iterator

ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_PIECE = 2**16
_GZIP_OR_ZLIB = 47


class Inflater:
    """Decompresses gzip and deflate.

    `feed` and `end` raise `ValueError` if the data is broken or incomplete.
    """

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_GZIP_OR_ZLIB)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed bytes, in pieces of bounded size."""
        while chunk:
            if self._inner.eof:  # another part follows
                self._inner = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                piece = self._inner.decompress(chunk, _PIECE)
            except zlib.error as error:
                raise ValueError(f"its compression is broken ({error})") from None
            chunk = self._inner.unconsumed_tail or self._inner.unused_data
            if piece:
                yield piece

    def end(self) -> None:
        """Check that the data is complete."""
        if not self._inner.eof:
            raise ValueError("its compressed data is incomplete")
