"""Which program and arguments does a command have, and which of its files are the user's?

There is no shell: each argument stays one argument, whatever a value of the dataset contains.
"""

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError, SetupError
from limpet.fingerprints.files.project import Project
from limpet.templates import PLACEHOLDER, check_placeholders, has_placeholders
from limpet.text import nearest_file, one_line, quoted

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
        raise LimpetError("argv: must be a list of strings, or a string")
    if not arguments or not arguments[0].strip():
        raise LimpetError("argv: must not be empty", hint='for example ["python", "agent.py"]')
    if has_placeholders(arguments[0]):
        raise LimpetError(
            f"argv: the program {quoted(arguments[0])} has a placeholder: a row of the dataset "
            "must not choose what runs",
        )
    _check_code(arguments)
    return arguments


def _split_string(command: str) -> list[str]:
    # A placeholder stays whole: `{{my column}}` is one word.
    placeholders = [match[0] for match in PLACEHOLDER.finditer(command)]
    marked = PLACEHOLDER.sub("\0", command)
    try:
        words = shlex.split(marked)
    except ValueError as error:
        raise LimpetError(f"argv: cannot be split: {error}", hint="or write a list") from None
    for word in words:
        if _OF_SHELLS.fullmatch(word):
            raise LimpetError(
                f"argv: there is no shell, so {quoted(word)} would be an argument",
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
            is_interpreter = False  # its script: what follows are the script's own options
        if is_interpreter and _CODE_FLAGS.fullmatch(argument) and has_placeholders(following):
            raise LimpetError(
                f"argv: a placeholder after {argument} would run a row of the dataset as code",
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
    # Only the first: a later argument may be a file that the program writes.
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
            raise SetupError(f"the program {quoted(program)} is not in the PATH", hint=hint)
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
