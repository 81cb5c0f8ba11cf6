"""How did a run end: with which exit code, why, and what to do next?"""

import math
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.cli.error_exit import DONE, FAILED, STOPPED, say_error
from limpet.cli.run_flags import Floor
from limpet.cli.shown_command import (
    MASK,
    command_for_more,
    command_of_all,
    command_to_resume,
)
from limpet.errors import BudgetReachedError, FailFastError, InterruptedRunError, JournalError
from limpet.report.summary import remarks, summary_table
from limpet.report.tables import put
from limpet.report.terminal import say, stderr_console
from limpet.report.views import EventView, TalkingView, View, reason_words
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.planning.plan import Plan
from limpet.run.results.score_words import mean, scores_of
from limpet.text import count, one_line

if TYPE_CHECKING:
    from limpet.cli.compare import Compared


def ending_of(
    result: EvaluationResult, floors: Sequence[Floor], *, rehearsed: bool = False
) -> tuple[int, str]:
    """Return the exit code of a run, and why it is not 0; a rehearsal may leave items."""
    steps = _steps(result)
    reason = result.stop_reason
    unfinished = not _is_enough(result) and any(
        step["not_run"] or "pending" in step.get("redo", {}) for step in steps
    )
    if isinstance(reason, InterruptedRunError) and unfinished:
        return 128 + (reason.signum or signal.SIGINT), "stopped: interrupted"
    if isinstance(reason, (JournalError, FailFastError)) or (reason is not None and unfinished):
        hint = _fail_fast_hint(reason) if isinstance(reason, FailFastError) else None
        return STOPPED, f"stopped: {reason_words(reason, hint)}"
    under = [text for floor in floors if (text := _under(result, floor))]
    if under:
        return FAILED, "; ".join(under)
    if (unfinished and not rehearsed) or any(step["failed"] or "redo" in step for step in steps):
        return FAILED, ""
    return DONE, ""


def _under(result: EvaluationResult, floor: Floor) -> str | None:
    """Return why a mean misses its limit; None: it does not.

    Failures count as worst. If lower is better, the limit is a ceiling.
    """
    name, part = floor.name
    evaluator = result.summary["evaluators"][name]
    scores = scores_of(result.summary, name)
    score = scores.pop(str(floor.name), {})
    value, bounds = score.get("mean"), score.get("bounds")
    several = [one_line(other) for other in scores if other != name]
    if value is None and part is None and several:
        return f"{name} has several scores: --fail-under needs one of {', '.join(several)}"
    if value is None and several:
        return f"--fail-under {floor.name}: {name} has no such score, only {', '.join(several)}"
    lost = sum(evaluator["failed"].values()) + sum(result.summary["workflow"]["failed"].values())
    if value is None:
        counted = f": {count(lost, 'failure')} counted as worst" if lost else ""
        return f"{floor.name} has no mean to compare with {floor.least:g}{counted}"
    if without := score.get("without", 0):
        scored = count(score["completed"], "answer")
        have = f"only {score['completed'] - without:,} of the {scored} that {name} scored have it"
        return f"{floor.name} is {mean(value)}, but {have}: --fail-under needs a number for each"
    if lost and not bounds:
        why = score.get("interval_note") if "range" in score else "declare its range"
        failures = count(lost, "failure")
        return f"{floor.name} is {mean(value)}, but {failures} cannot be counted as worst: {why}"
    counted = ""
    if bounds:
        value, many = bounds["worst"], count(bounds["missing"], "failure")
        counted = f" with {many} counted as worst"
    if score.get("higher_is_better", True):
        too_low = f"{floor.name} is {mean(value)}{counted}, below {floor.least:g}"
        return too_low if value < floor.least else None
    too_high = f"{floor.name} is {mean(value)}{counted}, above {floor.least:g} (lower is better)"
    return too_high if value > floor.least else None


def next_steps(
    result: EvaluationResult, run: str, code: int, rest: Plan | None = None
) -> list[str]:
    """Return what to do next, a line each; the most useful last."""
    again = command_to_resume()
    reason = result.stop_reason
    if isinstance(reason, BudgetReachedError) and reason.kind:
        again = command_to_resume(_larger(reason, rest))
    # Unchanged, the command would send the mask instead of the secret.
    fill = " (replace … with your secret)" if MASK in again else ""
    cancel: list[str] = []
    if any("redo" in step for step in _steps(result)):
        cancel = [f"cancel the redo with{fill}: {again} --keep"]
    if code >= STOPPED:
        return [*cancel, f"resume with{fill}: {again}"]
    if cancel or any(step["failed"] for step in _steps(result)):
        retry = again.replace(" --no-retry-failed", "")
        return [f"see why: limpet show {run} --failed", *cancel, f"try again{fill}: {retry}"]
    if rest is not None and rest.calls:
        return [f"see the results: limpet show {run}", f"run the rest{fill}: {command_of_all()}"]
    if _is_enough(result):
        more = command_for_more()
        return [f"see the results: limpet show {run}", f"run the other items, too{fill}: {more}"]
    return [f"see the results: limpet show {run}"]


def _larger(reached: BudgetReachedError, rest: Plan | None) -> str:
    """Return a budget for what is left, if that is known, or twice the one that was reached."""
    name = "seconds" if reached.kind == "time" else reached.kind
    needs = None if rest is None else getattr(rest.forecast, name, None)
    amount = reached.limit + (reached.limit if needs is None else needs.high)
    step = 10.0 ** (math.floor(math.log10(amount)) - 1)  # two digits are enough
    unit = "s" if reached.kind == "time" else ""
    return f"{reached.kind}={math.ceil(amount / step) * step:.10g}{unit}"


def _is_enough(result: EvaluationResult) -> bool:
    """Return whether the run stopped because `stop_when` was reached."""
    said = result.summary.get("stop_when", {})
    return bool(said) and said["reached"] and said["items"] < said["of"]


def _steps(result: EvaluationResult) -> list[Mapping[str, Any]]:
    summary = result.summary
    return [summary["workflow"], *summary["evaluators"].values()]


class Ended(NamedTuple):
    """How a run ended.

    Attributes:
        result: Its result.
        code: The exit code.
        why: Why the code is not 0.
        seconds: How long it took.
        next: What to do next, a line each.
        compared: The comparison with `--against`; None: there is none.
        rest: After a rehearsal, what is left to do; None: it was none.
    """

    result: EvaluationResult
    code: int
    why: str
    seconds: float
    next: list[str]
    compared: "Compared | None" = None
    rest: Plan | None = None


def say_ended(ended: Ended, view: View) -> None:
    """Print the results and what to do next, if the view talks; else only what went wrong."""
    if isinstance(view, EventView):  # its last event has it all
        return
    talks, unwritten = isinstance(view, TalkingView), None
    if talks:
        stderr_console().print()
        unwritten = _put_summary(ended.result)
        stderr_console().print()
        for line in remarks(ended.result.summary, ended.seconds):
            say(line, "dim")
    if ended.compared is not None:
        ended.compared.say(talks=talks)
    say_why(ended, view)
    if talks:
        for line in ended.next:  # not wrapped, to be copied into a shell
            say(line, wrap=False)
    if unwritten is not None:
        raise unwritten


def say_why(ended: Ended, view: View) -> None:
    """Print why the exit code is not 0."""
    reason, why = ended.result.stop_reason, ended.why
    if ended.rest is not None and isinstance(view, TalkingView):
        rest = rest_words(ended.result, ended.rest)
        why = f"{why}; {rest}" if why else rest
    if isinstance(reason, FailFastError):
        say_error(str(reason), _fail_fast_hint(reason))
    elif why and isinstance(view, TalkingView):
        say(why, "yellow" if ended.why else "")
    elif ended.why:
        say_error(ended.why, None)


def rest_words(result: EvaluationResult, rest: Plan) -> str:
    """Return what is left to do after a rehearsal or a budget, and what it will take."""
    if isinstance(result.stop_reason, BudgetReachedError):
        done = count(result.summary["workflow"]["completed"], "answer")
        return f"{done} on disk; the rest: {rest.price}"
    rehearsed = f"rehearsed {count(result.plan.items, 'item')}"
    return f"{rehearsed}; the rest: {rest.price}" if rest.calls else f"{rehearsed}; that was all"


def _fail_fast_hint(reason: FailFastError) -> str:
    """Return the hint of a fail-fast stop, with the flag instead of the option."""
    return str(reason.hint).replace("fail_fast=False", "--no-fail-fast")


def _put_summary(result: EvaluationResult) -> OSError | None:
    """Print the summary; return the error if that fails, so that the rest is still printed."""
    try:
        put(summary_table(result.summary))
        sys.stdout.flush()
    except OSError as error:
        return error
    return None
