"""A comparison for a pull request (Markdown) and for a CI system (JUnit).

Both hold what models wrote. In Markdown it stands in code elements with every character that could
end one written as an entity, so that it can make no link, no mention and no table of its own.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from limpet.errors import LimpetError
from limpet.journal.files import replace_file
from limpet.report.comparison import flip_words, item_words
from limpet.report.comparison_words import (
    about_words,
    amount_lines,
    answers,
    change_lines,
    difference_cells,
    gate_words,
    is_corrected,
    label_lines,
    label_rows,
    left_out_lines,
    p_head,
    score_lines,
    score_row,
)
from limpet.report.words import shown
from limpet.run.comparing.results import (
    Comparison,
    GateResult,
    LabelComparison,
    RunComparison,
    ScoreComparison,
)
from limpet.run.results.table_cells import without_controls
from limpet.text import one_line

_MOST_BYTES = 1_000_000
"""GitHub takes a summary of a step up to 1 MiB."""
_ACTIVE = re.compile(r"[^\w .,;()%+=→–…·×?'\-]|_")
_WWW = re.compile(r"(?<=www)\.", re.IGNORECASE)
_MARKS = {"not worse": "✅", "worse": "❌", "inconclusive": "❔"}
_CUT = "\n… and more, which `limpet compare` prints\n"


def write_file(path: Path, text: str) -> None:
    """Write a file, whole. A link keeps its place, and so does a device, like /dev/stdout.

    Raises:
        LimpetError: It cannot be written.
    """
    content = text.encode("utf-8", "backslashreplace")
    try:
        if path.parent == Path("/dev") or (path.exists() and not path.is_file()):
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
    text, size = [], 0
    for line in _markdown(comparison):
        size += len(line.encode("utf-8", "backslashreplace")) + 1
        if size > _MOST_BYTES - len(_CUT.encode()):
            text.append(_CUT)
            break
        text.append(line)
    return "\n".join(text) + "\n"


def _markdown(comparison: Comparison) -> Iterator[str]:
    yield "### limpet compare"
    yield ""
    for gate in comparison.gates:
        yield f"- {_MARKS[gate.verdict]} {_plain(gate_words(gate))}"
    yield from ([""] if comparison.gates else [])
    yield f"base {_code(comparison.base.run)}: {_plain(about_words(comparison.base))}"
    for run in comparison.new:
        yield ""
        yield f"new {_code(run.run)}: {_plain(about_words(run.about))}"
        yield ""
        yield from _run(run, comparison)
    if comparison.these_questions:
        yield "About these very questions asked again, not about others like them."
    if is_corrected(comparison):
        yield "p is corrected for the number of comparisons by Holm."


def _run(run: RunComparison, comparison: Comparison) -> Iterator[str]:
    numbers = {name: one for name, one in run.scores.items() if isinstance(one, ScoreComparison)}
    heads = ["score", "base", "new", "change", "95% interval", p_head(comparison), "verdict"]
    if numbers:
        several = is_corrected(comparison)
        rows = [score_row(name, score, several=several) for name, score in numbers.items()]
        yield from _table(heads, ([_code(row[0]), *map(_plain, row[1:])] for row in rows))
    lines = [line for name, score in numbers.items() for line in score_lines(name, score)]
    for name, labels in run.scores.items():
        if isinstance(labels, LabelComparison):
            rows = label_rows(labels)
            yield from _table(
                ["label", "base", "new", "change"],
                ([_code(row[0]), *map(_plain, row[1:])] for row in rows),
            )
            lines += [*label_lines(name, labels), *change_lines(labels)]
    yield from _list([*lines, *left_out_lines(run), *amount_lines(run)])
    if run.flips:
        yield from _folded(
            "biggest changes",
            _table(
                ["score", "item", "change", "base", "new"],
                (
                    [
                        _code(flip.score),
                        _code(item_words(flip)),
                        _code(flip_words(flip)),
                        *map(_code, answers(flip)),
                    ]
                    for flip in run.flips
                ),
            ),
        )
    for name, score in numbers.items():
        if score.slices:
            title = f"{_code(name)} by {_code(comparison.by or '')}"
            yield from _folded(title, _slices(score))


def _slices(score: ScoreComparison) -> Iterator[str]:
    heads = ["value", "items", "base", "new", "change", "95% interval", "p (BH)", "verdict"]
    rows = (
        [
            _code(shown(one.value) or "–"),
            f"{one.difference.n:,}",
            *map(_plain, difference_cells(one.difference, one.p_bh or 0.0)),
        ]
        for one in score.slices
        if one.difference is not None
    )
    return _table(heads, rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _list(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"- {_plain(line)}" for line in lines)
    yield ""


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield "</details>"
    yield ""


def _plain(text: str) -> str:
    """Return text of which Markdown makes nothing, and which notifies nobody."""
    escaped = _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", without_controls(one_line(text)))
    return _WWW.sub("&#46;", escaped.replace("&#64;", "&#64;&#8203;"))


def _code(text: str) -> str:
    return f"<code>{_plain(text)}</code>"


# ---- JUnit --------------------------------------------------------------------------------------


def as_junit(gates: Sequence[GateResult]) -> str:
    """Return gates as the cases of a JUnit file: worse has failed, inconclusive was skipped."""
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
