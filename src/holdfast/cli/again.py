"""What was typed, to be typed again?

The command is shown at the end of a run, and what is shown may be kept: in the log of a CI, in a
terminal's history. So what is secret in it is not shown.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

MASK = "…"
_ADDRESS = re.compile(r"(?<=://)[^/\s]*(?=@)")


def this_command() -> str:
    """Return the command as it was typed, without secrets."""
    by_module = Path(sys.argv[0]).name == "__main__.py"
    start = [Path(sys.executable).name, "-m", "holdfast"] if by_module else ["holdfast"]
    return shlex.join([*start, *without_secrets(sys.argv[1:])])


def without_secrets(arguments: Sequence[str]) -> Iterator[str]:
    """Return arguments with what is secret in them masked."""
    before = ["", ""]
    for argument in arguments:
        flag = before[-1].replace("_", "-")
        if flag == "--endpoint-header" or argument.startswith("--endpoint-header="):
            shown = _masked(argument, ":")
        elif flag == "--set" or argument.startswith("--set="):
            name = argument.removeprefix("--set=").partition("=")[0]
            shown = _masked(argument.removeprefix("--set="), "=") if _is_secret(name) else argument
            shown = f"--set={shown}" if argument.startswith("--set=") else shown
        elif before[-2] == "--override" and _is_secret(flag):
            shown = _masked(argument, "")
        else:
            shown = argument
        before = [before[-1], argument]
        yield _ADDRESS.sub(lambda found: found[0] if "${" in found[0] else MASK, shown)


def _masked(text: str, sign: str) -> str:
    """Mask what follows a sign; a variable of the environment is no secret."""
    name, found, value = text.partition(sign) if sign else ("", "", text)
    if "${" in value:
        return text
    return f"{name}{found}{' ' if sign == ':' else ''}{MASK}"


def _is_secret(path: str) -> bool:
    secrets = import_module("holdfast.integrations.nat.secrets")  # heavy, and seldom needed
    return bool(secrets.is_secret(path.rpartition(".")[2]))
