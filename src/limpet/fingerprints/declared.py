"""What does a step depend on that its code does not show? `depends_on` declares it."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.fingerprints.explaining.shown import (
    MOST_TEXT,
    Shown,
    ShownParts,
    shown_file,
    shown_text,
    shown_variable,
)
from limpet.fingerprints.identity import Identity
from limpet.fingerprints.walk.result import digest_of
from limpet.secrets.known import certain_secrets
from limpet.secrets.names import is_secret_name
from limpet.text import one_line, quoted

KINDS = ("files", "env", "packages")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PIECE_BYTES = 2**20
_MOST_FILES = 10_000


@dataclass(frozen=True, slots=True)
class DependsOn:
    """Declared dependencies.

    Attributes:
        files: Paths, and patterns with `*` and `**`. A file counts by its content.
        env: Environment variables. A variable counts by its value.
        packages: Distribution names. A package counts by its version.
        folder: Where relative paths start; the working directory if None.
    """

    files: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    folder: Path | None = None

    def identity(self) -> Identity:
        """Return the current identity of the dependencies.

        Raises:
            LimpetError: A file or package does not exist.
        """
        parts: dict[str, str] = {}
        left_out: dict[str, str] = {}
        shown: dict[str, Shown] = {}
        folder = self.folder or Path.cwd()
        for pattern in self.files:
            for path in _files(pattern, folder):
                name = path.relative_to(folder) if path.is_relative_to(folder) else path
                part = f"file {name.as_posix()}"
                parts[part], shown[part] = _content(path)
        secrets = frozenset(certain_secrets(os.environ))
        for variable in self.env:
            value = os.environ.get(variable)
            if is_secret_name(variable) or value in secrets:
                left_out[f"variable {variable}"] = "a secret"
            else:
                parts[f"variable {variable}"] = digest_of(["declared", value])
                shown[f"variable {variable}"] = shown_variable(variable, value)
        for package in self.packages:
            version = _version(package)
            parts[f"package {package}"] = digest_of(version)
            shown[f"package {package}"] = shown_text("package", version)
        return Identity(parts, left_out, shown=ShownParts(lambda: shown))


def as_declared(depends_on: Any) -> DependsOn | None:
    """Return the argument `depends_on` as `DependsOn`.

    Raises:
        TypeError: It is not a mapping of lists of strings.
        ValueError: It has an unknown key, or a variable has no valid name.
    """
    if depends_on is None or isinstance(depends_on, DependsOn):
        return depends_on
    listed = f"{', '.join(KINDS[:-1])} and {KINDS[-1]}"
    if not isinstance(depends_on, Mapping):
        raise TypeError(f"depends_on={one_line(depends_on)}: must be a dict of {listed}")
    declared: dict[str, Any] = {}
    for kind, names in depends_on.items():
        if kind not in KINDS:
            raise ValueError(f"depends_on: unknown key {kind!r}; the keys are {listed}")
        is_list = isinstance(names, Iterable) and not isinstance(names, (str, bytes))
        if not is_list or not all(isinstance(name, (str, Path)) for name in names):
            raise TypeError(f"depends_on: {kind} must be a list of strings, not {one_line(names)}")
        declared[kind] = tuple(map(str, names))
    for variable in declared.get("env", ()):
        if flaw := flaw_of_variable(variable):
            raise ValueError(f"depends_on: env: {flaw}, not {quoted(variable)}")
    return DependsOn(**declared)


def flaw_of_variable(name: str) -> str | None:
    """Return why this is not the name of an environment variable; None if it is one."""
    if _VARIABLE.fullmatch(name):
        return None
    return "must be the name of a variable, like MODEL, without $ or ="


def _files(pattern: str, folder: Path) -> list[Path]:
    path = Path(folder, Path(pattern).expanduser())
    if path.is_dir():
        raise LimpetError(
            f"depends_on: {one_line(pattern)} is a directory",
            hint=f"name its files: {one_line(pattern.rstrip('/'))}/*, or /** for all below it",
        )
    if path.exists():
        return [path]
    found: list[Path] = []
    if any(sign in pattern for sign in "*?["):
        root = Path(path.anchor)
        last = str(path.relative_to(root))
        last += "/*" if last.endswith("**") else ""
        found = sorted(path for path in root.glob(last) if path.is_file())
    if not found:
        raise LimpetError(
            f"depends_on: {one_line(pattern)} matches no file",
            hint=f"relative paths start at {folder}",
        )
    if len(found) > _MOST_FILES:
        raise LimpetError(f"depends_on: {one_line(pattern)} names {len(found):,} files")
    return found


def _content(path: Path) -> tuple[str, Shown]:
    """Return the digest of a file, and its text to show."""
    hashed, begin, size = blake2b(digest_size=16), b"", 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                hashed.update(piece)
                size += len(piece)
                begin = begin or piece[: 4 * MOST_TEXT]
    except OSError as error:
        raise LimpetError(f"depends_on: {one_line(str(path))}: {error.strerror}") from error
    return hashed.hexdigest(), shown_file(path, begin, is_whole=len(begin) == size)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise LimpetError(
            f"depends_on: the package {one_line(package)} is not installed",
            hint="use the name that pip installs it by",
        ) from error
