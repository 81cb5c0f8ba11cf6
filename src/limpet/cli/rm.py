"""`limpet rm` removes a run, `limpet tag` names one, to find it again."""

from pathlib import Path

import click

from limpet.cli.changed import can_ask
from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.journal.layout import layout_at
from limpet.report.terminal import say
from limpet.run.housekeeping import (
    RunContents,
    add_tag,
    checked_tag,
    contents_of,
    remove_run,
    remove_tag,
    tags_of,
)
from limpet.run.reading.find_run import (
    MATRIX_FILE,
    RUNS,
    choose_run,
    is_matrix,
    layout_of_run,
    runs_in,
)
from limpet.text import count, harmless, one_line, size

# ---- `limpet rm`: remove a run. -----------------------------------------------------------------

_MOST_NAMED = 5


def command(run: str, *, yes: bool) -> int:
    """Remove a run, or those of a matrix."""
    path = choose_run(run)
    shown = one_line(str(path))
    if path.is_symlink():
        raise LimpetError(
            f"{shown}: is a link to {one_line(str(path.resolve()))}; nothing was removed",
            hint="name the run itself",
        )
    layouts = list(map(layout_of_run, runs_in(path) if is_matrix(path) else [path]))
    every = list(map(contents_of, layouts))
    if not yes:
        _ask(shown, _together(every))
    others = _together(list(map(remove_run, layouts))).others
    if is_matrix(path):
        (path / MATRIX_FILE).unlink()
        others += path.iterdir()
        if not others:
            path.rmdir()
    say(f"removed {shown}")
    if others:
        say(f"kept, not made by Limpet: {_named(others)}", "yellow")
    return DONE


def _together(every: list[RunContents]) -> RunContents:
    ours = [path for contents in every for path in contents.ours]
    return RunContents(ours, [path for contents in every for path in contents.others])


def _ask(shown: str, found: RunContents) -> None:
    if not can_ask():
        raise LimpetError(
            f"{shown}: was not removed: there is no terminal to ask for confirmation",
            hint=f"add --yes: its {size(found.bytes)} cannot be restored",
        )
    if found.others:
        say(f"not made by Limpet, kept: {_named(found.others)}", "yellow")
    question = f"remove {harmless(shown)} ({size(found.bytes)}) permanently?"
    if not click.confirm(question, default=False, err=True):
        raise LimpetError(f"{shown}: was not removed")


def _named(paths: list[Path]) -> str:
    names = ", ".join(one_line(path.name) for path in paths[:_MOST_NAMED])
    more = len(paths) - _MOST_NAMED
    return f"{names} and {count(more, 'other')}" if more > 0 else names


def tag(name: str | None, run: str | None, *, remove: bool) -> int:
    """Add a tag to a run, or remove it; without a name, list the tags of all runs."""
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


# ---- `limpet tag`: name a run, to find it again. ------------------------------------------------


def _list() -> int:
    for path in runs_in(RUNS):
        for tag in tags_of(layout_at(path)):
            click.echo(f"{one_line(tag)}\t{one_line(str(path))}")
    return DONE
