"""`limpet show`: what are the results of the items?"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import click
from rich.text import Text

from limpet.cli.error_exit import DONE
from limpet.report.failure_groups import FailureGroup, group_data, group_lines, grouped
from limpet.report.item import item_lines, whole_data
from limpet.report.items import item_data, items_table, lowest, scores_table
from limpet.report.status import standing_lines
from limpet.report.tables import put, put_json
from limpet.report.terminal import say, stdout_console
from limpet.run.reading import RunReader, open_run
from limpet.run.reading.find_run import NoSuchItemError
from limpet.run.results.evaluation_result import ItemResult
from limpet.text import count, did_you_mean, one_line

_SCREENFUL = 20


def command(
    run: str | None,
    *,
    failed: bool,
    id_: str | None,
    evaluator: str | None,
    below: float | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """Show the items of a run."""
    if limit is None and not as_json and stdout_console().is_terminal:
        limit = _SCREENFUL
    with open_run(run) as reader:
        if id_ is not None:
            _show_item(reader, id_, as_json=as_json)
            return DONE
        evaluator = _evaluator(reader.evaluators, evaluator, needed=below is not None)
        items = reader.items()
        if below is not None and evaluator is not None:
            items = _below(items, evaluator, below)
        if failed:
            groups = grouped(items, evaluator)
            _show_failures(reader, groups, limit, as_json=as_json)
        elif as_json:
            for item in islice(items, limit):
                put_json(item_data(item))
        else:
            _show_items(reader, items, evaluator, limit, below)
    return DONE


def _show_items(
    reader: RunReader,
    items: Iterator[ItemResult],
    evaluator: str | None,
    limit: int | None,
    below: float | None,
) -> None:
    chosen = list(islice(items, limit))
    if not chosen:
        none = "no items" if below is None else f"no item is below {below:g}"
        say(none if len(reader) else "no items yet")
    elif evaluator is not None:
        put(scores_table(chosen, evaluator))
    else:
        put(items_table(chosen, reader.evaluators))
    # With a filter, counting the rest means reading it.
    more = len(reader) - len(chosen) if below is None else sum(1 for _ in items)
    if more:
        say(f"… and {more:,} more: --limit {len(chosen) + more}", "dim")
    for line in standing_lines(reader):
        say(line, "dim")


def _show_failures(
    reader: RunReader, groups: list[FailureGroup], limit: int | None, *, as_json: bool
) -> None:
    if as_json:
        for group in groups[:limit]:
            put_json(group_data(group))
        return
    if not groups:
        say(_nothing_failed(reader))
    for number, group in enumerate(groups[:limit]):
        put(*([Text("")] if number else []), *group_lines(group))
    if limit is not None and len(groups) > limit:
        say(f"… and {len(groups) - limit:,} more groups: --limit {len(groups)}", "dim")


def _nothing_failed(reader: RunReader) -> str:
    not_run = reader.summary()["workflow"]["not_run"]
    if not not_run:
        return "nothing failed" if len(reader) else "no items yet"
    return f"nothing failed; {count(not_run, 'item has', 'items have')} not run"


def _below(items: Iterable[ItemResult], evaluator: str, below: float) -> Iterator[ItemResult]:
    for item in items:
        score = lowest(item, evaluator)
        if score is not None and score < below:
            yield item


def _evaluator(known: Sequence[str], name: str | None, *, needed: bool) -> str | None:
    names = ", ".join(map(one_line, known)) or "none"
    if name is not None and name not in known:
        hint = did_you_mean(name, known)
        raise click.UsageError(f"--evaluator {one_line(name)}: unknown; known: {names}{hint}")
    if name is None and needed:
        if len(known) != 1:
            raise click.UsageError(f"--below needs --evaluator, one of: {names}")
        return known[0]
    return name


def _show_item(reader: RunReader, id_: str, *, as_json: bool) -> None:
    trials = reader.item(id_)
    if not trials:
        raise NoSuchItemError(reader.path, id_, reader.ids())
    for number, whole in enumerate(trials):
        if as_json:
            put_json(whole_data(whole))
        else:
            put(*([Text("")] if number else []), *item_lines(whole))
