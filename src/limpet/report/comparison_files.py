"""A comparison for a pull request (Markdown) and for a CI system (JUnit).

Both hold what models wrote.
"""

import sys
from collections.abc import Iterator, Sequence
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
from limpet.report.markdown import bullets, code, document, escaped, folded, table
from limpet.report.words import shown
from limpet.run.comparing.results import (
    Comparison,
    GateResult,
    LabelComparison,
    RunComparison,
    ScoreComparison,
)
from limpet.run.results.table import without_controls
from limpet.text import one_line

_MARKS = {"not worse": "✅", "worse": "❌", "inconclusive": "❔"}
_CUT = "… and more, which `limpet compare` prints"


def write_file(path: Path, text: str) -> None:
    """Write a file, whole; "-" is stdout. A link keeps its place, and so does a device.

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
    return document(["### limpet compare", "", *comparison_markdown(comparison)], _CUT)


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
        yield "About these very questions asked again, not about others like them."
    if is_corrected(comparison):
        yield "p is corrected for the number of comparisons by Holm."


def _run(run: RunComparison, comparison: Comparison) -> Iterator[str]:
    numbers = {name: one for name, one in run.scores.items() if isinstance(one, ScoreComparison)}
    heads = ["score", "base", "new", "change", "95% interval", p_head(comparison), "verdict"]
    if numbers:
        several = is_corrected(comparison)
        rows = [score_row(name, score, several=several) for name, score in numbers.items()]
        yield from table(heads, ([code(row[0]), *map(escaped, row[1:])] for row in rows))
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
    heads = ["value", "items", "base", "new", "change", "95% interval", "p (BH)", "verdict"]
    rows = (
        [
            code(shown(one.value) or "–"),
            f"{one.difference.n:,}",
            *map(escaped, difference_cells(one.difference, one.p_bh or 0.0)),
        ]
        for one in score.slices
        if one.difference is not None
    )
    return table(heads, rows)


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
