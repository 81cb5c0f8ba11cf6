"""A workflow that is a program: a process per item."""

import errno
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from limpet.arguments import positive_number
from limpet.errors import LimpetError, PermanentError, SetupError, TransientError
from limpet.fingerprints.declared import DependsOn
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import CodeStep
from limpet.json_values import to_plain
from limpet.secrets.in_configs import Literals, each_word, without_secrets
from limpet.secrets.known import maskable
from limpet.secrets.names import is_secret_key
from limpet.templates import value_as_text
from limpet.text import one_line
from limpet.transport.parsing import parse_json
from limpet.types import Item, Output
from limpet.workflows.answer_path import ALL, AnswerPath
from limpet.workflows.command_line import check_program, own_files, split
from limpet.workflows.exit_status import failure_of
from limpet.workflows.process import MOST_STDERR, Ended, Groups, run_process
from limpet.workflows.process_guard import ProcessGuard
from limpet.workflows.protocol import Workflow
from limpet.workflows.template import render

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
    """Evaluate a program: it gets the row as JSON on stdin, and writes the answer to stdout.

    Args:
        argv: The program and its arguments: a list, or a string that is split as a shell would,
            without a shell. Arguments may contain placeholders: `{{column}}`.
        env: Environment variables, in addition to those of this process.
        cwd: The working directory; None: the current one.
        answer: "text": the answer is what it wrote, without the last newline. "json": it is the
            JSON it wrote. "$.…": it is the value at this JSONPath.
        max_output_mb: More output is a failure.
        version: Declares its version, instead of its files.
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
            raise TypeError(f"env: {variable!r} must be a string with a string as its value")
        if not variable or "=" in variable or "\0" in variable + value:
            raise LimpetError(f"env: {one_line(variable)} cannot be the name of a variable")
    if not isinstance(answer, str) or (answer not in (TEXT, JSON) and answer[:1] != ALL):
        raise LimpetError(
            f"answer={answer!r}: must be text, json or a JSONPath", hint="for example $.answer"
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
        # A program is bound by the processors, not by an endpoint.
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
        # The same program elsewhere on another machine is the same program.
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
        self._groups.close()
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
        # ASCII: a program reads it with any encoding. NaN is not JSON, and null would be another
        # value.
        try:
            row = json.dumps(dict(item.row), allow_nan=False, default=to_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise PermanentError(
                f"{self._where}: the row cannot be written as JSON: {error}"
            ) from None
        return row.encode() + b"\n"

    async def _run(self, arguments: Sequence[str], row: bytes) -> Ended:
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
            return TransientError(text, hint="if it stays so, use fewer at once: pace: 4")
        is_script = error.errno == errno.ENOEXEC
        return SetupError(text, hint="does it begin with #! and its interpreter?" * is_script)

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
