"""What does the site need that its builder does not make?

`make docs` runs this last. It adds `llms.txt`, `llms-full.txt` and the Markdown of each page, for
language models; the source files that pages link to, which are outside docs/; and what the copy
button of a console takes.
"""

import html
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import yaml

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
_HEAD = """\
# Limpet

> Run evaluations of LLM workflows, and never lose a finished result.

Everything in one file: [llms-full.txt](llms-full.txt)
"""
_CONSOLE = re.compile(r'<div class="language-console highlight">(.*?)</div>', re.DOTALL)
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]*)(#[^)\s]+)?(?=\))")
_DIRECTIVE = re.compile(r"^::: limpet\.(.+)$", re.MULTILINE)
_LINK_OUT = re.compile(r'href="((?:\.\./)+)((?:src|examples|tests|benchmarks)/[^"#?]+)')


def main() -> None:
    """Add to the site what is missing."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    code = griffe.load("limpet", search_paths=[ROOT / "src"])
    index, full = [_HEAD], []
    for part in config["nav"]:
        for title, entries in part.items():
            if isinstance(entries, str):
                continue
            index.append(f"\n## {title}\n")
            for name in _pages(entries):
                text = (ROOT / "docs" / name).read_text(encoding="utf-8")
                text = _DIRECTIVE.sub(lambda found: "\n\n".join(_about(code[found[1]])), text)
                index.append(f"- [{_title(text)}]({name})")
                if title != "Project":
                    full.append(_linked(text, name, whole=True))
                (SITE / name).write_text(_linked(text, name, whole=False), encoding="utf-8")
    (SITE / "llms.txt").write_text("\n".join(index) + "\n", encoding="utf-8")
    (SITE / "llms-full.txt").write_text("\n\n".join(full), encoding="utf-8")
    for script in [*SITE.glob("*.py"), *SITE.glob("pictures/*.py")]:
        script.unlink()
    for page in SITE.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        done = _CONSOLE.sub(_copy_commands, _bring_files(page, text))
        if done != text:
            page.write_text(done, encoding="utf-8")


def _pages(entries: list[Any]) -> list[str]:
    """Return the pages below a part of the nav, in order."""
    found = []
    for entry in entries:
        if isinstance(entry, str):
            found.append(entry)
        else:
            found += [name for below in entry.values() for name in _pages(below)]
    return found


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ").replace("`", "")


def _about(thing: Any) -> Iterator[str]:
    """Yield the signatures and docstrings of a function, or of a class and its methods."""
    docstring = thing.docstring.value if thing.docstring else ""
    yield f"```text\n{thing.signature()}\n\n{docstring}\n```"
    for name, member in thing.members.items():
        if member.is_function and member.docstring and not name.startswith("_"):
            yield from _about(member)


def _linked(text: str, name: str, *, whole: bool) -> str:
    """Let the Markdown of a page link to the site's files; from the root if it is in the whole."""
    folder = Path(name).parent

    def target(found: re.Match[str]) -> str:
        path = os.path.normpath(folder / found[1]) if found[1] else name
        if path.startswith("../"):
            path = f"{path[3:]}.txt"  # as _bring_files copies it
        if not whole:
            path = os.path.relpath(path, folder) if found[1] else ""
        return path + (found[2] or "")

    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(target, part) for part in parts[::2]]
    return "".join(parts)


def _copy_commands(console: re.Match[str]) -> str:
    """Let the theme's copy button take the commands of a console, and not what they printed."""
    lines = html.unescape(re.sub(r"<[^>]+>", "", console[1])).splitlines()
    commands = "\n".join(line[2:] for line in lines if line.startswith("$ "))
    return console[0].replace("<div", f'<div data-copy="{html.escape(commands)}"', 1)


def _bring_files(page: Path, text: str) -> str:
    """Copy the files outside docs/ that a page links to, and let it link to the copies."""

    def brought(found: re.Match[str]) -> str:
        path = ROOT / found[2]
        if not path.is_file():
            sys.exit(f"{page.relative_to(ROOT)}: {found[2]} is not there")
        copy = SITE / f"{found[2]}.txt"  # browsers show text, and save other files
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        depth = len(page.relative_to(SITE).parts) - 1
        return f'href="{"../" * depth}{found[2]}.txt'

    return _LINK_OUT.sub(brought, text)


if __name__ == "__main__":
    main()
