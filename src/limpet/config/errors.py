"""What is wrong with a configuration, where, and what was probably meant?

Problems are collected: one pass over the file reports all of them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Never, NoReturn, TypeAlias

from limpet.errors import ConfigError
from limpet.text import one_line

KeyPath: TypeAlias = "tuple[str | int, ...]"
_MOST_SHOWN = 20
CANNOT_IMPORT = " cannot be imported: "
"""Separates the name of a module from its problem."""


class Location(NamedTuple):
    """The source of a value.

    Attributes:
        name: The file as the user gave it, or the `--set` that sets it.
        line: The line in the file, from 1; None if it is not from a file.
    """

    name: str
    line: int | None = None

    def __str__(self) -> str:
        return self.name if self.line is None else f"{self.name}:{self.line}"


@dataclass
class Tree:
    """Plain data, and where each part of it is in the file.

    Attributes:
        data: The content of the file; `${NAME}` is not substituted yet.
        shown: The file's name in messages.
        keys: Where the key of each path is.
        values: Where its value is.
        written: How a value that is not a string was written: `1.10`, `True`.
    """

    data: Any
    shown: str
    keys: dict[KeyPath, Location] = field(default_factory=dict)
    values: dict[KeyPath, Location] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)

    def known(self, path: KeyPath) -> KeyPath:
        """Return the part of a path that the file has: for a short form, the short form's path."""
        while path and path not in self.values:
            path = path[:-1]
        return path

    def location(self, path: KeyPath) -> Location:
        """Return where the value of a path is, or else the closest parent."""
        return self.values.get(self.known(path), Location(self.shown, 1))

    def key_location(self, path: KeyPath) -> Location:
        """Return where the key of a path is."""
        return self.keys.get(path) or self.location(path)

    def below(self, path: KeyPath, data: Any) -> "Tree":
        """Return the part of the tree at a path, which holds `data`."""
        depth = len(path)
        keys, values, written = (
            {known[depth:]: held for known, held in locations.items() if known[:depth] == path}
            for locations in (self.keys, self.values, self.written)
        )
        return Tree(data, self.shown, keys, values, written)  # type: ignore[arg-type]

    def forget(self, path: KeyPath) -> None:
        """Forget the locations of a path and all below it: another value replaces them."""
        if path not in self.values:
            return
        for locations in (self.keys, self.values, self.written):
            for known in [known for known in locations if known[: len(path)] == path]:
                del locations[known]


class Problem(NamedTuple):
    """A mistake in a configuration."""

    location: Location
    text: str
    hint: str | None = None
    cause: BaseException | None = None


class Findings:
    """The problems found in one file so far.

    Attributes:
        tree: The content of the file.
        folder: Its folder, where the relative paths in it start.
    """

    def __init__(self, tree: Tree, folder: Path = Path()) -> None:
        self.tree = tree
        self.folder = folder
        self._problems: list[Problem] = []
        self._final: list[KeyPath] = []

    def add(
        self,
        path: KeyPath,
        text: str,
        hint: str | None = None,
        *,
        final: bool = False,
        cause: BaseException | None = None,
    ) -> Never | None:  # noqa: RUF020 - else mypy lets nobody return it
        """Add a problem with a value. Returns None, for callers to return.

        Args:
            path: The value's path; of a short form, its path in the long form.
            text: What is wrong.
            hint: What to do.
            final: Ignore other problems with this value: it could not be read.
            cause: The exception that the user's own code raised, if any.
        """
        if any(path[: len(end)] == end or end[: len(path)] == path for end in self._final):
            return None
        if final:
            self._final.append(path)
        known = self.tree.known(path)
        self.add_at(self.tree.location(known), f"{named(known)}{text}", hint, cause)
        return None

    def add_key(self, path: KeyPath, text: str, hint: str | None = None) -> None:
        """Add a problem with a key."""
        self.add_at(self.tree.key_location(path), text, hint)

    def add_at(
        self,
        location: Location,
        text: str,
        hint: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        """Add a problem at a location in the file."""
        self._problems.append(Problem(location, text, hint, cause))

    def raise_any(self) -> None:
        """Raise one `ConfigError` for all problems, if there are any."""
        if not self._problems:
            return
        # In the order of the file; the command line comes last.
        ranked = sorted(self._problems, key=lambda problem: problem.location.line or 10**9)
        first, *others = problems = _each_module_once(ranked)
        if not others:
            raise ConfigError(f"{first.location}: {first.text}", hint=first.hint) from first.cause
        lines = list(map(_with_hint, problems[:_MOST_SHOWN]))
        if len(problems) > _MOST_SHOWN:
            lines.append(f"and {len(problems) - _MOST_SHOWN:,} more")
        raise ConfigError("\n".join(lines)) from first.cause


def _each_module_once(found: list[Problem]) -> list[Problem]:
    """Merge the reports of a module that cannot be imported into one."""
    by_fault: dict[object, list[Problem]] = {}
    for problem in found:
        _, is_import, fault = problem.text.partition(CANNOT_IMPORT)
        by_fault.setdefault(fault if is_import else problem, []).append(problem)
    problems = []
    for first, *others in by_fault.values():
        locations = ", ".join(dict.fromkeys(str(other.location) for other in others))
        also = f" (also needed at {locations})" if others else ""
        problems.append(first._replace(text=f"{first.text}{also}"))
    return problems


def _with_hint(problem: Problem) -> str:
    """Return a problem with its hint on a line of its own, as one of several."""
    hint = f"\n  hint: {problem.hint}" if problem.hint else ""
    return f"{problem.location}: {problem.text}{hint}"


def named(path: KeyPath) -> str:
    """Return a path as the beginning of a message."""
    return one_line(".".join(map(str, path))) + ": " if path else ""


def refuse(location: Location, text: str, hint: str | None = None) -> NoReturn:
    """Raise a `ConfigError` at once: nothing else can be checked."""
    raise ConfigError(f"{location}: {text}", hint=hint)
