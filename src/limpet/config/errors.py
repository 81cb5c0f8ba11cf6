"""What is wrong with a configuration, where, and what was probably meant?

Whoever finds a fault adds it here and goes on, so that one reading names all of them.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from limpet.errors import ConfigError
from limpet.text import one_line

if TYPE_CHECKING:
    from limpet.config.yaml_file import KeyPath, Tree

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
    """A fault."""

    place: Place
    text: str
    hint: str | None = None
    cause: BaseException | None = None


class Findings:
    """The faults of one file that were found so far."""

    def __init__(self, tree: "Tree") -> None:
        self.tree = tree
        self._found: list[Problem] = []
        self._done: list[KeyPath] = []

    def add(
        self,
        path: "KeyPath",
        text: str,
        hint: str | None = None,
        *,
        final: bool = False,
        cause: BaseException | None = None,
    ) -> None:
        """Say what is wrong with a value.

        Args:
            path: Which value; of a short form, the path it would have in the long one.
            text: What is wrong.
            hint: What to do.
            final: Nothing else said about this value would be true: it has none.
            cause: What the user's own code raised, if it did.
        """
        if any(path[: len(done)] == done or done[: len(path)] == path for done in self._done):
            return
        if final:
            self._done.append(path)
        known = self.tree.known(path)
        self.add_at(self.tree.place(known), f"{named(known)}{text}", hint, cause)

    def add_key(self, path: "KeyPath", text: str, hint: str | None = None) -> None:
        """Say what is wrong with a key."""
        self.add_at(self.tree.key_place(path), text, hint)

    def add_at(
        self,
        place: Place,
        text: str,
        hint: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        """Say what is wrong in a place of the file."""
        self._found.append(Problem(place, text, hint, cause))

    def raise_any(self) -> None:
        """Raise one `ConfigError` for all that was found, if anything was."""
        if not self._found:
            return
        # In the order of the file; what came from the command line stands after it.
        ranked = sorted(self._found, key=lambda problem: problem.place.line or 10**9)
        first, *others = _each_module_once(ranked)
        lines = [f"{first.place}: {first.text}", *map(_with_hint, others[:_MOST_SHOWN])]
        if len(others) > _MOST_SHOWN:
            lines.append(f"and {len(others) - _MOST_SHOWN:,} more")
        raise ConfigError("\n".join(lines), hint=first.hint) from first.cause


def _each_module_once(found: list[Problem]) -> list[Problem]:
    """Say once what is wrong with a module, however many steps import it."""
    by_fault: dict[object, list[Problem]] = {}
    for problem in found:
        _, is_import, fault = problem.text.partition(CANNOT_IMPORT)
        by_fault.setdefault(fault if is_import else problem, []).append(problem)
    return [_also_at(first, others) for first, *others in by_fault.values()]


def _also_at(first: Problem, others: list[Problem]) -> Problem:
    places = ", ".join(dict.fromkeys(str(other.place) for other in others))
    return first._replace(text=f"{first.text} (needed at {places}, too)") if others else first


def _with_hint(problem: Problem) -> str:
    return f"{problem.place}: {problem.text}" + (f"; {problem.hint}" if problem.hint else "")


def named(path: "KeyPath") -> str:
    """Return a path as the beginning of a message."""
    return one_line(".".join(map(str, path))) + ": " if path else ""


def refuse(place: Place, text: str, hint: str | None = None) -> NoReturn:
    """Raise the `ConfigError` of a fault that leaves nothing else to look at."""
    raise ConfigError(f"{place}: {text}", hint=hint)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, if one is near."""
    folded = {word.casefold(): word for word in reversed(list(known))}
    found = get_close_matches(name.casefold().replace("-", "_"), folded, n=1)
    return folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the hint that names the nearest, if one is near."""
    near = nearest(name, known)
    return f"did you mean {quoted(near)}?" if near else None


def quoted(text: str) -> str:
    """Return a text between quotes, with nothing a terminal would obey."""
    return f"'{one_line(text)}'"
