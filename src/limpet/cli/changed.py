"""What happens to the results of a workflow that changed?"""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from limpet.errors import FunctionChangedError, LimpetError
from limpet.report.terminal import say, stderr_console
from limpet.run.planning.changes import few_lines
from limpet.run.planning.plan import Plan
from limpet.run.run_file import OnChange

_TWO_RUNS = "--set name=NEW keeps both, as two runs for limpet compare"


def changes(plan: Plan, file: Path) -> Iterator[str]:
    """Yield what changed in each step, a few lines per step."""
    for step in (plan.workflow, *plan.evaluators):
        lines = few_lines(step.differences, _why(file))
        if lines:
            yield f"{step.name} changed:"
            yield from (f"  {line}" for line in lines)


def _why(file: Path) -> str:
    return shlex.join(["limpet", "why", str(file)])


def question_about(
    changed: FunctionChangedError,
    file: Path,
    redone: Plan | None,
    kept: Plan | None,
    *,
    is_named: bool,
) -> LimpetError:
    """Return an error with the change and the choices.

    Args:
        changed: What changed.
        file: The file that was run.
        redone: The plan of --redo, which also runs what the current version has answered; None:
            unknown.
        kept: The plan of --keep; None: unknown.
        is_named: Whether the run's directory comes from the name of the evaluation, so that another
            name is another run.
    """
    lines = [str(changed), *([] if changed.plan is None else [str(changed.plan)])]
    lines += [f"the existing results took {changed.took}"] if changed.took else []
    lines += [f"  {line}" for line in few_lines(changed.differences, _why(file))]
    choices = _choices("--redo", redone, "--keep", kept)
    choices += [_TWO_RUNS] if is_named else []
    return LimpetError("\n".join(lines), hint="\n      ".join(choices))


def _choices(redo: str, redone: Plan | None, keep: str, kept: Plan | None) -> list[str]:
    """Return what each choice does and, if known, what it costs."""
    choices = [f"{redo} runs the workflow again", f"{keep} keeps the existing answers"]
    if redone is None or kept is None:
        return choices
    return [f"{choices[0]}: {redone.price}", f"{choices[1]}: {kept.price}"]


def can_ask() -> bool:
    """Return whether a person can be asked."""
    return stderr_console().is_terminal and sys.stdin is not None and sys.stdin.isatty()


class ChoseToStopError(LimpetError):
    """The user chose to stop: no other variant of a matrix runs either."""


def answer_to(
    question: LimpetError, changed: FunctionChangedError, kept: Plan | None, *, is_named: bool
) -> OnChange:
    """Ask what to do about a changed workflow.

    Unlike --redo, it redoes only the answers of earlier versions, so it may cost less.

    Raises:
        ChoseToStopError: The user chose to stop.
    """
    for line in str(question).splitlines():
        say(line, "yellow", wrap=not line.startswith(" "))  # code that changed is indented
    for choice in _choices("redo", changed.plan, "keep", kept):
        say(choice)
    say("stop runs nothing" + (f"; {_TWO_RUNS}" if is_named else ""))
    choices = click.Choice(["redo", "keep", "stop"])
    answer: str = click.prompt(
        "redo, keep or stop?", "stop", type=choices, prompt_suffix=" ", show_choices=False, err=True
    )
    if answer == "stop":
        raise ChoseToStopError("the workflow changed: nothing was run", hint=question.hint)
    return "redo" if answer == "redo" else "keep"
