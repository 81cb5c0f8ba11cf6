"""A workflow that is a program: a process per item."""

import errno
import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from limpet.arguments import positive_number
from limpet.errors import (
    LimpetError,
    PermanentError,
    SetupError,
    TransientError,
    wrong_argument,
    wrong_type,
)
from limpet.fingerprints.files.project import Project
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import CodeStep, DependsOn
from limpet.json_values import to_plain
from limpet.placeholders import PLACEHOLDER, check_placeholders, has_placeholders, value_as_text
from limpet.secrets.in_configs import Literals, each_word, without_secrets
from limpet.secrets.known import is_secret_key, maskable
from limpet.shapes import Item, Output
from limpet.text import nearest_file, one_line, quoted, size
from limpet.transport.parsing import parse_json
from limpet.workflows.process import MOST_STDERR, Groups, ProcessExit, ProcessGuard, run_process
from limpet.workflows.protocol import Workflow
from limpet.workflows.request_templates import ALL, AnswerPath, render

# ---- What are a command's program and arguments, and which of its files are the user's? ---------
#
# There is no shell: each argument stays one argument, whatever the dataset contains.

_OF_SHELLS = re.compile(r"\|\|?|&&?|;|\d?>>?(?:&\d)?|<")
_INTERPRETERS = re.compile(
    r"(?:(?:ba|da|z|k|c|fi)?sh|python[0-9.]*|pypy[0-9.]*|perl|ruby|node|bun|deno|php|Rscript)"
)
_WITH_A_VALUE = ("-o", "-O", "-W", "-X", "-I")
_CODE_FLAGS = re.compile(r"-\w*[ce]|--eval|--command|-r")
_SOURCES = (".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".php", ".R", ".jl", ".lua")


def split(argv: Any) -> list[str]:
    """Return the program and its arguments, from a list or a string.

    Raises:
        LimpetError: It is not a command, or would need a shell.
    """
    if isinstance(argv, str):
        check_placeholders(argv=argv)
        arguments = _split_string(argv)
    elif isinstance(argv, Sequence) and all(isinstance(part, str) for part in argv):
        check_placeholders(argv=list(argv))
        arguments = list(map(str, argv))
    else:
        raise wrong_argument("argv", "must be a list of strings, or a string")
    if not arguments or not arguments[0].strip():
        raise wrong_argument("argv", "must not be empty", hint='for example ["python", "agent.py"]')
    if has_placeholders(arguments[0]):
        raise wrong_argument(
            "argv",
            f"the program {quoted(arguments[0])} has a placeholder: a row of the dataset "
            "must not choose the program",
        )
    _check_code(arguments)
    return arguments


def _split_string(command: str) -> list[str]:
    # A placeholder is not split: `{{my column}}` is one word.
    placeholders = [match[0] for match in PLACEHOLDER.finditer(command)]
    marked = PLACEHOLDER.sub("\0", command)
    try:
        words = shlex.split(marked)
    except ValueError as error:
        raise wrong_argument("argv", f"cannot be split: {error}", hint="or write a list") from None
    for word in words:
        if _OF_SHELLS.fullmatch(word):
            raise wrong_argument(
                "argv",
                f"there is no shell, so {quoted(word)} would be an argument",
                hint='if it is one, write a list; for a shell, write ["sh", "-c", "…"]',
            )
    return [re.sub("\0", lambda _: placeholders.pop(0), word) for word in words]


def _check_code(arguments: Sequence[str]) -> None:
    """Raise if a value of the dataset would become code: `sh -c "echo {{question}}"`."""
    is_interpreter, before = False, ""
    for argument, following in pairwise(arguments):
        if _INTERPRETERS.fullmatch(Path(argument).name):
            is_interpreter = True
        elif not argument.startswith("-") and before not in _WITH_A_VALUE:
            is_interpreter = False  # its script: the script's own options follow
        if is_interpreter and _CODE_FLAGS.fullmatch(argument) and has_placeholders(following):
            raise wrong_argument(
                "argv",
                f"a placeholder after {argument} would run a row of the dataset as code",
                hint='read the row from stdin, or pass the value as an argument: ["sh", "-c", '
                '"echo \\"$1\\"", "sh", "{{column}}"]',
            )
        before = argument


def own_files(arguments: Sequence[str], folder: Path) -> list[Path]:
    """Return the program's files that belong to the user's project: itself and its script.

    Args:
        arguments: The program and its arguments.
        folder: Its working directory.
    """
    project = Project([folder])
    named = (path for path in _candidates(arguments, folder) if path.is_file())
    files = [path for path in named if project.name_of(str(path)) is not None]
    # Only the first: a later argument may be an output file.
    is_program = "/" in arguments[0] and Path(folder, arguments[0]) in files
    return files[: 2 if is_program else 1]


def _candidates(arguments: Sequence[str], folder: Path) -> Iterator[Path]:
    if "/" in arguments[0]:
        yield Path(folder, arguments[0])
    for before, argument in pairwise(arguments):
        if has_placeholders(argument) or "\0" in argument:
            continue
        if before == "-m":
            module = Path(folder, *argument.split("."))
            yield from (module.with_suffix(".py"), module / "__main__.py")
        yield Path(folder, argument)


def check_program(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    """Raise if the program, or the script of an interpreter, does not exist.

    Raises:
        SetupError: It does not exist, or cannot be executed.
    """
    program = arguments[0]
    if not folder.is_dir():
        raise SetupError(f"cwd: there is no directory {quoted(str(folder))}")
    path = Path(folder, program)
    if "/" not in program:
        if shutil.which(program, path=env.get("PATH")) is None:
            hint = f"write ./{program} for the file" if path.is_file() else _hint(program)
            raise SetupError(f"the program {quoted(program)} is not on the PATH", hint=hint)
    elif not path.is_file():
        raise SetupError(f"there is no program {quoted(program)} in {folder}", hint=_near(path))
    elif shutil.which(path) is None:
        hint = f"chmod +x {one_line(program)}, or name its interpreter: python {one_line(program)}"
        raise SetupError(f"the program {quoted(program)} is not executable", hint=hint)
    _check_script(arguments, folder)


def _check_script(arguments: Sequence[str], folder: Path) -> None:
    if not _INTERPRETERS.fullmatch(Path(arguments[0]).name) or len(arguments) == 1:
        return
    script = arguments[1]
    path = Path(folder, script)
    if script.endswith(_SOURCES) and not has_placeholders(script) and not path.exists():
        raise SetupError(f"there is no file {quoted(script)} in {folder}", hint=_near(path))


def _near(path: Path) -> str:
    try:
        near = nearest_file(path)
    except OSError:
        near = None
    return f"did you mean {quoted(near)}?" if near else "relative paths start at cwd"


def _hint(program: str) -> str:
    other = {"python": "python3", "python3": "python"}.get(program)
    if other is not None and shutil.which(other):
        return f"did you mean {quoted(other)}?"
    return "install it, or write the path of the program"


# ---- Did a program answer, or how did it fail? --------------------------------------------------

_TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
_MOST_LINE, _MOST_DETAILS = 500, 5_000


def failure_of(ended: ProcessExit, stderr: str, where: str, max_bytes: int) -> LimpetError | None:
    """Return the error for a program's exit; None: it wrote an answer.

    A program ended by a signal, for example out of memory, may succeed next time, and so may one
    with exit status 75. Any other nonzero status is permanent.

    Args:
        ended: How the program ended.
        stderr: Its stderr.
        where: The program, for the message.
        max_bytes: The limit of its stdout.
    """
    error = _failure(ended, _last_line(stderr), where, max_bytes)
    if error is not None and stderr:
        error.details = f"stderr:\n{_end_of(stderr)}"
    return error


def _failure(ended: ProcessExit, said: str, where: str, max_bytes: int) -> LimpetError | None:
    if ended.status is None:
        return PermanentError(
            f"{where}: wrote more than {size(max_bytes)} to stdout, and was killed",
            hint="raise max_output_mb, or write less",
        )
    if ended.status < 0:
        return TransientError(f"{where}: was ended by {_signal_name(-ended.status)}{said}")
    if ended.status == _TRY_AGAIN:
        return TransientError(f"{where}: exit status 75, try again{said}")
    if ended.status:
        return PermanentError(f"{where}: exit status {ended.status}{said}")
    if ended.is_held_open:
        return PermanentError(
            f"{where}: exited, but a process that it started still held its stdout open, so the "
            "answer may be incomplete",
            hint="let it wait for its processes, or redirect their output",
        )
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _last_line(stderr: str) -> str:
    """Return the last line of stderr for a message: it usually says why."""
    line = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
    return f": {line.strip()[:_MOST_LINE]}" if line else ", with nothing on stderr"


def _end_of(stderr: str) -> str:
    """Return the last complete lines of stderr: masking misses half a secret."""
    if len(stderr) <= _MOST_DETAILS:
        return stderr.rstrip("\n")
    end = stderr[-_MOST_DETAILS:]
    return f"…\n{end.partition(chr(10))[2] or end}".rstrip("\n")


# ---- A workflow that is a program: a process per item. ------------------------------------------

TEXT, JSON = "text", "json"
_LACKING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY)
_MOST_SHOWN = 80


def command(
    argv: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    answer: str = TEXT,
    max_output_mb: float = 64,
    version: str | None = None,
    name: str = "command",
) -> Workflow:
    """Evaluate a program: it reads the row as JSON from stdin, and writes the answer to stdout.

    Args:
        argv: The program and its arguments: a list, or a string that is split as a shell would,
            without a shell. Arguments may contain placeholders: `{{column}}`.
        env: Environment variables, in addition to those of this process.
        cwd: The working directory; None: the current one.
        answer: "text": its output, without the last newline. "json": its output as JSON. "$.…": the
            value at this JSONPath.
        max_output_mb: More output is a failure.
        version: Its declared version, which replaces its files.
        name: Its name.

    Raises:
        LimpetError: An argument is invalid.
        TypeError: An argument has the wrong type.
        ValueError: `max_output_mb` is not above 0.
    """
    arguments = split(argv)
    variables = dict(env or {})
    for variable, value in variables.items():
        if not isinstance(variable, str) or not isinstance(value, str):
            raise wrong_type("env", f"{variable!r} must be a string with a string as its value")
        if not variable or "=" in variable or "\0" in variable + value:
            raise wrong_argument("env", f"{one_line(variable)} cannot be the name of a variable")
    if not isinstance(answer, str) or (answer not in (TEXT, JSON) and answer[:1] != ALL):
        raise wrong_argument(
            "answer", "must be text, json or a JSONPath", answer, hint="for example $.answer"
        )
    max_bytes = int(positive_number(max_output_mb=max_output_mb) * 1_000_000)
    return CommandWorkflow(name, arguments, variables, cwd, answer, max_bytes, version)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))  # those that this process may use
    return os.cpu_count() or 1


class CommandWorkflow(CodeStep, Workflow):
    """A program; see `command`."""

    endpoint = None

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: str | Path | None,
        answer: str,
        max_bytes: int,
        version: str | None,
    ) -> None:
        self.name = name
        # A program is limited by processors, not by an endpoint.
        self.concurrency = _processors()
        self._arguments = list(arguments)
        self._env = dict(env)
        self._folder = Path(Path.cwd() if cwd is None else cwd).absolute()
        self._answer = answer
        self._path = None if answer == TEXT else AnswerPath(ALL if answer == JSON else answer)
        self._max_bytes = max_bytes
        self._version = version
        self._environment: dict[str, str] = {}
        self._guard = ProcessGuard()
        self._groups = Groups(self._guard.started, self._guard.ended)
        literals = Literals(self._arguments, self._env)
        program, *rest = each_word(self._arguments, literals.masked)
        # The same program on another machine, in another folder, is the same program.
        program = Path(program).name if Path(program).is_absolute() else program
        self._shown = [program, *rest]
        self._literals = literals.keys
        self._where = one_line(shlex.join(self._shown))[:_MOST_SHOWN]

    def __repr__(self) -> str:
        return f"<CommandWorkflow {self._where}>"

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """The secrets among its arguments and variables."""
        named = [value for name, value in self._env.items() if is_secret_key(name)]
        return maskable([*self._literals, *named])

    # ---- what its answers depend on -----------------------------------------------------------

    @property
    def code(self) -> Mapping[str, Any]:
        return {}

    @property
    def stated(self) -> Mapping[str, str]:
        return {name: digest(value) for name, value in self.described.items()}

    @property
    def described(self) -> Mapping[str, Any]:
        settings: dict[str, Any] = {"command": self._shown, "answer": self._answer}
        if self._env:
            settings["env"] = without_secrets(self._env)
        return settings if self._version is None else {**settings, "version": self._version}

    @property
    def depends_on(self) -> DependsOn | None:
        if self._version is not None:
            return None
        files = own_files(self._arguments, self._folder)
        return DependsOn(tuple(map(str, files)), folder=self._folder)

    def seen(self, item: Item) -> Any:
        return {"row": dict(item.row), "arguments": _filled(self._shown, item)}

    # ---- running ------------------------------------------------------------------------------

    async def open(self) -> None:
        self._environment = {**os.environ, **self._env}
        check_program(self._arguments, self._folder, self._environment)
        self._guard.open()
        self._groups.open()

    async def close(self) -> None:
        await self._groups.close()
        await self._guard.close()

    async def call(self, item: Item) -> Output:
        ended = await self._run(_filled(self._arguments, item), self._row(item))
        stderr = ended.stderr.decode(errors="backslashreplace")
        if error := failure_of(ended, stderr, self._where, self._max_bytes):
            raise error
        metadata: dict[str, Any] | None = {"stderr": stderr} if stderr else None
        if metadata is not None and ended.stderr_bytes > MOST_STDERR:
            metadata["stderr_bytes"] = ended.stderr_bytes  # only the end is kept
        return Output(self._read(ended.stdout), metadata=metadata)

    def _row(self, item: Item) -> bytes:
        # ASCII: readable in any encoding. NaN is not JSON, and null would be another value.
        try:
            row = json.dumps(dict(item.row), allow_nan=False, default=to_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise PermanentError(
                f"{self._where}: the row cannot be written as JSON: {error}"
            ) from None
        return row.encode() + b"\n"

    async def _run(self, arguments: Sequence[str], row: bytes) -> ProcessExit:
        try:
            for argument in arguments:
                argument.encode()
            return await run_process(
                arguments,
                row,
                self._groups,
                env=self._environment,
                cwd=str(self._folder),
                max_stdout=self._max_bytes,
            )
        except UnicodeEncodeError:
            raise PermanentError(f"{self._where}: an argument is not valid Unicode") from None
        except ValueError:
            raise PermanentError(f"{self._where}: an argument contains a NUL") from None
        except OSError as error:
            raise self._not_started(error) from error

    def _not_started(self, error: OSError) -> LimpetError:
        text = f"{self._where}: cannot be started: {error.strerror}"
        if error.errno == errno.E2BIG:
            hint = "an argument is too long: read the row from stdin instead"
            return PermanentError(text, hint=hint)
        if error.errno in _LACKING:
            return TransientError(text, hint="if it persists, run fewer at once: pace: 4")
        is_script = error.errno == errno.ENOEXEC
        return SetupError(text, hint="does it start with #! and its interpreter?" * is_script)

    def _read(self, stdout: bytes) -> Any:
        if self._path is None:
            return self._text(stdout)
        try:
            value = parse_json(stdout)
        except ValueError as error:
            shown = one_line(stdout[:_MOST_SHOWN].decode(errors="backslashreplace"))
            raise PermanentError(f"{self._where}: the output is {error}: {shown}") from None
        return value if self._path.path == ALL else self._path.find(value, self._where, one_line)

    def _text(self, stdout: bytes) -> str:
        try:
            return stdout.decode().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise PermanentError(
                f"{self._where}: the output is not UTF-8 at byte {error.start}",
                hint="write text as UTF-8, and bytes as base64",
            ) from None


def _filled(arguments: Sequence[str], item: Item) -> list[str]:
    return [value_as_text(render(argument, item)) for argument in arguments]
