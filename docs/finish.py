"""What does the site need that its builder does not make?

`make docs` runs this last. It adds `llms.txt`, `llms-full.txt` and the Markdown of each page, for
language models; and the source files that pages link to, which are outside docs/.
"""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
_HEAD = """\
# Limpet

> Run evaluations of LLM workflows, and never lose a finished result.

Everything in one file: [llms-full.txt](llms-full.txt)
"""
_LINK_OUT = re.compile(r'href="((?:\.\./)+)((?:src|examples|tests|benchmarks)/[^"#?]+)')


def main() -> None:
    """Add to the site what is missing."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    index, full = [_HEAD], []
    for part in config["nav"]:
        for title, entries in part.items():
            if isinstance(entries, str):
                continue
            index.append(f"\n## {title}\n")
            for name in _pages(entries):
                text = (ROOT / "docs" / name).read_text(encoding="utf-8")
                index.append(f"- [{_title(text)}]({name})")
                if title != "Project":
                    full.append(text)
                (SITE / name).write_text(text, encoding="utf-8")
    (SITE / "llms.txt").write_text("\n".join(index) + "\n", encoding="utf-8")
    (SITE / "llms-full.txt").write_text("\n\n".join(full), encoding="utf-8")
    for script in [*SITE.glob("*.py"), *SITE.glob("pictures/*.py")]:
        script.unlink()
    for page in SITE.rglob("*.html"):
        _bring_files(page)


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


def _bring_files(page: Path) -> None:
    """Copy the files outside docs/ that a page links to, and let it link to the copies."""
    text = page.read_text(encoding="utf-8")

    def brought(found: re.Match[str]) -> str:
        path = ROOT / found[2]
        if not path.is_file():
            sys.exit(f"{page.relative_to(ROOT)}: {found[2]} is not there")
        copy = SITE / f"{found[2]}.txt"  # browsers show text, and save other files
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        depth = len(page.relative_to(SITE).parts) - 1
        return f'href="{"../" * depth}{found[2]}.txt'

    linked = _LINK_OUT.sub(brought, text)
    if linked != text:
        page.write_text(linked, encoding="utf-8")


if __name__ == "__main__":
    main()
