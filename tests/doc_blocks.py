"""The blocks of code on a page, and which of them say why they are not run."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUIDES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs/tutorial").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]
"""The pages of which every block is run, or says why not."""
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+?) -->\n+)?"
    r"^ *```(?P<kind>\w+)\n(?P<text>.*?)^ *```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str
    text: str
    why_not: str | None

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page, kind=None):
    """Return the blocks of a page; with a kind, those of the kind that are run."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(page, text[: one.start("text")].count("\n"), one["kind"], one["text"], one["why"])
        for one in BLOCK.finditer(text)
    ]
    return [one for one in found if kind is None or (one.kind == kind and one.why_not is None)]


def commands(block):
    """Return each command of a console block with the lines that it promises."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"{block}: a console block begins with a command"
    return [part.partition("\n")[::2] for part in parts[1:]]
