"""`limpet show`: what are the results of the items?"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from limpet.cli.error_exit import DONE, named_number
from limpet.report.item import item_lines, whole_data
from limpet.report.items import (
    difference_lines,
    group_data,
    group_lines,
    grouped,
    groups_table,
    item_data,
    items_table,
    score_names,
)
from limpet.report.runs import VariantsTable, row_on_disk, variant_data
from limpet.report.status import remark_lines, score_words_of
from limpet.report.summary import claim_lines, interval_notes
from limpet.report.tables import put, put_json, wrapped
from limpet.report.terminal import busy, say, stdout_console
from limpet.report.words import shown
from limpet.run.reading import RunReader, open_run
from limpet.run.reading.description import Description, describe
from limpet.run.reading.find_run import (
    NoSuchItemError,
    VariantRun,
    choose_run,
    is_matrix,
    variants_in,
)
from limpet.run.reading.run_results import worst_cells
from limpet.run.results.filters import Filter, check_fields, filter_of
from limpet.run.results.groups import groups_by, sort_groups
from limpet.run.results.item_record import ItemRecord
from limpet.text import count, one_line

_SCREENFUL = 20
_NOT_OF_FAILURES = ("--by", "--sort", "--worst")


def command(
    run: str | None,
    *,
    failed: bool,
    id_: str | None,
    field: str | None,
    limits: tuple[str, ...],
    where: tuple[str, ...],
    limit: int | None,
    as_json: bool,
    **conditions: Any,
) -> int:
    """Show the items of a run."""
    given = {"--item": id_, "--failed": failed, "--by": field, "--below": limits, "--where": where}
    given |= {f"--{name}": value for name, value in conditions.items()}
    _check_combined([name for name, value in given.items() if value])
    if run is not None and is_matrix(directory := choose_run(run)):
        if id_ is not None:
            _show_item_of_each(directory, id_, as_json=as_json)
        else:
            options = [name for name, value in given.items() if value]
            _show_matrix(directory, options, as_json=as_json)
        return DONE
    limit = limit or conditions["worst"]
    if limit is None and not as_json and stdout_console().is_terminal:
        limit = _SCREENFUL
    with open_run(run) as reader:
        _say_which(reader, is_named=run is not None or as_json)
        if id_ is not None:
            _show_item(reader, id_, as_json=as_json)
            return DONE
        conditions["below"] = _read_below(limits, conditions["evaluator"], reader.evaluators)
        if conditions["worst"] and not (conditions["sort"] or conditions["evaluator"]):
            _check_only(reader.evaluators, f"--worst {conditions['worst']}", "--sort")
        read = partial(reader.items, whole=not reader.knows_rows)
        wanted = filter_of(read, reader.evaluators, where=_read_where(where), **conditions)
        if failed:
            _show_failures(reader, wanted, limit, as_json=as_json)
        elif field is not None:
            _show_groups(reader, wanted, field, limit, as_json=as_json)
        elif as_json:
            items = wanted.ordered(_matching(reader, wanted), limit)
            for item in islice(items, limit):
                put_json(item_data(item))
        else:
            _show_items(reader, wanted, limit)
    return DONE


def _say_which(reader: RunReader, *, is_named: bool) -> None:
    if not is_named:
        say(f"run: {one_line(str(reader.path))}", "dim")


def _check_combined(options: Sequence[str]) -> None:
    """Raise if an option would have no effect beside another."""
    for alone, others in {"--item": options, "--failed": _NOT_OF_FAILURES}.items():
        useless = [name for name in options if name in others and name != alone]
        if alone in options and useless:
            raise click.UsageError(f"{alone} cannot be combined with {useless[0]}")


def _show_matrix(directory: Path, options: Sequence[str], *, as_json: bool) -> None:
    """Show the variants of a matrix; options about items need one of its runs."""
    variants = variants_in(directory)
    if options:
        runs = [f", for example {variant.path}" for variant in variants if variant.has_begun]
        example = one_line("".join(runs[:1]))
        raise click.UsageError(f"{options[0]} needs one run of the matrix {directory}{example}")
    labels = list(variants[0].values)
    rows = [row_on_disk(variant, labels) for variant in variants]
    if not as_json:
        put(VariantsTable(labels, rows))
        return
    for variant, row in zip(variants, rows, strict=True):
        numbers = {} if row.summary is None else variant_data(row.summary)
        put_json({**_about(variant), "state": row.state or "done", **numbers})


def _read_below(
    limits: Sequence[str], evaluator: str | None, evaluators: Sequence[str]
) -> dict[str, float]:
    """Read `--below`: a number, or NAME=NUMBER."""
    below = {}
    for text in limits:
        name, most = named_number(text)
        if math.isnan(most):
            example = f"{name or 'NAME'}=0.5"
            raise click.UsageError(f"--below {text}: must be a number or, for example, {example}")
        if not name and evaluator is None:
            _check_only(evaluators, f"--below {text}", "--evaluator")
        below[name or evaluator or evaluators[0]] = most
    return below


def _check_only(evaluators: Sequence[str], option: str, with_: str) -> None:
    if len(evaluators) != 1:
        names = ", ".join(map(one_line, evaluators)) or "none"
        raise click.UsageError(f"{option}: name the score with {with_}, one of: {names}")


def _read_where(conditions: Iterable[str]) -> dict[str, list[str]]:
    """Read `--where`: FIELD=VALUE; a field given twice may have either value."""
    where: dict[str, list[str]] = {}
    for text in conditions:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--where {text}: must be FIELD=VALUE, for example lang=de")
        where.setdefault(name.strip(), []).append(value.strip())
    return where


class _Counted:
    """Items, counted while iterating."""

    def __init__(self, items: Iterable[ItemRecord]) -> None:
        self._items = items
        self.number = 0

    def __iter__(self) -> Iterator[ItemRecord]:
        for item in self._items:
            self.number += 1
            yield item


def _matching(reader: RunReader, wanted: Filter) -> Iterator[ItemRecord]:
    if wanted.is_only_worst and wanted.sort is not None and wanted.worst is not None:
        worst = worst_cells(reader, wanted.sort, wanted.worst, highest=wanted.descending)
        return reader.items_at(worst)
    return wanted.matching(reader.items())


def _say_scores(run: Description) -> None:
    """Print the means of the run below its items."""
    if scores := score_words_of(run):
        put(*wrapped(scores, stdout_console().width, 0))
        put(*map(Text, (*interval_notes(run.scores), *claim_lines(run.scores))))


def _show_items(reader: RunReader, wanted: Filter, limit: int | None) -> None:
    matches = _Counted(_matching(reader, wanted))
    items = wanted.ordered(matches, limit)
    chosen = list(islice(items, limit))
    if chosen:
        names = score_names(chosen, reader.evaluators, wanted.evaluator)
        reasons = wanted.evaluator is not None
        put(items_table(chosen, names, trials=reader.trials > 1, reasons=reasons))
    else:
        none = f"no item matches{_labels_known(reader, wanted)}" if wanted.selects else "no items"
        say(none if len(reader) else "no items yet")
    if wanted.worst is None:
        if wanted.selects:  # counting the rest means reading it
            deque(items, maxlen=0)
        more = (matches.number if wanted.selects else len(reader)) - len(chosen)
        if more:
            say(f"… and {more:,} more: --limit {len(chosen) + more}", "dim")
    run = describe(reader)
    if not wanted.selects:
        _say_scores(run)
    for line in remark_lines(run):
        say(line, "dim")


def _labels_known(reader: RunReader, wanted: Filter) -> str:
    """Return the end of a message: the known labels, if the wanted one is not among them."""
    if wanted.label is None:
        return ""
    scores = reader.summary()["scores"].values()
    known = dict.fromkeys(label for score in scores for label in score.get("labels", ()))
    if wanted.label in known:
        return ""
    return f"; labels: {', '.join(map(one_line, list(known)[:_SCREENFUL])) or 'none'}"


def _show_groups(
    reader: RunReader, wanted: Filter, field: str, limit: int | None, *, as_json: bool
) -> None:
    whole = bool(wanted.grep) or not reader.knows_rows
    scales = reader.run_file.scales
    with busy("reading the items"):
        check_fields([field], partial(reader.items, whole=not reader.knows_rows))
        items = wanted.ordered(wanted.matching(reader.items(whole=whole)), wanted.worst)
        groups = groups_by(items, field, reader.evaluators, reader.trials, scales)
    if wanted.sort is not None:
        sort_groups(groups, wanted.sort, descending=wanted.descending)
    if as_json:
        for group in groups[:limit]:
            put_json(group)
        return
    if groups:
        put(groups_table(groups[:limit], field, wanted.evaluator))
    else:
        say("no item matches" if len(reader) else "no items yet")
    _say_more_groups(groups, limit)
    put(*map(Text, difference_lines(groups, wanted.evaluator)))
    for line in remark_lines(describe(reader)):
        say(line, "dim")


def _say_more_groups(groups: Sequence[object], limit: int | None) -> None:
    if limit is not None and len(groups) > limit:
        say(f"… and {len(groups) - limit:,} more groups: --limit {len(groups)}", "dim")


def _show_failures(reader: RunReader, wanted: Filter, limit: int | None, *, as_json: bool) -> None:
    step = None if wanted.evaluator is None else wanted.evaluator.evaluator
    whole = bool(wanted.grep) or not reader.knows_rows
    groups = grouped(wanted.matching(reader.items(whole=whole)), step)
    if as_json:
        for group in groups[:limit]:
            put_json(group_data(group))
        return
    if not groups:
        say("no failure matches" if wanted.selects else _nothing_failed(reader))
    for number, group in enumerate(groups[:limit]):
        put(*([Text("")] if number else []), *group_lines(group))
    _say_more_groups(groups, limit)


def _nothing_failed(reader: RunReader) -> str:
    not_run = reader.summary()["workflow"]["not_run"]
    if not not_run:
        return "nothing failed" if len(reader) else "no items yet"
    return f"nothing failed; {count(not_run, 'item has', 'items have')} not run"


def _show_item_of_each(directory: Path, id_: str, *, as_json: bool) -> None:
    """Show an item in each variant of a matrix that has it."""
    known: dict[str, None] = {}
    is_known = False
    for variant in variants_in(directory):
        if not variant.has_begun:
            continue
        with open_run(str(variant.path)) as reader:
            if not reader.item(id_):
                known |= dict.fromkeys(reader.ids())
                continue
            if not as_json:
                values = (
                    f"{one_line(name)} {shown(value)}" for name, value in variant.values.items()
                )
                put(*([Text("")] if is_known else []), Text(" · ".join(values), style="bold"))
            is_known = True
            _show_item(reader, id_, as_json=as_json, about=_about(variant))
    if not is_known:
        raise NoSuchItemError(directory, id_, known)


def _about(variant: VariantRun) -> dict[str, Any]:
    return {"run": str(variant.path), "values": dict(variant.values)}


def _show_item(
    reader: RunReader, id_: str, *, as_json: bool, about: Mapping[str, Any] | None = None
) -> None:
    trials = reader.item(id_)
    if not trials:
        raise NoSuchItemError(reader.path, id_, reader.ids())
    for number, whole in enumerate(trials):
        if as_json:
            put_json({**(about or {}), **whole_data(whole)})
        else:
            lines = item_lines(whole, with_trial=len(trials) > 1)
            put(*([Text("")] if number else []), *lines)
