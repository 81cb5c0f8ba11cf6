"""What is wrong with a configuration, where, and what was probably meant?

Whoever finds a fault adds it here and goes on, so that one reading names all of them.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple, NoReturn

from limpet.errors import ConfigError
from limpet.text import one_line

_MOST_SHOWN = 20
CANNOT_IMPORT = " cannot be imported: "
"""Stands between the name of a module and what is wrong with it, or with one that it imports."""


class Place(NamedTuple):
    """Where a value stands.

    Attributes:
        name: The file as the user gave it, or the `--set` it came with.
        line: The line in the file, from 1; None: it stands in no line.
    """

    name: str
    line: int | None = None

    def __str__(self) -> str:
        return self.name if self.line is None else f"{self.name}:{self.line}"


class Problem(NamedTuple):
    """One fault."""

    place: Place
    text: str
    hint: str | None = None
    cause: BaseException | None = None


class Problems:
    """The faults that were found so far."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(
        self,
        place: Place,
        text: str,
        hint: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self._found.append(Problem(place, text, hint, cause))

    def raise_any(self) -> None:
        """Raise one `ConfigError` for all that was found, if anything was."""
        if not self._found:
            return
        # In the order of the file; what came from the command line stands after it.
        ranked = sorted(self._found, key=lambda one: one.place.line or 10**9)
        first, *others = _each_module_once(ranked)
        lines = [f"{first.place}: {first.text}", *map(_with_hint, others[:_MOST_SHOWN])]
        if len(others) > _MOST_SHOWN:
            lines.append(f"and {len(others) - _MOST_SHOWN:,} more")
        raise ConfigError("\n".join(lines), hint=first.hint) from first.cause


def _each_module_once(found: list[Problem]) -> list[Problem]:
    """Say once what is wrong with a module, however many steps import it."""
    by_fault: dict[object, list[Problem]] = {}
    for one in found:
        _, is_import, fault = one.text.partition(CANNOT_IMPORT)
        by_fault.setdefault(fault if is_import else one, []).append(one)
    return [_also_at(first, others) for first, *others in by_fault.values()]


def _also_at(one: Problem, others: list[Problem]) -> Problem:
    places = ", ".join(dict.fromkeys(str(other.place) for other in others))
    return one._replace(text=f"{one.text} (needed at {places}, too)") if others else one


def _with_hint(one: Problem) -> str:
    return f"{one.place}: {one.text}" + (f"; {one.hint}" if one.hint else "")


def refuse(place: Place, text: str, hint: str | None = None) -> NoReturn:
    """Raise the `ConfigError` of a fault that leaves nothing else to look at."""
    raise ConfigError(f"{place}: {text}", hint=hint)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, if one is near."""
    folded = {one.casefold(): one for one in reversed(list(known))}
    found = get_close_matches(name.casefold().replace("-", "_"), folded, n=1)
    return folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the hint that names the nearest, if one is near."""
    near = nearest(name, known)
    return f"did you mean {quoted(near)}?" if near else None


def quoted(text: str) -> str:
    """Return a text between quotes, with nothing a terminal would obey."""
    return f"'{one_line(text)}'"
