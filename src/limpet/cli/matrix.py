"""How do the variants of a matrix run, one after another, and how are their ends reported?

Each variant is a separate run, resumable by itself, with its own exit code. The matrix adds a
directory around them, a table at the end, and the worst of the exit codes.
"""

import json
import os
import pickle
import shlex
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TextIO, TypeVar

from limpet.cli.changed import ChoseToStopError
from limpet.cli.error_exit import DONE, FAILED, STOPPED, report_error, say_error
from limpet.cli.run_ending import Ended, say_why
from limpet.cli.run_flags import RunFlags
from limpet.cli.shown_command import command_to_resume, shown_path, this_command
from limpet.config.matrix import Matrix, Variant
from limpet.errors import FailFastError, InterruptedRunError, JournalError, LimpetError
from limpet.journal.files import make_directory, replace_file
from limpet.journal.layout import layout_at
from limpet.report.runs import VariantRow, VariantsTable, variant_data
from limpet.report.summary import remarks
from limpet.report.tables import put, put_json
from limpet.report.terminal import say, stderr_console
from limpet.report.views import EventView, TalkingView, View
from limpet.run.reading.find_run import MATRIX_FILE, is_matrix, is_run, runs_in
from limpet.run.run_file import RunFile
from limpet.secrets.masking import MASK
from limpet.text import one_line, text_of

# ---- How does each variant of a matrix run in its own process? ----------------------------------
#
# Variants must not share what the user's code keeps in memory: the second would answer with a
# prompt that the first has read into a global. So each runs in a fork of this process, in which
# the code is imported and nothing has been called yet.
#
# The child has the terminal: Ctrl-C reaches it directly. Signals sent to this process alone are
# passed on. If this process is killed, the child stops as after SIGTERM.

T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class ChildKilledError(Exception):
    """The process ended without a report; the argument is its exit code."""


def in_own_process(function: Callable[[], T]) -> T:
    """Call a function in a forked child, and return its result, which must be picklable.

    Raises:
        ChildKilledError: A signal ended the child.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    held, lifeline = os.pipe()
    try:
        with tempfile.TemporaryFile() as report:
            pid = _forked(function, report.fileno(), held, lifeline)
            with _passing_signals_to(pid):
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            report.seek(0)
            content = report.read()
    finally:
        os.close(lifeline)
        os.close(held)
    if code != 0 or not content:
        raise ChildKilledError(128 - code if code < 0 else code)
    value: T = pickle.loads(content)  # noqa: S301 - written by our own child
    return value


def _forked(function: Callable[[], object], report: int, held: int, lifeline: int) -> int:
    """Fork a child that writes a function's result to a file; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.close(lifeline)
        threading.Thread(target=_end_with_parent, args=(held,), daemon=True).start()
        content = pickle.dumps(function())
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # the reader is gone
                stream.flush()
        with os.fdopen(report, "wb", closefd=False) as file:
            file.write(content)
        status = 0
    except BaseException:  # noqa: BLE001 - it must not return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)


def _end_with_parent(held: int) -> None:
    with suppress(OSError):
        os.read(held, 1)  # returns when the other end is closed
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _passing_signals_to(pid: int) -> Iterator[None]:
    def pass_on(signum: int, _: FrameType | None) -> None:
        # Ctrl-C on a terminal reaches the child as well: twice would mean "stop now".
        if signum in (signal.SIGTERM, signal.SIGUSR1) or not _has_terminal():
            with suppress(ProcessLookupError):
                os.kill(pid, signum)

    before = {signum: signal.signal(signum, pass_on) for signum in _SIGNALS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _has_terminal() -> bool:
    """Return whether a terminal would send this process and the child its signals."""
    for stream in (0, 1, 2):
        with suppress(OSError):
            return os.tcgetpgrp(stream) == os.getpgrp()
    return False


# ---- How do the variants of a matrix run, and how are their ends reported? ----------------------

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
    """How a variant ended; if it was not reached, all else is empty.

    Attributes:
        variant: The variant.
        code: Its exit code.
        stops_all: The exit code if the variants after it must not run; 0: they may.
        run: Its directory.
        summary: Its results; None if it was refused.
        next: What to do next.
        error: Why it was refused, and a hint.
    """

    variant: Variant
    code: int | None = None
    stops_all: int = 0
    run: str = ""
    summary: Mapping[str, Any] | None = None
    next: Sequence[str] = ()
    error: tuple[str, str | None] | None = None

    @property
    def state(self) -> str:
        """How it ended, if not well."""
        if self.code is None:
            return "not run"
        if self.code >= STOPPED:
            return "stopped"
        return "" if self.error is None else "error"


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


def named_as_on_disk(matrix: Matrix, directory: Path) -> Matrix:
    """Return the matrix with each variant named as its run, if it has one in the directory."""
    there: dict[str, Mapping[str, Any]] = {}
    for path in runs_in(directory):
        with suppress(JournalError):  # a damaged run.json is reported when the run is opened
            made_by = RunFile.load(layout_at(path)).made_by or {}
            values = made_by.get("variant")
            if isinstance(values, dict) and MASK not in str(values):
                there[path.name] = values
    return matrix.named(there)


def write_variants(directory: Path, matrix: Matrix) -> None:
    """Write which variants there are, for `limpet status` and `limpet list`."""
    make_directory(directory)
    variants = [{"name": variant.name, "values": variant.shown} for variant in matrix.variants]
    listed = {"labels": dict(matrix.labels), "variants": variants}
    content = json.dumps(listed, indent=2, ensure_ascii=False)
    replace_file(directory / MATRIX_FILE, [content.encode(errors="replace"), b"\n"])


def run_variants(
    variants: Sequence[tuple[Variant, RunVariant]], new_view: NewView, here: Path
) -> list[VariantEnded]:
    """Run each variant; stop if the user stops one, or if its results cannot be kept."""
    endings: list[VariantEnded] = []
    for variant, run in variants:
        if endings and (endings[-1].stops_all or endings[-1].code is None):
            endings.append(VariantEnded(variant))
            continue
        try:
            ending = in_own_process(partial(_run_variant, variant, run, new_view, here))
        except ChildKilledError as killed:
            code: int = killed.args[0]
            say_error(f"{variant.name}: its process ended with exit code {code}", None)
            ending = VariantEnded(variant, max(code, STOPPED), stops_all=max(code, STOPPED))
        endings.append(ending)
    return endings


def _run_variant(variant: Variant, run: RunVariant, new_view: NewView, here: Path) -> VariantEnded:
    try:
        ended, view = run(partial(new_view, variant), here)
    except BaseException as error:  # noqa: BLE001 - this process ends here
        code = report_error(error)
        shown = (text_of(error), error.hint if isinstance(error, LimpetError) else None)
        is_final = code >= STOPPED or isinstance(error, ChoseToStopError)
        is_final = is_final or not isinstance(error, LimpetError)
        return VariantEnded(variant, code, stops_all=code if is_final else 0, error=shown)
    _say_ended(ended, view)
    result = ended.result
    is_final = result.stop_reason is not None and not isinstance(result.stop_reason, FailFastError)
    stops_all = max(ended.code, STOPPED) if is_final else 0
    if isinstance(result.stop_reason, InterruptedRunError):  # perhaps when all its calls were done
        stops_all = 128 + (result.stop_reason.signum or signal.SIGINT)
    run_path = str(result.run or "")
    return VariantEnded(variant, ended.code, stops_all, run_path, result.summary, ended.next)


def _say_ended(ended: Ended, view: View) -> None:
    if isinstance(view, EventView):  # its last event has it all
        return
    if isinstance(view, TalkingView):
        for line in remarks(ended.result.summary, ended.seconds):
            say(line, "dim")
    say_why(ended, view)
    if isinstance(view, TalkingView):
        stderr_console().print()


def say_variants_ended(
    matrix: Matrix,
    endings: Sequence[VariantEnded],
    directory: Path,
    here: Path,
    flags: RunFlags,
) -> int:
    """Print the table of the variants and what comes next; return the worst exit code."""
    code = max(ending.code or DONE for ending in endings)
    if endings[-1].code is None:
        code = max(code, *(ending.stops_all for ending in endings))
    if flags.as_json:
        put_json({"event": "matrix", "exit_code": code, "variants": list(map(_data, endings))})
    elif not flags.quiet:
        put(VariantsTable(list(matrix.labels.values()), list(map(_row, endings))))
        stderr_console().print()
        for line in _next_steps(endings, directory, here, code, forces=flags.forces):
            say(line, wrap=False)
    return code


def _row(ending: VariantEnded) -> VariantRow:
    return VariantRow(list(ending.variant.shown.values()), ending.summary, ending.state)


def _data(ending: VariantEnded) -> Mapping[str, Any]:
    data: dict[str, Any] = {"variant": ending.variant.name, "values": ending.variant.shown}
    data |= {"exit_code": ending.code, "state": ending.state or "done"}
    if ending.error is not None:
        data |= {"error": ending.error[0], "hint": ending.error[1]}
    if ending.summary is not None:
        data |= {"run": ending.run, **variant_data(ending.summary)}
    return data


def _next_steps(
    endings: Sequence[VariantEnded], directory: Path, here: Path, code: int, *, forces: bool
) -> list[str]:
    not_run = [ending.variant.name for ending in endings if ending.code is None]
    if code >= STOPPED:
        stopped = [one.next[-1] for one in endings if one.next and (one.code or 0) >= STOPPED]
        lines = stopped[-1:] or [f"resume with: {command_to_resume()}"]
        if forces and not_run:
            # These runs have not recorded the redo.
            only = " ".join(f"--only {shlex.quote(name)}" for name in not_run)
            lines.append(f"then redo the rest: {this_command()} {only}")
        return lines
    failed = [ending for ending in endings if ending.code == FAILED]
    if failed:
        return list(failed[0].next)
    return [f"see the runs: limpet list {shown_path(directory, here)}"]
