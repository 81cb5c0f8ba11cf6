"""The file that `EvaluationResult.report` has made."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from limpet.text import one_line, size


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report in one HTML file. A notebook shows it as a link.

    Attributes:
        path: The file.
        bytes: Its size.
        left_out: What there was no room for, in a sentence; empty: all is in it.
    """

    path: Path
    bytes: int
    left_out: str = ""

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        words = f"{one_line(str(self.path))} ({size(self.bytes)})"
        return f"{words}. {self.left_out}" if self.left_out else words

    def _repr_html_(self) -> str:
        # A notebook's page resolves a link from the notebook's directory, as its kernel does.
        place, here = self.path.resolve(), Path.cwd()
        inside = place.is_relative_to(here)
        address = quote(place.relative_to(here).as_posix()) if inside else place.as_uri()
        link = f'<a href="{escape(address)}" target="_blank">{escape(one_line(str(self.path)))}</a>'
        more = f"<p>{escape(self.left_out)}</p>" if self.left_out else ""
        return f"<p>{link} ({size(self.bytes)})</p>{more}"
