"""`limpet tag`: name a run, to find it again."""

import click

from limpet.cli.error_exit import DONE
from limpet.journal.layout import layout_at
from limpet.report.terminal import say
from limpet.run.housekeeping import add_tag, checked_tag, remove_tag, tags_of
from limpet.run.reading.find_run import RUNS, choose_run, layout_of_run, runs_in
from limpet.text import one_line


def command(name: str | None, run: str | None, *, remove: bool) -> int:
    """Give a run a tag, or take it away; without a name, list the tags of all runs."""
    if name is None:
        if remove:
            raise click.UsageError("--remove needs the NAME of a tag")
        return _list()
    checked_tag(name)
    path = choose_run(run)
    layout = layout_of_run(path)
    (remove_tag if remove else add_tag)(layout, name)
    say(f"{one_line(str(path))}: {', '.join(map(one_line, tags_of(layout))) or 'no tags'}")
    return DONE


def _list() -> int:
    for path in runs_in(RUNS):
        for tag in tags_of(layout_at(path)):
            click.echo(f"{one_line(tag)}\t{one_line(str(path))}")
    return DONE
