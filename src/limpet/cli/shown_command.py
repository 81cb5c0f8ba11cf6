"""How are the typed command and its paths shown, to be typed again?

Secrets are masked: the text may end up in a CI log or a shell history.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from limpet.secrets.in_configs import hidden, shown_value, without_parts
from limpet.secrets.masking import by_environment
from limpet.text import harmless

MASK = "…"
_VALUES = {"--endpoint-header": 1, "--set": 1, "--override": 2}
"""The flags whose values may be secret, and how many values each takes."""
_REDO = {"--redo": 0, "--redo-step": 1, "--redo-item": 1}
"""The flags that force something to run again, and how many values each takes."""


def this_command() -> str:
    """Return the command the user typed, without secrets."""
    return _shown_command(sys.argv[1:])


def command_to_resume(budget: str = "") -> str:
    """Return the command that resumes a run, without secrets; `budget`: a larger one.

    The run records what to run again: the flags would repeat what is already done.
    """
    arguments = without_redo(sys.argv[1:])
    if budget:
        kind = re.compile(re.escape(budget.partition("=")[0]) + "=[^,]*")
        for at in reversed(range(len(arguments) - 1)):  # the one that it replaces
            if arguments[at] == "--budget" and kind.fullmatch(arguments[at + 1]):
                del arguments[at : at + 2]
        arguments += ["--budget", budget]
    return _shown_command(arguments)


def command_for_more() -> str:
    """Return the command that goes on where `stop_when` stopped, without secrets."""
    arguments = without_redo(sys.argv[1:])
    kept = _without(arguments, {"--stop-when": 1})
    is_of_file = len(kept) == len(arguments)
    return _shown_command([*kept, "--set", "stop_when=null"] if is_of_file else kept)


def command_of_all() -> str:
    """Return the command that was rehearsed, without secrets."""
    return _shown_command(_without(sys.argv[1:], {"--rehearse": 1}))


def shown_path(path: Path, here: Path) -> str:
    """Return a path as typed in a shell, relative to where the command was started."""
    shown = Path(os.path.realpath(path))  # unlike Path.resolve, it ends in a loop of links
    if shown.is_relative_to(here):
        shown = shown.relative_to(here)
    return shlex.quote(harmless(str(shown)))


def _shown_command(arguments: Sequence[str]) -> str:
    by_module = Path(sys.argv[0]).name == "__main__.py"
    start = [Path(sys.executable).name, "-m", "limpet"] if by_module else ["limpet"]
    # Mask certain secrets only: `limpet run postgres.yml` has to stay usable.
    shown = map(by_environment().certain.text, without_secrets(arguments))
    return shlex.join([*start, *shown])


def without_redo(arguments: Sequence[str]) -> list[str]:
    """Return arguments without the flags that force something to run again.

    `--keep` beside them is removed, too: alone, it would cancel what they began.
    """
    kept = _without(arguments, _REDO)
    return _without(kept, {"--keep": 0}) if len(kept) < len(arguments) else kept


def _without(arguments: Sequence[str], flags: Mapping[str, int]) -> list[str]:
    """Return arguments without some flags, each given with its number of values."""
    left, kept = iter(arguments), []
    for argument in left:
        flag, equals, _ = argument.partition("=")
        name = flag.replace("_", "-")
        if name in flags:
            list(islice(left, 0 if equals else flags[name]))
        else:
            kept.append(argument)
            # A value of another flag may look like one of these.
            kept += islice(left, 0 if equals else _VALUES.get(name, 0))
    return kept


def without_secrets(arguments: Sequence[str]) -> Iterator[str]:
    """Return arguments with their secrets masked."""
    left = iter(arguments)
    for argument in left:
        flag, equals, value = argument.partition("=")
        name = flag.replace("_", "-")
        if name not in _VALUES:
            yield without_parts(argument, _mask)
            continue
        values = [value] if equals else []
        values += islice(left, _VALUES[name] - len(values))
        shown = _shown(name, values)
        yield from [f"{flag}={shown[0]}", *shown[1:]] if equals else [flag, *shown]


def _shown(name: str, values: list[str]) -> list[str]:
    if name == "--endpoint-header":
        return [_header(header) for header in values]
    if name == "--set":
        return [_setting(setting) for setting in values]
    path = values[0] if values else ""
    return [*map(_setting, values[:1]), *(shown_value(path, value, _mask) for value in values[1:])]


def _header(text: str) -> str:
    name, sign, value = text.partition(":")
    # A `${VARIABLE}` stays readable.
    return f"{name}: {hidden(value.strip(), _mask)}" if sign else hidden(text, _mask)


def _setting(text: str) -> str:
    path, sign, value = text.partition("=")
    return f"{path}={shown_value(path, value, _mask)}" if sign else path


def _mask(_: str) -> str:
    return MASK
