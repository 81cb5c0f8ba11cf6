"""`holdfast run`: one file, one command."""

import json
import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from holdfast.cli.endings import DONE, FAILED, STOPPED, say_error
from holdfast.cli.logs import log_to_talk
from holdfast.config import Config, Prepared, load_config
from holdfast.errors import FunctionChangedError, HoldfastError, InterruptedRunError
from holdfast.report.events import EventView
from holdfast.report.live import LineView, LiveView, TalkingView, View
from holdfast.report.summary import remarks, summary_table
from holdfast.report.tables import put
from holdfast.report.terminal import talk
from holdfast.report.words import mean
from holdfast.run.face import EvaluationOptions, evaluate
from holdfast.run.face import plan as plan_of
from holdfast.run.results import EvaluationResult
from holdfast.text import harmless


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path), default=Path("eval.yml"))
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--redo", "on_change", flag_value="redo", help="The workflow changed: run it anew.")
@click.option(
    "--keep", "on_change", flag_value="keep", help="It changed: keep what it gave before."
)
@click.option(
    "--retry-failed/--no-retry-failed",
    default=True,
    show_default=True,
    help="Try again what failed before.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N rows.")
@click.option("--trials", type=click.IntRange(min=1), help="How often each item is asked.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE",
              help="Another value than the file's; may be repeated.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event, on stdout.")
@click.option("--fail-under", "floors", multiple=True, metavar="NAME=VALUE",
              help="End with 1 if an evaluator's mean is lower; may be repeated.")  # fmt: skip
def command(
    file: Path,
    *,
    only_plan: bool,
    on_change: Any,
    retry_failed: bool,
    limit: int | None,
    trials: int | None,
    overrides: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    floors: tuple[str, ...],
) -> int:
    """Run the evaluation that FILE describes, or go on with it.

    What is on disk is kept, what is missing is done, and an edit runs only what it touched. Ctrl-C
    lets calls in flight end; a second one does not.
    """
    if quiet and as_json:
        raise click.UsageError("--quiet and --json exclude each other")
    if trials is not None:
        overrides = (*overrides, f"trials={trials}")
    config = load_config(file, overrides)
    prepared = config.prepare()
    least = _floors(floors, prepared.evaluators)
    options = prepared.options.copy()
    options["retry_failed"] = retry_failed
    if on_change is not None:
        options["on_change"] = on_change
    if limit is not None:
        options["limit"] = limit
    try:
        if only_plan:
            return _say_plan(config, prepared, options, as_json=as_json)
        return _run(config, prepared, options, _view(quiet=quiet, as_json=as_json), least)
    except FunctionChangedError as changed:
        raise _choose(changed) from changed


def _view(*, quiet: bool, as_json: bool) -> View:
    if as_json:
        return EventView()
    if quiet:
        return View()
    return LiveView() if talk().is_terminal else LineView()


def _say_plan(
    config: Config, prepared: Prepared, options: EvaluationOptions, *, as_json: bool
) -> int:
    plan = plan_of(
        prepared.dataset, prepared.workflow, prepared.evaluators, config.run, config.trials,
        **options,
    )  # fmt: skip
    if as_json:
        click.echo(json.dumps({"text": str(plan), "calls": plan.calls, "plan": asdict(plan)}))
    else:
        put(Text(harmless(str(plan))))
    return DONE


def _run(
    config: Config,
    prepared: Prepared,
    options: EvaluationOptions,
    view: View,
    least: Mapping[str, float],
) -> int:
    began = time.monotonic()
    options = options.copy()
    options["watcher"] = view
    options["stop_grace_s"] = math.inf
    options["configuration"] = config.public
    if isinstance(view, TalkingView):
        talk().print(Text(f"{harmless(config.name)} · {harmless(_shown(config.run))}", "bold"))
    with log_to_talk(), view:
        result = evaluate(
            prepared.dataset,
            prepared.workflow,
            prepared.evaluators,
            config.run,
            config.trials,
            **options,
        )
        code, why = _ending(result, least)
        if isinstance(view, EventView):
            view.say("ended", exit_code=code, why=why, run=result.run, summary=result.summary)
    if why and not isinstance(view, (TalkingView, EventView)):
        say_error(why, None)
    if isinstance(view, TalkingView):
        _say_ending(result, time.monotonic() - began, why, _how_to_go_on(config, result, code))
    return code


def _ending(result: EvaluationResult, least: Mapping[str, float]) -> tuple[int, str]:
    """Return the exit code, and why it is not 0."""
    summary = result.summary
    steps = [summary["workflow"], *summary["evaluators"].values()]
    reason = result.stop_reason
    if reason is not None and any(step["not_run"] for step in steps):
        if isinstance(reason, InterruptedRunError):
            return 128 + (reason.signum or 2), "stopped: interrupted"
        return STOPPED, f"stopped: {reason}"
    under = [
        f"{name} is {mean(value)} and should be at least {least[name]:g}"
        for name in least
        if (value := summary["evaluators"][name]["mean"]) is None or value < least[name]
    ]
    if under:
        return FAILED, "; ".join(under)
    failed = sum(sum(step["failed"].values()) for step in steps)
    if failed or any(step["not_run"] for step in steps):
        return FAILED, ""
    return DONE, ""


def _say_ending(result: EvaluationResult, seconds: float, why: str, how: str) -> None:
    talk().print()
    put(summary_table(result.summary))
    talk().print()
    for line in remarks(result.summary, seconds):
        talk().print(Text(line, style="dim"))
    if why:
        talk().print(Text(harmless(why), style="yellow"))
    talk().print(Text(how))


def _how_to_go_on(config: Config, result: EvaluationResult, code: int) -> str:
    run = shlex.quote(_shown(Path(result.run or config.run)))
    again = shlex.join(["holdfast", *sys.argv[1:]])
    steps = [result.summary["workflow"], *result.summary["evaluators"].values()]
    if code >= STOPPED:
        return f"go on with: {again}"
    if any(step["failed"] for step in steps):
        return f"see why: holdfast show {run} --failed   try again: {again}"
    return f"look at it: holdfast show {run}"


def _floors(floors: Sequence[str], evaluators: Mapping[str, Any]) -> dict[str, float]:
    """Read `--fail-under`, before anything runs."""
    least: dict[str, float] = {}
    for floor in floors:
        name, _, text = floor.partition("=")
        if name not in evaluators:
            near = get_close_matches(name, evaluators, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"--fail-under {floor}: no evaluator is called {name!r}{hint}")
        try:
            least[name] = float(text)
        except ValueError:
            raise click.UsageError(
                f"--fail-under {floor}: must be NAME=NUMBER, such as {name}=0.9"
            ) from None
    return least


def _choose(changed: FunctionChangedError) -> HoldfastError:
    plan = "" if changed.plan is None else f"\n{changed.plan}"
    return HoldfastError(
        f"{changed}{plan}",
        hint="--redo runs the workflow anew where it changed, --keep keeps what it gave before",
    )


def _shown(path: Path) -> str:
    """Return a path as one would type it here."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
