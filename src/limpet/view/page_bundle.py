"""The modules of the pages as one script, for a page that is a file.

A browser imports no module from a file beside the page, and a policy that names scripts by their
hashes allows none by their addresses. So each module becomes a function of one inline script, and
what it exports is what the function returns.
"""

import re
from base64 import b64encode
from hashlib import sha256

from limpet.view.server import PAGES

_IMPORT = re.compile(r'^import \{ (.+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*|</script|<!--", re.MULTILINE | re.IGNORECASE)


def bundle(entry: str) -> str:
    """Return a module and all that it imports as one script.

    Raises:
        ValueError: A module has an import or export of another form.
    """
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        source = (PAGES / f"{name}.js").read_text("utf-8")
        for _, other in _IMPORT.findall(source):
            if other not in parts:
                add(other)
        exported = ", ".join(name for _, name in _EXPORT.findall(source))
        body = _IMPORT.sub(lambda of: f"const {{ {of[1]} }} = ${of[2]};", source)
        body = _EXPORT.sub(r"\1 \2", body)
        if left := _LEFT.search(body):
            raise ValueError(f"{name}.js: cannot be part of a script: {left[0]}")
        parts[name] = f"const ${name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"

    add(entry)
    return '"use strict";\n(() => {\n' + "\n".join(parts.values()) + "})();\n"


def page(
    title: str, scripts: list[str], styles: list[str], blocks: dict[str, bytes]
) -> list[bytes]:
    """Return the parts of a page that needs no other file and asks nobody for anything.

    Args:
        title: Its title, in HTML.
        scripts: The only scripts that may run in it.
        styles: Its style sheets.
        blocks: Its data by name, in base64.
    """
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n'
        + "".join(f"<style>{style}</style>\n" for style in styles)
        + '</head>\n<body>\n<p class="fault">This report is being read … '
        "If this stays, the file is incomplete.</p>\n"
        "<noscript>This report needs JavaScript. It asks nobody for anything.</noscript>\n"
    )
    data = (
        part
        for name, block in blocks.items()
        for part in (f'<script type="text/plain" id="{name}">'.encode(), block, b"</script>\n")
    )
    end = "".join(f"<script>{script}</script>\n" for script in scripts) + "</body>\n</html>\n"
    return [head.encode(), *data, end.encode()]


def _hashes(texts: list[str]) -> str:
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
