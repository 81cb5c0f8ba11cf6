"""`limpet run`: run an evaluation, or resume it."""

import json
import math
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click
from rich.text import Text

from limpet.cli.changed import answer_to, can_ask, changes, question_about
from limpet.cli.error_exit import DONE, FAILED, STOPPED, USAGE, no_exit
from limpet.cli.made_by import MadeBy
from limpet.cli.matrix import (
    VariantEvents,
    check_directory,
    named_as_on_disk,
    run_variants,
    say_variants_ended,
    write_variants,
)
from limpet.cli.run_ending import Ended, ending_of, next_steps, say_ended
from limpet.cli.run_flags import (
    Floor,
    RunFlags,
    check_flags,
    check_matrix,
    check_skipped,
    read_against,
    read_floors,
)
from limpet.cli.shown_command import shown_path, this_command
from limpet.config.configuration import Configuration
from limpet.config.matrix import Matrix, Variant
from limpet.datasets.selection import Selection
from limpet.errors import (
    BudgetReachedError,
    FunctionChangedError,
    LimpetError,
    RunPausedError,
)
from limpet.journal.layout import directory_at
from limpet.report.tables import put
from limpet.report.terminal import busy, log_to_stderr, say, stderr_console, stdout_for_data
from limpet.report.views import EventView, LineView, LiveView, TalkingView, View, as_event
from limpet.run.api import Arguments, evaluate_prepared, plan_prepared
from limpet.run.control import control
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.executing.stalls import where_calls_stand
from limpet.run.options import Redo, RunOptions
from limpet.run.planning.plan import Plan
from limpet.run.planning.redo import forced
from limpet.text import harmless

if TYPE_CHECKING:
    from limpet.cli.compare import Against


def command(
    file: Path,
    *,
    only_plan: bool,
    redo: bool,
    trials: int | None,
    settings: tuple[str, ...],
    env_file: Path | None,
    config_file: Path | None,
    only: tuple[str, ...],
    against: str | None,
    margins: tuple[str, ...],
    inconclusive: str | None,
    **given: Any,
) -> int:
    """Run an evaluation, or resume it. `given`: the fields of `RunFlags`, and flags of kinds."""
    base = read_against(against, margins, inconclusive)
    flags = RunFlags(base, **{name: given.pop(name) for name in RunFlags._fields if name in given})
    check_flags(flags, redo=redo)
    if redo:
        flags = flags._replace(redo_steps=("workflow", *flags.redo_steps))
    here = Path.cwd()
    _take_sigusr1()
    with stdout_for_data() as out:
        made_by = MadeBy(config_file or file, given, trials, settings, None, env_file)
        check_skipped(given, flags)
        matrix = made_by.matrix()
        check_matrix(only, flags.against, has_matrix=matrix is not None)
        if matrix is not None:
            first = made_by._replace(variant=matrix.variants[0]).read(needs_keys=not only_plan)
            matrix = named_as_on_disk(matrix, first.run.parent)
        variants = [None] if matrix is None else matrix.chosen(only)
        # All of them before the first call: a mistake in the last one costs nothing.
        runs = [_ready(made_by._replace(variant=one), flags, only_plan) for one in variants]
        check_directory(runs[0].config.run, is_variant=matrix is not None)
        if only_plan:
            with no_exit(), _busy(flags):
                plans = [_plan(run.config, run.prepared) for run in runs]
        elif matrix is None:
            ended, view = _run_or_ask(runs[0], flags, partial(_view, out, flags), here)
        else:
            write_variants(runs[0].config.run.parent, matrix)
            endings = run_variants(
                [
                    (variant, partial(_run_or_ask, _sharing(run, matrix), flags))
                    for variant, run in zip(variants, runs, strict=True)
                    if variant is not None
                ],
                partial(_view, out, flags),
                here,
            )
    if only_plan:
        for run, plan in zip(runs, plans, strict=True):
            _put_plan(plan, made_by.file, run.made_by.variant, as_json=flags.as_json)
        return DONE
    if matrix is not None:
        return say_variants_ended(matrix, endings, runs[0].config.run.parent, here, flags)
    say_ended(ended, view)
    return ended.code


class _Ready(NamedTuple):
    """A run that can begin."""

    made_by: MadeBy
    config: Configuration
    prepared: Arguments
    floors: Sequence[Floor]


def _ready(made_by: MadeBy, flags: RunFlags, only_plan: bool) -> _Ready:  # noqa: FBT001
    is_part = flags.limit is not None or flags.rehearse is not None
    continues = flags.keep or flags.forces or is_part
    config = made_by.read(continue_run=continues, needs_keys=not only_plan)
    prepared = _prepare(config, flags)
    least = read_floors(flags.floors, list(prepared.evaluators))
    if flags.against is not None:
        flags.against.check(config.run, list(prepared.evaluators))
    prepared = replace(
        prepared.with_options(flags.options_for(prepared)),
        limit=flags.limit,
        rehearse=flags.rehearse,
        made_by=made_by._replace(file=config.path).record(config.run),
        resumes_redos=not flags.keep,
    )
    if flags.forces:
        redone = Redo(flags.redo_steps or None, flags.redo_items or None)
        prepared = prepared.with_options({"redo": redone})
        if config.shares_run:  # before anything is moved
            _check_forced(prepared, redone)
    return _Ready(made_by, config, prepared, least)


def _run_or_ask(
    run: _Ready, flags: RunFlags, new_view: Callable[[], View], here: Path
) -> tuple[Ended, View]:
    """Run; if the workflow changed, ask what to do first."""
    config, prepared = run.config, run.prepared
    view = new_view()
    try:
        return _run(config, prepared, view, run.floors, flags.against, here), view
    except RunPausedError as paused:
        path = shown_path(config.run, here)
        paused.hint = f"limpet ctl {path} resume && {this_command()}"
        if flags.quiet or flags.as_json or config.shares_run or not can_ask():
            raise
        say(str(paused), "yellow")
        if not click.confirm("go on?", default=True, err=True):
            raise
        control(config.run).resume()
        return _run_or_ask(run, flags, new_view, here)
    except FunctionChangedError as changed:
        kept = _plan_with(config, prepared, {"on_change": "keep"})
        again = _plan_with(config, prepared, {"redo": Redo(("workflow", *flags.redo_steps))})
        named = config.is_named
        question = question_about(changed, run.made_by.file, again, kept, is_named=named)
        if flags.quiet or flags.as_json or config.shares_run or not can_ask():
            raise question from changed
        answer = answer_to(question, changed, kept, is_named=named)
    view = new_view()
    prepared = prepared.with_options({"on_change": answer})
    return _run(config, prepared, view, run.floors, flags.against, here), view


def _sharing(run: _Ready, matrix: Matrix) -> _Ready:
    """Return a variant's run, which shares a budget with those of the others."""
    path = run.config.run
    others = [path.with_name(variant.name) for variant in matrix.variants]
    spent = [directory_at(other).spent for other in others if other != path]
    return run._replace(prepared=replace(run.prepared, shares_budget=spent))


def _check_forced(prepared: Arguments, redo: Redo) -> None:
    items, selection = list(prepared.dataset), Selection(limit=prepared.limit)
    on_change = prepared.options.get("on_change")
    forced(redo, on_change, list(prepared.evaluators), items, selection)


def _prepare(config: Configuration, flags: RunFlags) -> Arguments:
    """Import what the file names and print its remarks, before any call is made."""
    warn = _say_nothing if flags.quiet else _warn
    known = len(config.remarks)
    for remark in config.remarks:
        warn(remark)
    with no_exit(), _busy(flags):
        prepared = config.prepare()
    for remark in config.remarks[known:]:
        warn(remark)
    return prepared


def _busy(flags: RunFlags) -> AbstractContextManager[None]:
    return nullcontext() if flags.quiet or flags.as_json else busy("preparing the run")


def _view(out: TextIO, flags: RunFlags, variant: Variant | None = None) -> View:
    if flags.as_json:
        return EventView(out) if variant is None else VariantEvents(out, variant.name)
    if flags.quiet:
        return View()
    return LiveView() if stderr_console().is_terminal else LineView()


def _plan(config: Configuration, prepared: Arguments) -> Plan:
    with config.to_plan(prepared) as start:
        return plan_prepared(start)


def _plan_with(config: Configuration, prepared: Arguments, options: RunOptions) -> Plan | None:
    """Return the plan with other options; None if it cannot be made."""
    if config.shares_run:  # it has started, and may have moved files
        return None
    return _possible_plan(config, prepared.with_options(options))


def _possible_plan(config: Configuration, prepared: Arguments) -> Plan | None:
    with suppress(LimpetError):
        return _plan(config, prepared)
    return None


def _rest(
    config: Configuration, prepared: Arguments, result: EvaluationResult, code: int
) -> Plan | None:
    """Return the plan of what a rehearsal or a budget left; None: neither, or it cannot be made."""
    is_capped = isinstance(result.stop_reason, BudgetReachedError)
    if is_capped if code >= STOPPED else prepared.rehearse is not None:
        return _possible_plan(config, replace(prepared, rehearse=None))
    return None


def _put_plan(plan: Plan, file: Path, variant: Variant | None, *, as_json: bool) -> None:
    if as_json:
        named = {} if variant is None else {"variant": variant.name}
        click.echo(json.dumps({"event": "planned"} | named | as_event(plan)))
        return
    if variant is not None:
        put(Text(harmless(f"{variant.name}:"), style="bold"))
    put(*(Text(harmless(line)) for line in (str(plan), *changes(plan, file))))


@no_exit()
def _run(
    config: Configuration,
    prepared: Arguments,
    view: View,
    floors: Sequence[Floor],
    against: "Against | None",
    here: Path,
) -> Ended:
    began = time.monotonic()
    prepared = replace(prepared.with_options({"watcher": view}), stop_grace_s=math.inf)
    if isinstance(view, TalkingView):
        say(f"{config.name} · {shown_path(config.run, here)}", "bold", wrap=False)
    is_finished = True
    if config.shares_run:
        talks = isinstance(view, (TalkingView, EventView))
        config.begin(prepared, _warn if talks else _say_nothing)

        def finish(result: EvaluationResult) -> bool:
            nonlocal is_finished
            view.end()  # do not draw over the output of scripts
            is_stopped = ending_of(result, floors)[0] >= STOPPED
            is_finished = config.finish(result, _warn, stopped=is_stopped)
            return is_finished

        prepared = replace(prepared, on_end=finish)
    with log_to_stderr(), view:
        result = evaluate_prepared(prepared)
        code, why = ending_of(result, floors, rehearsed=prepared.rehearse is not None)
        if not is_finished:
            code = max(code, FAILED)
            why = why or "the results are on disk, but a later step failed: see above"
        compared = None
        if against is not None and code in (DONE, FAILED):
            module = import_module("limpet.cli.compare")
            compared = module.compared_with(against, result.run or str(config.run))
            code = compared.code if code == DONE or compared.code == USAGE else code
            why = why if isinstance(view, TalkingView) else why or compared.why
        rest = _rest(config, prepared, result, code)
        if isinstance(view, EventView):
            if rest is not None:
                view.say("rehearsed" if code < STOPPED else "left", **as_event(rest))
            if compared is not None:
                view.say("compared", **compared.data())
            view.say("ended", exit_code=code, why=why, run=result.run, summary=result.summary)
    run = shown_path(Path(result.run or config.run), here)
    following = next_steps(result, run, code, rest)
    if code == DONE and rest is None:
        following += config.next_steps(shown_path(config.path, here), run)
    return Ended(result, code, why, time.monotonic() - began, following, compared, rest)


def _take_sigusr1() -> None:
    """Print where every call in flight stands when SIGUSR1 arrives, until this process ends."""

    def tell(_: int, frame: FrameType | None) -> None:
        for line in where_calls_stand(frame):
            say(line, wrap=False)

    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, tell)


def _warn(line: str) -> None:
    say(line, "yellow", wrap=False)


def _say_nothing(_: str) -> None:
    """Print nothing."""
