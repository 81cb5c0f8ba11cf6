"""A run and a comparison for a pull request (Markdown) and for a CI system (JUnit)."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from limpet.errors import LimpetError
from limpet.journal.files import replace_file
from limpet.report.comparison import (
    about_words,
    amount_lines,
    answers,
    change_lines,
    difference_cells,
    flip_words,
    gate_words,
    is_corrected,
    item_words,
    label_lines,
    label_rows,
    left_out_lines,
    p_title,
    score_lines,
    score_row,
)
from limpet.report.items import grouped
from limpet.report.status import enough_lines, remark_lines
from limpet.report.summary import SUMMARY_TITLES, summary_rows
from limpet.report.words import shown
from limpet.run.comparing.results import (
    Comparison,
    GateResult,
    LabelComparison,
    RunComparison,
    ScoreComparison,
)
from limpet.run.reading.description import describe
from limpet.run.reading.reader import RunReader
from limpet.run.reading.run_table import RunTable, TableQuery, failed_rows
from limpet.run.results.score_words import ScoreName, values_words
from limpet.run.results.table import without_controls
from limpet.text import one_line

# ---- Markdown for a pull request, which may contain text written by models. ---------------------
#
# Such text is in code elements, with every character that could end one written as an entity: it
# cannot make a link, a mention or a table.

_MOST_BYTES = 1_000_000
"""GitHub accepts a step summary of up to 1 MiB."""
_ACTIVE = re.compile(r"[^\w .,;()%+=→–…·×?'\-]|_")
_WWW = re.compile(r"(?<=www)\.", re.IGNORECASE)


def document(lines: Iterable[str], more: str) -> str:
    """Return lines as a text under a megabyte; if some are left out, it ends in `more`."""
    text: list[str] = []
    size = len(more.encode()) + 2
    for line in lines:
        size += len(line.encode("utf-8", "backslashreplace")) + 1
        if size > _MOST_BYTES:
            text += ["", more, ""]
            break
        text.append(line)
    return "\n".join(text) + "\n"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table of Markdown cells."""
    yield f"| {' | '.join(titles)} |"
    yield f"|{' --- |' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def bullets(lines: Iterable[str]) -> Iterator[str]:
    """Yield texts as a list."""
    yield from (f"- {escaped(line)}" for line in lines)
    yield ""


def folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that a click unfolds."""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield "</details>"
    yield ""


def escaped(text: str) -> str:
    """Return text without any Markdown or mention."""
    inert = _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", without_controls(one_line(text)))
    return _WWW.sub("&#46;", inert.replace("&#64;", "&#64;&#8203;"))


def code(text: str) -> str:
    """Return text as code."""
    return f"<code>{escaped(text)}</code>"


# ---- A comparison for a pull request (Markdown) and for a CI system (JUnit). --------------------
#
# Both hold what models wrote.

_MARKS = {"not worse": "✅", "worse": "❌", "inconclusive": "❔"}
_MORE = "… and more: see `limpet compare`"


def write_file(path: Path, text: str) -> None:
    """Replace a file; "-" is stdout. Links and devices are written through.

    Raises:
        LimpetError: It cannot be written.
    """
    content = text.encode("utf-8", "backslashreplace")
    try:
        if path == Path("-"):
            sys.stdout.flush()  # what was printed comes first
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        elif path.parent == Path("/dev") or (path.exists() and not path.is_file()):
            with path.open("ab") as device:
                device.write(content)
        else:
            replace_file(path.resolve(), [content])
    except OSError as error:
        why = error.strerror or str(error)
        raise LimpetError(f"{one_line(str(path))}: cannot be written: {why}") from error


# ---- Markdown -----------------------------------------------------------------------------------


def as_markdown(comparison: Comparison) -> str:
    """Return a comparison in Markdown, under a megabyte."""
    return document(["### limpet compare", "", *comparison_markdown(comparison)], _MORE)


def comparison_markdown(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison in Markdown, without a heading."""
    for gate in comparison.gates:
        yield f"- {_MARKS[gate.verdict]} {escaped(gate_words(gate))}"
    yield from ([""] if comparison.gates else [])
    yield f"base {code(comparison.base.run)}: {escaped(about_words(comparison.base))}"
    for run in comparison.new:
        yield ""
        yield f"new {code(run.run)}: {escaped(about_words(run.about))}"
        yield ""
        yield from _run(run, comparison)
    if comparison.these_questions:
        yield "The conclusions hold for these very questions, not for similar ones."
    if is_corrected(comparison):
        yield "p is corrected for the number of comparisons (Holm)."


def _run(run: RunComparison, comparison: Comparison) -> Iterator[str]:
    numbers = {name: one for name, one in run.scores.items() if isinstance(one, ScoreComparison)}
    titles = ["score", "base", "new", "change", "95% interval", p_title(comparison), "verdict"]
    if numbers:
        several = is_corrected(comparison)
        rows = [score_row(name, score, several=several) for name, score in numbers.items()]
        yield from table(titles, ([code(row[0]), *map(escaped, row[1:])] for row in rows))
    lines = [line for name, score in numbers.items() for line in score_lines(name, score)]
    for name, labels in run.scores.items():
        if isinstance(labels, LabelComparison):
            rows = label_rows(labels)
            yield from table(
                ["label", "base", "new", "change"],
                ([code(row[0]), *map(escaped, row[1:])] for row in rows),
            )
            lines += [*label_lines(name, labels), *change_lines(labels)]
    yield from bullets([*lines, *left_out_lines(run), *amount_lines(run)])
    if run.flips:
        yield from folded(
            "biggest changes",
            table(
                ["score", "item", "change", "base", "new"],
                (
                    [
                        code(flip.score),
                        code(item_words(flip)),
                        code(flip_words(flip)),
                        *map(code, answers(flip)),
                    ]
                    for flip in run.flips
                ),
            ),
        )
    for name, score in numbers.items():
        if score.slices:
            title = f"{code(name)} by {code(comparison.by or '')}"
            yield from folded(title, _slices(score))


def _slices(score: ScoreComparison) -> Iterator[str]:
    titles = ["value", "items", "base", "new", "change", "95% interval", "p (BH)", "verdict"]
    rows = (
        [
            code(shown(one.value) or "–"),
            f"{one.difference.n:,}",
            *map(escaped, difference_cells(one.difference, one.p_bh or 0.0)),
        ]
        for one in score.slices
        if one.difference is not None
    )
    return table(titles, rows)


# ---- JUnit --------------------------------------------------------------------------------------


def as_junit(gates: Sequence[GateResult]) -> str:
    """Return gates as the cases of a JUnit file: "worse" failed, "inconclusive" is skipped."""
    failed = sum(gate.verdict == "worse" for gate in gates)
    skipped = sum(gate.verdict == "inconclusive" for gate in gates)
    counts = f'tests="{len(gates)}" failures="{failed}" errors="0" skipped="{skipped}"'
    cases = "".join(map(_case, gates))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites {counts}>\n"
        f'<testsuite name="limpet compare" {counts}>\n{cases}</testsuite>\n</testsuites>\n'
    )


def _case(gate: GateResult) -> str:
    name, run = _attribute(f"{gate.name} (margin {gate.margin:g})"), _attribute(gate.run)
    begin = f"  <testcase classname={run} name={name}"
    message = _attribute(gate_words(gate))
    if gate.verdict == "worse":
        return f'{begin}><failure type="worse" message={message}/></testcase>\n'
    if gate.verdict == "inconclusive":
        return f"{begin}><skipped message={message}/></testcase>\n"
    return f"{begin}/>\n"


def _attribute(text: str) -> str:
    return quoteattr(without_controls(text))


# ---- A run for a pull request: scores, failures, and the worst items. ---------------------------

_MOST_FAILURES, _MOST_GROUPS, _MOST_IDS, _WORST = 2_000, 10, 3, 5
_MORE_OF_RUN = "… and more: see `limpet show`"


def run_markdown(reader: RunReader, comparison: Comparison | None = None) -> str:
    """Return a run in Markdown, under a megabyte; with a comparison, if there is one."""
    run_table = RunTable(reader)
    run_table.refresh()
    return document(_lines(run_table, comparison), _MORE_OF_RUN)


def _lines(run_table: RunTable, comparison: Comparison | None) -> Iterator[str]:
    reader, summary = run_table.reader, run_table.summary()
    yield "### limpet report"
    yield ""
    so_far = "; the numbers are interim" if reader.is_running else ""
    yield f"{code(reader.path.resolve().name)}: {escaped(reader.state)}{so_far}"
    yield ""
    rows = list(summary_rows(summary))
    used = [name for name in SUMMARY_TITLES if any(row[name] for _, row in rows)]
    cells = ([code(step), *(escaped(row[name]) for name in used)] for step, row in rows)
    yield from table(["step", *used], cells)
    run = describe(reader, numbers=summary)
    stopped = [f"stopped: {run.stop_reason}"] if run.stop_reason else []
    yield from bullets([*run.remarks, *stopped, *enough_lines(run), *remark_lines(run)])
    yield from _failures(run_table)
    for name in run_table.table.scores:
        yield from _worst(run_table, name)
    if comparison is not None:
        yield "#### compared"
        yield ""
        yield from comparison_markdown(comparison)


def _failures(run_table: RunTable) -> Iterator[str]:
    positions = failed_rows(run_table.table).nonzero()[0]
    groups = grouped(run_table.read(positions[:_MOST_FAILURES]))
    if not groups:
        return
    yield "#### failures"
    yield ""
    rows = (
        [
            f"{len(group.ids):,}",
            code(group.step),
            escaped(str(group.error.get("class", ""))),
            code(f"{group.error.get('type', '')}: {group.error.get('message', '')}"),
            ", ".join(map(code, group.named(_MOST_IDS))),
        ]
        for group in groups[:_MOST_GROUPS]
    )
    yield from table(["", "step", "class", "message", "items"], rows)
    if len(groups) > _MOST_GROUPS:
        yield f"… and {len(groups) - _MOST_GROUPS:,} more causes"
        yield ""
    if len(positions) > _MOST_FAILURES:
        yield f"Only the first {_MOST_FAILURES:,} of {len(positions):,} failed items are grouped."
        yield ""


def _worst(run_table: RunTable, name: ScoreName) -> Iterator[str]:
    """Yield the items with the worst scores, folded."""
    scores = run_table.table.scores[name].reshape(-1)
    known = run_table.summary()["scores"].get(str(name), {})
    sort = str(name) if known.get("higher_is_better", True) else f"-{name}"
    positions = TableQuery(sort=sort).ordered(run_table.table, np.flatnonzero(~np.isnan(scores)))
    rows = [
        [
            code(item.id) + (f" trial {item.trial}" if run_table.table.trials > 1 else ""),
            code(", ".join(values_words(record) for record in name.records(item.scores))),
            code(shown(item.input)),
            code(shown(item.output)),
        ]
        for item in run_table.read(positions[:_WORST])
    ]
    if rows:
        title = f"worst {code(str(name))}"
        yield from folded(title, table(["item", "score", "input", "output"], rows))
