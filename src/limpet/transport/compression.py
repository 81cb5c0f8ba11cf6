"""How is a compressed response read without being drowned by it?

A few kilobytes may unpack to gigabytes. They are unpacked piece by piece, and whoever takes the
pieces stops when there are too many.
"""

import zlib
from collections.abc import Iterator

ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_PIECE = 2**16
_GZIP_OR_ZLIB = 47


class Inflater:
    """Unpacks gzip and deflate.

    `feed` and `end` raise `ValueError` if the bytes are not whole.
    """

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_GZIP_OR_ZLIB)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what the bytes unpack to, in pieces of bounded size."""
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
        """Check that nothing is missing."""
        if not self._inner.eof:
            raise ValueError("its compressed bytes break off")
