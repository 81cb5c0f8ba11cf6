"""A file for other programs that gets a line the moment there is one.

It mirrors a column in another form. No result depends on it and nothing is read from it: a line
that cannot be written is logged, and harms no other.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from limpet.journal.files import make_directory, open_own, replace_file, write_all
from limpet.journal.lines import looks_like_record

logger = logging.getLogger("limpet.journal")


class LiveFile:
    """Replaces a file whole, and then appends to it, on a thread of its own.

    Args:
        path: The file.
        encode: Returns the line of a value, without its end.
        begin: The values that the file begins with.

    Attributes:
        path: The file.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(
        self, path: Path, encode: Callable[[Any], bytes], begin: Iterable[Any] = ()
    ) -> None:
        self.path = path
        self._encode = encode
        make_directory(path.parent)
        replace_file(path, self._lines(begin), sync=False)
        self._thread = ThreadPoolExecutor(1, "limpet-live")

    def _lines(self, values: Iterable[Any]) -> Iterator[bytes]:
        for value in values:
            try:
                yield self._line(value)
            except Exception:
                logger.exception("%s: a line could not be made", self.path)

    def _line(self, value: Any) -> bytes:
        line = self._encode(value) + b"\n"
        # The file must not be taken for a column, whatever a model has answered.
        return b" " + line[:-1] + b" \n" if looks_like_record(line) else line

    def add(self, value: Any) -> None:
        """Append the line of a value, soon."""
        self._thread.submit(self._append, value)

    def _append(self, value: Any) -> None:
        try:
            line = self._line(value)
            fd = open_own(self.path, os.O_APPEND)
            try:
                self._write(fd, line)
            finally:
                os.close(fd)
        except Exception:
            logger.exception("%s: a line could not be written", self.path)

    def _write(self, fd: int, line: bytes) -> None:
        end = os.fstat(fd).st_size
        try:
            write_all(fd, [line])
        except OSError:
            with suppress(OSError):  # or the next line would continue this one
                os.ftruncate(fd, end)
            raise

    def close(self) -> None:
        """Return when every line is written."""
        self._thread.shutdown()
