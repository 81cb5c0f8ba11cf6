"""`limpet docs` prints a page of the documentation in the terminal."""

import re
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markdown import Markdown

import limpet
from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.text import hint_near, is_terminal, one_line

_PARTS = ("tutorial", "how-to", "reference", "explanation")
_WIDEST = 100


def command(topic: str | None) -> int:
    """Print a page, or list the pages."""
    pages = topics()
    if topic is None:
        width = max(map(len, pages))
        for name, page in pages.items():
            click.echo(f"{name:{width}}  {_title(page)}")
        click.echo("read one: limpet docs TOPIC", err=True)
        return DONE
    text = _page(topic.removesuffix(".md"), pages).read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->\n*", "", text, flags=re.DOTALL)
    if is_terminal(sys.stdout):
        # A terminal cannot follow a link to another page.
        text = re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)
        console = Console(highlight=False)
        console.print(Markdown(text, hyperlinks=False), width=min(console.width, _WIDEST))
    else:
        click.echo(text, nl=False)
    return DONE


def topics() -> dict[str, Path]:
    """Return the pages by name, like `how-to/evaluate`, in the order of their parts."""
    package = Path(limpet.__file__).parent
    shipped = package / "docs"
    docs = shipped if shipped.is_dir() else package.parents[1] / "docs"  # in a clone
    return {
        path.relative_to(docs).with_suffix("").as_posix(): path
        for part in _PARTS
        for path in sorted((docs / part).rglob("*.md"))
    }


def _page(topic: str, pages: dict[str, Path]) -> Path:
    found = [name for name in pages if topic in (name, name.rpartition("/")[2])]
    if len(found) == 1:
        return pages[found[0]]
    if found:
        raise LimpetError(
            f"{topic}: {len(found)} pages have this name",
            hint=f"choose one: limpet docs {' or limpet docs '.join(found)}",
        )
    known = [*pages, *(name.rpartition("/")[2] for name in pages)]
    raise LimpetError(
        f"{one_line(topic)}: no page has this name",
        hint=hint_near(topic, known) or "limpet docs lists the pages",
    )


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").replace("`", "")
