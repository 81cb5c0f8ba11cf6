"""One HTML file with everything about a run: it can be mailed, and opens from disk.

It contains the modules and style sheets of the live page and the answers of its server, and makes
no requests.
"""

import os
import re
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha256
from html import escape
from pathlib import Path

from limpet.errors import JournalError, LimpetError
from limpet.journal.files import replace_file
from limpet.run.comparing.changes import Changes
from limpet.run.comparing.comparable import CompareOptions
from limpet.run.comparing.compare import compare_pairs
from limpet.run.comparing.opened_run import AnyRun
from limpet.run.evaluation_result import EvaluationResult, ReportFile
from limpet.run.reading.find_run import choose_run
from limpet.text import count, one_line
from limpet.version import VERSION
from limpet.view.compare_answers import comparison_answer, to_compare
from limpet.view.report_data import RunData, changes_data, packed
from limpet.view.server import PAGES, encoded
from limpet.view.viewed_runs import Labeller, ViewedRun

# ---- The modules of the pages as one script, for a page in a file. ------------------------------
#
# A browser imports no module from a file beside the page, and a policy that names scripts by their
# hashes allows none by their addresses. So each module becomes a function of one inline script that
# returns the module's exports.

_IMPORT = re.compile(r'^import \{ (.+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*|</script|<!--", re.MULTILINE | re.IGNORECASE)


def bundle(entry: str) -> str:
    """Return a module and its imports as one script.

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
    """Return the parts of a page that needs no other file and makes no requests.

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
        + '</head>\n<body>\n<p class="fault">Opening the report … '
        "If this message stays, the file is incomplete.</p>\n"
        "<noscript>This report needs JavaScript. It makes no requests.</noscript>\n"
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


# ---- Writing the file. --------------------------------------------------------------------------

MOST_MB = 20
_LEAST_MB = 0.5
"""The page without its data takes 0.36."""
_FOREIGN = ("uplot/uPlot.iife.min.js", "markdown-it/markdown-it.umd.min.js")
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*", re.MULTILINE)
_REST = 4_000
"""The title, the remarks on the report itself, and the elements around tables."""
_FIRST_CHANGES = 1_000
"""Their texts come before those of failures: the greatest gains and losses in turn."""
_NAMED_IMAGES = 3
_OF_BASE = 4
"""The texts of the base may take this fraction of the room: 1 in 4."""


def write_report(
    run: AnyRun,
    path: str | os.PathLike[str],
    against: AnyRun | None = None,
    max_mb: float = MOST_MB,
) -> ReportFile:
    """Write the report of a run.

    Args:
        run: The run. It may still be running.
        path: The file; one that exists is replaced.
        against: A run to compare it with.
        max_mb: The largest size, in megabytes.

    Raises:
        LimpetError: The run cannot be read or compared, or the file cannot be written.
        ValueError: The page alone is larger than `max_mb`.
    """
    if not max_mb >= _LEAST_MB:
        raise ValueError(f"max_mb={max_mb!r}: must be {_LEAST_MB} or more")
    path = Path(path)
    _check(path)
    with ExitStack() as readers:
        new, base = (None if one is None else _opened(one, readers) for one in (run, against))
        assert new is not None
        blocks, left_out = _blocks(new, base, int(max_mb * 1_000_000))
        title = f"{_name(new)} · Limpet"
    content = page(escape(one_line(title)), _scripts(), _styles(), blocks)
    try:
        replace_file(path, content)
    except OSError as error:
        why = error.strerror or str(error)
        raise LimpetError(f"{one_line(str(path))}: cannot be written: {why}") from error
    return ReportFile(path, sum(map(len, content)), left_out)


def _check(path: Path) -> None:
    """Raise if a file cannot or should not be written there."""
    shown = one_line(str(path))
    if path.suffix.lower() not in (".html", ".htm"):
        raise LimpetError(
            f"{shown}: its name does not end in .html", hint="browsers go by the name"
        )
    if path.is_symlink():
        raise LimpetError(f"{shown}: is a link", hint="name the file itself")
    if path.is_dir():
        raise LimpetError(f"{shown}: is a directory", hint="name a file")
    if path.exists() and not path.is_file():
        raise LimpetError(f"{shown}: is not a file", hint="name a file")
    if not path.parent.is_dir():
        raise LimpetError(f"{one_line(str(path.parent))}: no such directory")


def _opened(run: AnyRun, readers: ExitStack) -> ViewedRun:
    path = run.run if isinstance(run, EvaluationResult) else str(Path(run))
    if path is None:
        raise LimpetError(
            "this evaluation was not saved: there is nothing to report",
            hint='name a directory for it: evaluate(…, run="runs/first")',
        )
    try:
        # Read-only: labels are shown, none can be given, no score is hidden.
        opened = ViewedRun(choose_run(path), Labeller(read_only=True))
    except JournalError as error:
        raise LimpetError(str(error), hint=error.hint) from error
    readers.enter_context(opened.reader)
    return opened


def _name(opened: ViewedRun) -> str:
    return opened.path.resolve().name


def _scripts() -> list[str]:
    return [*(_with_licence(PAGES / path) for path in _FOREIGN), bundle("report")]


def _with_licence(path: Path) -> str:
    licence, script = path.with_name("LICENSE").read_text("utf-8"), path.read_text("utf-8")
    return f"/*\n{licence}*/\n{_SOURCE_MAP.sub('', script)}"


def _styles() -> list[str]:
    return [(PAGES / name).read_text() for name in ("uplot/uPlot.min.css", "style.css")]


def _blocks(new: ViewedRun, base: ViewedRun | None, most: int) -> tuple[dict[str, bytes], str]:
    """Return the blocks of data by name, and what was left out."""
    opened = [new] if base is None else [new, base]
    names = [_name(one) for one in opened]
    compared, changes, first = None, None, []
    if base is not None:
        if names[0] == names[1]:
            names[1] += " (base)"
        both = [to_compare(base), to_compare(new)]
        comparison, found = compare_pairs(both, CompareOptions(flips=0))
        compared = comparison_answer(comparison, names[1], names[:1])
        changes = Changes(found[0])
        first = [changes.where(cell) for cell in changes.chosen()[:_FIRST_CHANGES].tolist()]
    runs = [RunData(one, name) for one, name in zip(opened, names, strict=True)]
    room = most - sum(map(len, page("", _scripts(), _styles(), {}))) - _REST
    room -= len(packed(encoded(compared)))
    of_changes = 0 if changes is None else len(packed(encoded(changes_data(changes, *runs[::-1]))))
    room -= of_changes
    orders = [one.importance(first) for one in runs]
    for one, order in zip(runs, orders, strict=True):
        room = one.fit_numbers(order, room)
    blocks: dict[str, bytes] = {}
    if changes is not None:
        blocks["changes"] = packed(encoded(changes_data(changes, *runs[::-1])))
        room += of_changes - len(blocks["changes"])
    changed = len(first)
    for one, order in zip(runs[1:], orders[1:], strict=True):
        share = room // _OF_BASE
        room += one.add_texts(order[:changed].tolist(), share) - share
    room = runs[0].add_texts(orders[0].tolist(), room)
    for one, order in zip(runs[1:], orders[1:], strict=True):
        one.add_texts(order[changed:].tolist(), room)
    left_out = " ".join(filter(None, [_left_out(runs, most), _images(runs)]))
    head = {
        "version": VERSION,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "note": left_out,
        "runs": [one.data() for one in runs],
        "compare": compared,
    }
    blocks["head"] = packed(encoded(head))
    for number, one in enumerate(runs):
        blocks[f"table-{number}"] = one.table
        blocks |= {f"texts-{number}-{at}": chunk for at, chunk in enumerate(one.chunks)}
    return blocks, left_out


def _images(runs: Sequence[RunData]) -> str:
    """Return which images are left out, in words; empty: there are none."""
    names = list(dict.fromkeys(name for run in runs for name in run.images))
    if not names:
        return ""
    some = ", ".join(one_line(name) for name in names[:_NAMED_IMAGES])
    more = ", …" if len(names) > _NAMED_IMAGES else ""
    are = "is" if len(names) == 1 else "are"
    return f"{count(len(names), 'image')} of the dataset {are} not in this file: {some}{more}."


def _left_out(runs: Sequence[RunData], most: int) -> str:
    """Return what did not fit, in words; empty: nothing."""
    lines = []
    for run in runs:
        full = run.total - run.left_out - run.without_texts
        if full < run.total:
            line = f"{one_line(run.about['run'])}: the texts of {full:,} of {run.total:,} answers"
            if run.left_out:
                line += f", and the numbers of {run.total - run.left_out:,}"
            lines.append(f"{line} are in this file.")
    if not lines:
        return ""
    larger = f"The rest would make it larger than {most / 1_000_000:g} MB"
    return " ".join([*lines, f"{larger}: failures, changes and the worst came first."])
