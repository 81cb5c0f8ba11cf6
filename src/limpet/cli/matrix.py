"""How are the variants of a matrix run, one after the other, and what is said of them all?

Each is a run of its own: resumable by itself, with its own exit code. The matrix adds a directory
around them, a table at the end, and the worst of the exit codes.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from limpet.cli.error_exit import DONE, FAILED, STOPPED, report_error, say_error
from limpet.cli.run_ending import EARLY_STOP_HINT, Ended, shown_path
from limpet.cli.shown_command import command_to_resume, this_command
from limpet.config.matrix import Matrix, Variant
from limpet.errors import EarlyStopError, InterruptedRunError, LimpetError
from limpet.journal.files import make_directory, replace_file
from limpet.report.summary import remarks
from limpet.report.tables import put, put_json
from limpet.report.terminal import say, stderr_console
from limpet.report.variants import VariantRow, VariantsTable, variant_numbers
from limpet.report.views import EventView, TalkingView, View
from limpet.run.reading.find_run import MATRIX_FILE, is_matrix, is_run
from limpet.text import one_line

RunVariant = Callable[[Callable[[], View], Path], tuple[Ended, View]]
NewView = Callable[[Variant], View]


class VariantEvents(EventView):
    """Writes the events of a variant, each with its name."""

    def __init__(self, out: TextIO, variant: str) -> None:
        super().__init__(out)
        self._variant = variant

    def _print(self, event: dict[str, Any]) -> None:
        super()._print({"event": event["event"], "variant": self._variant, **event})


class VariantEnded(NamedTuple):
    """How a variant ended; without a result, it was refused or not reached."""

    variant: Variant
    code: int | None = None
    ended: Ended | None = None
    error: LimpetError | None = None

    @property
    def state(self) -> str:
        """Say how it ended, if not well."""
        if self.code is None:
            return "not run"
        if self.ended is None:
            return "error"
        return "stopped" if self.code >= STOPPED else ""


def check_directory(run: Path, *, is_variant: bool) -> None:
    """Raise if a run and the runs of a matrix would share a directory."""
    if is_variant and is_run(run.parent):
        raise LimpetError(
            f"{one_line(str(run.parent))}: is a run, made without the matrix",
            hint="give the matrix another name: --set name=…",
        )
    if not is_variant and is_matrix(run):
        raise LimpetError(
            f"{one_line(str(run))}: holds the runs of a matrix",
            hint="give the run without the matrix another name: --set name=…",
        )


def note_variants(directory: Path, matrix: Matrix) -> None:
    """Write which variants there are, for `limpet status` and `limpet list`."""
    make_directory(directory)
    variants = [{"name": variant.name, "values": variant.shown} for variant in matrix.variants]
    content = json.dumps({"variants": variants}, indent=2, ensure_ascii=False)
    replace_file(directory / MATRIX_FILE, [content.encode(errors="replace"), b"\n"])


def run_variants(
    variants: Sequence[tuple[Variant | None, RunVariant]], new_view: NewView, here: Path
) -> list[VariantEnded]:
    """Run each variant; stop if the user stops one, or if its results cannot be kept."""
    endings: list[VariantEnded] = []
    goes_on = True
    for variant, run in variants:
        assert variant is not None
        if not goes_on:
            endings.append(VariantEnded(variant))
            continue
        try:
            ended, view = run(lambda chosen=variant: new_view(chosen), here)  # type: ignore[misc]
        except LimpetError as error:
            code = report_error(error)
            endings.append(VariantEnded(variant, code, error=error))
            goes_on = code < STOPPED
            continue
        endings.append(VariantEnded(variant, ended.code, ended))
        _say_ended(ended, view)
        reason = ended.result.stop_reason
        goes_on = reason is None or isinstance(reason, EarlyStopError)
    return endings


def _say_ended(ended: Ended, view: View) -> None:
    reason = ended.result.stop_reason
    if isinstance(view, TalkingView):
        for line in remarks(ended.result.summary, ended.seconds):
            say(line, "dim")
    if isinstance(view, EventView):
        return
    if isinstance(reason, EarlyStopError):
        say_error(str(reason), EARLY_STOP_HINT)
    elif ended.why and isinstance(view, TalkingView):
        say(ended.why, "yellow")
    elif ended.why:
        say_error(ended.why, None)
    if isinstance(view, TalkingView):
        stderr_console().print()


def say_variants_ended(
    matrix: Matrix,
    endings: Sequence[VariantEnded],
    directory: Path,
    here: Path,
    flags: Any,
) -> int:
    """Print the table of the variants and what comes next; return the worst exit code."""
    code = max(ending.code or DONE for ending in endings)
    not_run = [ending.variant for ending in endings if ending.code is None]
    if code < STOPPED and not_run:
        code = _interrupted(endings)
    if flags.as_json:
        put_json({"event": "matrix", "exit_code": code, "variants": list(map(_data, endings))})
    elif not flags.quiet:
        put(VariantsTable(list(matrix.labels.values()), list(map(_row, endings))))
        stderr_console().print()
        for line in _next_steps(endings, directory, here, code, forces=flags.forces):
            say(line, wrap=False)
    return code


def _interrupted(endings: Sequence[VariantEnded]) -> int:
    """Return the exit code of a signal that came when the last call of a variant was done."""
    ended = [ending.ended for ending in endings if ending.ended is not None]
    reason = ended[-1].result.stop_reason if ended else None
    return 128 + (reason.signum or 2) if isinstance(reason, InterruptedRunError) else STOPPED


def _row(ending: VariantEnded) -> VariantRow:
    summary = None if ending.ended is None else ending.ended.result.summary
    return VariantRow(list(ending.variant.shown.values()), summary, ending.state)


def _data(ending: VariantEnded) -> Mapping[str, Any]:
    data: dict[str, Any] = {"variant": ending.variant.name, "values": ending.variant.shown}
    data |= {"exit_code": ending.code, "state": ending.state or "done"}
    if ending.error is not None:
        data |= {"error": str(ending.error), "hint": ending.error.hint}
    if ending.ended is not None:
        summary = ending.ended.result.summary
        means = {name: numbers["mean"] for name, numbers in summary["evaluators"].items()}
        numbers = {name.replace("/", "_per_"): n for name, n in variant_numbers(summary).items()}
        data |= {"run": ending.ended.result.run, "means": means, **numbers}
    return data


def _next_steps(
    endings: Sequence[VariantEnded], directory: Path, here: Path, code: int, *, forces: bool
) -> list[str]:
    not_run = [ending.variant.name for ending in endings if ending.code is None]
    if code >= STOPPED:
        lines = [f"resume with: {command_to_resume()}"]
        if forces and not_run:
            # These runs do not know of the redo yet.
            only = " ".join(f"--only {shlex.quote(name)}" for name in not_run)
            lines.append(f"then redo the rest: {this_command()} {only}")
        return lines
    failed = [ending for ending in endings if ending.code == FAILED and ending.ended is not None]
    if failed and failed[0].ended is not None:
        return failed[0].ended.next
    return [f"see the runs: limpet list {shown_path(directory, here)}"]
