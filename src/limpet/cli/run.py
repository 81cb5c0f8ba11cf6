"""`limpet run`: run an evaluation. Its flags are in `run_flags`, which imports fast."""

import gc
import json
import math
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click
from rich.text import Text

from limpet.cli.endings import DONE, FAILED, STOPPED, say_error
from limpet.cli.logs import log_to_talk
from limpet.cli.made_by import noted
from limpet.cli.nat_flags import read_config
from limpet.cli.verdict import (
    EARLY_STOP_HINT,
    Floor,
    ending_of,
    next_steps,
    read_floors,
    shown_path,
)
from limpet.config import Config
from limpet.datasets.selection import Selection
from limpet.errors import EarlyStopError, FunctionChangedError, LimpetError
from limpet.integrations.nat import NatConfig
from limpet.report.busy import busy
from limpet.report.events import EventView
from limpet.report.live import LineView, LiveView, TalkingView, View
from limpet.report.summary import remarks, summary_table
from limpet.report.tables import put
from limpet.report.terminal import stdout_for_data, talk
from limpet.run.api import Prepared, evaluate_prepared, plan_prepared
from limpet.run.options import Redo, RunOptions, as_retry
from limpet.run.planning.explanation import few_lines
from limpet.run.planning.plan import Plan
from limpet.run.planning.redo import forced
from limpet.run.results.evaluation_result import EvaluationResult
from limpet.run.run_file import OnChange
from limpet.text import harmless

_MOST_ROWS = 5


def run(
    file: Path,
    *,
    only_plan: bool,
    redo: bool,
    redo_steps: tuple[str, ...],
    redo_items: tuple[str, ...],
    keep: bool,
    retry_failed: bool | None,
    early_stop: bool | None,
    limit: int | None,
    trials: int | None,
    overrides: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    floors: tuple[str, ...],
    **given: Any,
) -> int:
    """Run an evaluation, or resume it; the flags are those of `run_flags`."""
    if quiet and as_json:
        raise click.UsageError("--quiet and --json cannot be combined")
    if redo:
        _check_redo(redo_items, keep=keep)
        redo_steps = ("workflow", *redo_steps)
    here = Path.cwd()
    with stdout_for_data() as out:
        file = given.pop("config_file") or file
        forces = bool(redo_steps or redo_items)
        config = read_config(
            file, given, trials, overrides, goes_on=keep or forces or limit is not None
        )
        _check_skipped(given, redo_steps, forces=forces)
        prepared = _prepare(config, quiet=quiet, as_json=as_json)
        least = read_floors(floors, list(prepared.evaluators))
        prepared = replace(
            prepared.told(_flags(prepared, keep=keep, failed=retry_failed, early_stop=early_stop)),
            limit=limit,
            made_by=noted(config.path, config.run, given, trials, overrides),
        )
        if forces:
            redone = Redo(redo_steps or None, redo_items or None)
            prepared = prepared.told({"redo": redone})
            if isinstance(config, NatConfig):  # before anything is moved
                _check_forced(prepared, redone)
        view = _view(out, quiet=quiet, as_json=as_json)
        try:
            with no_exit():
                if only_plan:
                    with _busy(quiet=quiet, as_json=as_json):
                        plan = _plan(config, prepared)
                else:
                    ended = _run(config, prepared, view, least, here)
        except FunctionChangedError as changed:
            question = _choose(changed, file, _if_kept(config, prepared))
            if quiet or as_json or isinstance(config, NatConfig) or not _can_ask(sys.stdin):
                raise question from changed
            prepared = prepared.told({"on_change": _answer_to(question)})
            view = _view(out, quiet=quiet, as_json=as_json)
            with no_exit():
                ended = _run(config, prepared, view, least, here)
    if only_plan:
        return _say_plan(plan, file, as_json=as_json)
    return _say_ended(ended, view)


def _flags(
    prepared: Prepared, *, keep: bool, failed: bool | None, early_stop: bool | None
) -> RunOptions:
    """Return the options that the command line sets, over those of the file."""
    options: RunOptions = {}
    if keep:
        options["on_change"] = "keep"
    if failed is not None:
        options["retry"] = replace(as_retry(prepared.options.get("retry")), failed=failed)
    if early_stop is not None:
        options["early_stop"] = early_stop
    return options


def _check_forced(prepared: Prepared, redo: Redo) -> None:
    items, selection = list(prepared.dataset), Selection(limit=prepared.limit)
    on_change = prepared.options.get("on_change")
    forced(redo, on_change, list(prepared.evaluators), items, selection)


def _check_redo(items: Sequence[str], *, keep: bool) -> None:
    if keep:
        raise click.UsageError("--redo and --keep cannot be combined")
    if items:
        raise click.UsageError("--redo runs every item: use --redo or --redo-item, not both")


def _check_skipped(given: Mapping[str, Any], steps: Sequence[str], *, forces: bool) -> None:
    if given.get("skip_workflow") and forces and (not steps or "workflow" in steps):
        raise click.UsageError(
            "--skip-workflow calls no workflow: name the evaluators to run again with "
            "--redo-step, or leave it out"
        )


def _prepare(config: Config | NatConfig, *, quiet: bool, as_json: bool) -> Prepared:
    """Import what the file names and report skipped rows, before any call is made."""
    notes = config.notes if isinstance(config, NatConfig) and not quiet else []
    for note in notes:
        _say(note)
    with no_exit(), _busy(quiet=quiet, as_json=as_json):
        prepared = config.prepare()
    if isinstance(config, NatConfig) and not quiet:
        _say_skipped(prepared.dataset.bad_rows)
    return prepared


@contextmanager
def no_exit() -> Iterator[None]:
    """Turn a `sys.exit` in user code into an error."""
    try:
        yield
    except SystemExit as error:
        raise LimpetError(
            f"user code called sys.exit({error.code!r})",
            hint="a workflow, an evaluator or a dataset must not exit: raise an exception",
        ) from error


def _busy(*, quiet: bool, as_json: bool) -> AbstractContextManager[None]:
    return nullcontext() if quiet or as_json else busy("preparing the run")


def _view(out: TextIO, *, quiet: bool, as_json: bool) -> View:
    if as_json:
        return EventView(out)
    if quiet:
        return View()
    return LiveView() if talk().is_terminal else LineView()


def _plan(config: Config | NatConfig, prepared: Prepared) -> Plan:
    if not isinstance(config, NatConfig):
        return plan_prepared(prepared)
    with config.to_plan() as run:
        return plan_prepared(replace(prepared, run=run))


def _say_plan(plan: Plan, file: Path, *, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"text": str(plan), "calls": plan.calls, "plan": asdict(plan)}))
    else:
        put(Text(harmless(str(plan))))
        for line in _changes(plan, file):
            put(Text(harmless(line)))
    return DONE


def _say_skipped(bad_rows: Sequence[object]) -> None:
    """Report skipped rows, before any call is made."""
    for row in bad_rows[:_MOST_ROWS]:
        _say(f"skipped: {row}")
    if len(bad_rows) > _MOST_ROWS:
        _say(f"skipped: {len(bad_rows) - _MOST_ROWS:,} more rows; summary.json lists them all")


class _Ended(NamedTuple):
    """How a run ended."""

    result: EvaluationResult
    code: int
    why: str
    seconds: float
    next: list[str]


def _run(
    config: Config | NatConfig,
    prepared: Prepared,
    view: View,
    floors: Sequence[Floor],
    here: Path,
) -> _Ended:
    began = time.monotonic()
    # By default Python collects garbage after 700 new objects: a quarter of the time of a run
    # with a thousand calls in flight. This process is ours, so we may collect less often.
    gc.set_threshold(10_000, 10, 10)
    prepared = replace(prepared.told({"watcher": view}), stop_grace_s=math.inf)
    if isinstance(view, TalkingView):
        run = shown_path(config.run, here)
        talk().print(Text(f"{harmless(config.name)} · {run}", "bold"), soft_wrap=True)
    well = True
    if isinstance(config, NatConfig):
        config.begin(_say if isinstance(view, (TalkingView, EventView)) else _say_nothing)

        def finish(result: EvaluationResult) -> bool:
            nonlocal well
            view.end()  # do not draw over the output of scripts
            well = config.finish(_say, stopped=ending_of(result, floors)[0] >= STOPPED)
            return well

        prepared = replace(prepared, on_end=finish)
    with log_to_talk(), view:
        result = evaluate_prepared(prepared)
        code, why = ending_of(result, floors)
        if not well:
            code = max(code, FAILED)
            why = why or "the results are complete, but a script that runs after them failed"
        if isinstance(view, EventView):
            view.say("ended", exit_code=code, why=why, run=result.run, summary=result.summary)
    run = shown_path(Path(result.run or config.run), here)
    return _Ended(result, code, why, time.monotonic() - began, next_steps(result, run, code))


def _say_ended(ended: _Ended, view: View) -> int:
    if isinstance(view, TalkingView):
        talk().print()
        unwritten = _put_summary(ended.result)
        talk().print()
        for line in remarks(ended.result.summary, ended.seconds):
            talk().print(Text(line, style="dim"))
        if isinstance(ended.result.stop_reason, EarlyStopError):
            _say_early_stop(ended.result.stop_reason)
        elif ended.why:
            talk().print(Text(harmless(ended.why), style="yellow"))
        for line in ended.next:  # not wrapped, to be copied into a shell
            talk().print(Text(harmless(line)), soft_wrap=True)
        if unwritten is not None:
            raise unwritten
    elif isinstance(ended.result.stop_reason, EarlyStopError) and not isinstance(view, EventView):
        _say_early_stop(ended.result.stop_reason)
    elif ended.why and not isinstance(view, EventView):
        say_error(ended.why, None)
    return ended.code


def _say_early_stop(reason: EarlyStopError) -> None:
    say_error(str(reason), EARLY_STOP_HINT)


def _put_summary(result: EvaluationResult) -> OSError | None:
    """Print the summary; return the error if that failed, so that the rest is still printed."""
    try:
        put(summary_table(result.summary))
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def _changes(plan: Plan, file: Path) -> Iterator[str]:
    """Yield what changed in each step, a few lines per step."""
    for step in (plan.workflow, *plan.evaluators):
        lines = few_lines(step.differences, _why(file))
        if lines:
            yield f"{step.name} changed:"
            yield from (f"  {line}" for line in lines)


def _why(file: Path) -> str:
    return shlex.join(["limpet", "why", str(file)])


def _if_kept(config: Config | NatConfig, prepared: Prepared) -> Plan | None:
    """Return the plan if the existing answers were kept; None if it cannot be made."""
    if isinstance(config, NatConfig):  # it has started, and may have moved files
        return None
    with suppress(LimpetError):
        return _plan(config, prepared.told({"on_change": "keep"}))
    return None


def _choose(changed: FunctionChangedError, file: Path, kept: Plan | None) -> LimpetError:
    lines = [str(changed), *([] if changed.plan is None else [str(changed.plan)])]
    lines += [f"the existing results took {changed.took}"] if changed.took else []
    lines += [f"  {line}" for line in few_lines(changed.differences, _why(file))]
    redo, keep = "--redo runs the workflow again", "--keep keeps the existing answers"
    if isinstance(changed.plan, Plan) and kept is not None:
        redo, keep = f"{redo}: {changed.plan.cost}", f"{keep}: {kept.cost}"
    return LimpetError("\n".join(lines), hint=f"{redo}; {keep}")


def _can_ask(stdin: TextIO | None) -> bool:
    """Tell whether there is a person to ask."""
    return talk().is_terminal and stdin is not None and stdin.isatty()


def _answer_to(question: LimpetError) -> OnChange:
    """Ask what to do about a changed workflow.

    Raises:
        LimpetError: The user chose to stop.
    """
    talk().print(Text(harmless(str(question)), style="yellow"), soft_wrap=True)
    talk().print(Text(harmless(question.hint or "")), soft_wrap=True)
    choices = click.Choice(["redo", "keep", "stop"])
    answer = click.prompt(
        "redo, keep or stop?", "stop", type=choices, prompt_suffix=" ", show_choices=False, err=True
    )
    if answer == "redo":
        return "redo"
    if answer == "keep":
        return "keep"
    raise LimpetError("the workflow changed: nothing was run", hint=question.hint)


def _say(line: str) -> None:
    talk().print(Text(harmless(line), style="yellow"), soft_wrap=True)


def _say_nothing(_: str) -> None:
    """Print nothing."""
