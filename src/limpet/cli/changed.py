"""What happens to the results of a workflow that changed?"""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from limpet.errors import FunctionChangedError, LimpetError
from limpet.report.terminal import say, stderr_console
from limpet.run.planning.explanation import few_lines
from limpet.run.planning.plan import Plan
from limpet.run.run_file import OnChange


def changes(plan: Plan, file: Path) -> Iterator[str]:
    """Yield what changed in each step, a few lines per step."""
    for step in (plan.workflow, *plan.evaluators):
        lines = few_lines(step.differences, _why(file))
        if lines:
            yield f"{step.name} changed:"
            yield from (f"  {line}" for line in lines)


def _why(file: Path) -> str:
    return shlex.join(["limpet", "why", str(file)])


def question_about(changed: FunctionChangedError, file: Path, kept: Plan | None) -> LimpetError:
    """Return an error with the change and the choices; `kept` is the plan of --keep, if known."""
    lines = [str(changed), *([] if changed.plan is None else [str(changed.plan)])]
    lines += [f"the existing results took {changed.took}"] if changed.took else []
    lines += [f"  {line}" for line in few_lines(changed.differences, _why(file))]
    redo, keep = "--redo runs the workflow again", "--keep keeps the existing answers"
    if changed.plan is not None and kept is not None:
        redo, keep = f"{redo}: {changed.plan.cost}", f"{keep}: {kept.cost}"
    return LimpetError("\n".join(lines), hint=f"{redo}; {keep}")


def can_ask() -> bool:
    """Return whether there is a person to ask."""
    return stderr_console().is_terminal and sys.stdin is not None and sys.stdin.isatty()


def answer_to(question: LimpetError) -> OnChange:
    """Ask what to do about a changed workflow.

    Raises:
        LimpetError: The user chose to stop.
    """
    say(str(question), "yellow", wrap=False)
    say(question.hint or "", wrap=False)
    choices = click.Choice(["redo", "keep", "stop"])
    answer: str = click.prompt(
        "redo, keep or stop?", "stop", type=choices, prompt_suffix=" ", show_choices=False, err=True
    )
    if answer == "redo":
        return "redo"
    if answer == "keep":
        return "keep"
    raise LimpetError("the workflow changed: nothing was run", hint=question.hint)
