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

_IN_ITS_OWN_RUN = "--set name=NEW keeps both, in two runs that limpet compare compares"


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
    hint = f"{choices}; {_IN_ITS_OWN_RUN}" if is_named else choices
    return LimpetError("\n".join(lines), hint=hint)


def _choices(redo: str, redone: Plan | None, keep: str, kept: Plan | None) -> str:
    """Return what the choices do, and what they cost, if that is known."""
    redo, keep = f"{redo} runs the workflow again", f"{keep} keeps the existing answers"
    if redone is not None and kept is not None:
        redo, keep = f"{redo}: {redone.cost}", f"{keep}: {kept.cost}"
    return f"{redo}; {keep}"


def can_ask() -> bool:
    """Return whether there is a person to ask."""
    return stderr_console().is_terminal and sys.stdin is not None and sys.stdin.isatty()


class ChoseToStopError(LimpetError):
    """The user chose to stop, which is meant for all variants of a matrix."""


def answer_to(
    question: LimpetError, changed: FunctionChangedError, kept: Plan | None, *, is_named: bool
) -> OnChange:
    """Ask what to do about a changed workflow.

    An answer decides only about the answers of earlier versions, so it may cost less than --redo.

    Raises:
        ChoseToStopError: The user chose to stop.
    """
    for line in str(question).splitlines():
        say(line, "yellow", wrap=not line.startswith(" "))  # code that changed is indented
    say(_choices("redo", changed.plan, "keep", kept))
    if is_named:
        say(f"or stop, and run it with another name: {_IN_ITS_OWN_RUN}")
    choices = click.Choice(["redo", "keep", "stop"])
    answer: str = click.prompt(
        "redo, keep or stop?", "stop", type=choices, prompt_suffix=" ", show_choices=False, err=True
    )
    if answer == "stop":
        raise ChoseToStopError("the workflow changed: nothing was run", hint=question.hint)
    return "redo" if answer == "redo" else "keep"
