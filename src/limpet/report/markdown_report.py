"""A run for a pull request: what came out, what failed, and the worst items."""

from collections.abc import Iterator

import numpy as np

from limpet.report.comparison_files import comparison_markdown
from limpet.report.failure_groups import grouped
from limpet.report.markdown import bullets, code, document, escaped, folded, table
from limpet.report.status import standing_lines
from limpet.report.summary import SUMMARY_HEADS, summary_rows
from limpet.report.words import shown
from limpet.run.comparing.results import Comparison
from limpet.run.reading.heads import HeadQuery, Heads, failed_rows
from limpet.run.reading.reader import RunReader
from limpet.run.results.score_words import ScoreName, stop_when_lines, values_words

_MOST_FAILURES, _MOST_GROUPS, _MOST_IDS, _WORST = 2_000, 10, 3, 5
_CUT = "… and more, which `limpet show` prints"


def run_markdown(reader: RunReader, comparison: Comparison | None = None) -> str:
    """Return a run in Markdown, under a megabyte; with a comparison, if there is one."""
    heads = Heads(reader)
    heads.refresh()
    return document(_lines(heads, comparison), _CUT)


def _lines(heads: Heads, comparison: Comparison | None) -> Iterator[str]:
    reader, summary = heads.reader, heads.summary()
    yield "### limpet report"
    yield ""
    so_far = "; the numbers are those so far" if reader.is_running else ""
    yield f"{code(reader.path.resolve().name)}: {escaped(reader.state)}{so_far}"
    yield ""
    rows = list(summary_rows(summary))
    used = [name for name in SUMMARY_HEADS if any(row[name] for _, row in rows)]
    cells = ([code(step), *(escaped(row[name]) for name in used)] for step, row in rows)
    yield from table(["step", *used], cells)
    enough = stop_when_lines(reader.summary_written()) if reader.state == "enough" else []
    yield from bullets([*reader.remarks, *enough, *standing_lines(reader)])
    yield from _failures(heads)
    for name in heads.table.scores:
        yield from _worst(heads, name)
    if comparison is not None:
        yield "#### compared"
        yield ""
        yield from comparison_markdown(comparison)


def _failures(heads: Heads) -> Iterator[str]:
    places = failed_rows(heads.table).nonzero()[0]
    groups = grouped(heads.read(places[:_MOST_FAILURES]))
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
    if len(places) > _MOST_FAILURES:
        yield f"Of the first {_MOST_FAILURES:,} of {len(places):,} items that failed."
        yield ""


def _worst(heads: Heads, name: ScoreName) -> Iterator[str]:
    """Yield the items with the worst of a score, folded."""
    scores = heads.table.scores[name].reshape(-1)
    known = heads.summary()["evaluators"].get(name.evaluator, {})
    sort = str(name) if known.get("higher_is_better", True) else f"-{name}"
    places = HeadQuery(sort=sort).ordered(heads.table, np.flatnonzero(~np.isnan(scores)))
    rows = [
        [
            code(item.id) + (f" trial {item.trial}" if heads.table.trials > 1 else ""),
            code(", ".join(values_words(record) for record in name.records(item))),
            code(shown(item.input)),
            code(shown(item.output)),
        ]
        for item in heads.read(places[:_WORST])
    ]
    if rows:
        title = f"worst {code(str(name))}"
        yield from folded(title, table(["item", "score", "input", "output"], rows))
