"""Which steps of a run contain the user's code, and which code?

Every step has a fingerprint of everything its results depend on. A step with the user's code also
names that code, which is inspected when a run is planned and when it ends.
"""

import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.errors import LimpetError
from limpet.fingerprints.identity import Identity, identity_of, record_state
from limpet.fingerprints.part_contents import (
    MOST_TEXT,
    PartContent,
    PartContents,
    shown_data,
    shown_file,
    shown_text,
    shown_variable,
)
from limpet.fingerprints.walk.result import digest_of
from limpet.secrets.known import certain_secrets, is_secret_name
from limpet.text import one_line, quoted

# ---- Which dependencies does a step's code not show? `depends_on` declares them. ----------------

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
        folder: The base of relative paths; the working directory if None.
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
        shown: dict[str, PartContent] = {}
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
        return Identity(parts, left_out, found=parts, shown=PartContents(lambda: shown))


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
    if path.is_file():
        return [path]
    if path.exists():
        raise LimpetError(
            f"depends_on: {one_line(pattern)} is not a file: a pipe or a device cannot be compared",
            hint="name a file, or declare a `version` instead",
        )
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


def _content(path: Path) -> tuple[str, PartContent]:
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
    return hashed.hexdigest(), shown_file(path, begin, is_complete=len(begin) == size)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise LimpetError(
            f"depends_on: the package {one_line(package)} is not installed",
            hint="use its name for pip",
        ) from error


# ---- Which steps of a run contain the user's code, and which code? ------------------------------

logger = logging.getLogger("limpet.fingerprints")


class CodeStep(ABC):
    """A step that contains the user's own code."""

    @property
    @abstractmethod
    def code(self) -> Mapping[str, Any]:
        """The user's functions, classes and objects, by the prefix of their part names."""

    @property
    def stated(self) -> Mapping[str, str]:
        """Its other dependencies: a digest for each part."""
        return {}

    @property
    def described(self) -> Mapping[str, Any]:
        """The values behind `stated` that can be shown: plain data without secrets."""
        return {}

    @property
    def depends_on(self) -> DependsOn | None:
        """The declared dependencies that its code does not show."""
        return None

    if TYPE_CHECKING:  # the protocols declare a plain attribute
        fingerprint: Mapping[str, str]
    else:

        @property
        def fingerprint(self) -> Mapping[str, str]:
            """The current parts that its results depend on, each with its digest."""
            return Inspection(self).identity.parts


class OwnCode(CodeStep):
    """A step that is one function, class or object of the user.

    Args:
        thing: The function, class or object.
        version: A declared version, which replaces the code and everything else.
        depends_on: Dependencies that the code does not show.
    """

    def __init__(
        self, thing: Any, version: str | None = None, depends_on: DependsOn | None = None
    ) -> None:
        self._thing = thing
        self._version = version
        self._depends_on = depends_on

    @property
    def code(self) -> Mapping[str, Any]:
        return {"": self._thing} if self._version is None else {}

    @property
    def stated(self) -> Mapping[str, str]:
        return {} if self._version is None else {"version": digest_of(self._version)}

    @property
    def described(self) -> Mapping[str, Any]:
        return {} if self._version is None else {"version": self._version}

    @property
    def depends_on(self) -> DependsOn | None:
        return self._depends_on if self._version is None else None


def code_of(step: Any) -> Mapping[str, Any]:
    """Return the user's code in a step."""
    return step.code if isinstance(step, CodeStep) else {}


def declared_of(step: Any) -> DependsOn | None:
    """Return the declared dependencies of a step."""
    return step.depends_on if isinstance(step, CodeStep) else None


def stated_by(step: Any) -> Mapping[str, str]:
    """Return the parts that a step states itself."""
    return step.stated if isinstance(step, CodeStep) else dict(step.fingerprint)


def described_by(step: Any) -> Mapping[str, Any]:
    """Return the values of the parts that a step states itself, if it shows them."""
    described = getattr(step, "described", None)
    return described if isinstance(described, Mapping) else {}


class Inspection:
    """The inspection of a step, when a run is planned and when it ends.

    Args:
        step: A workflow or an evaluator.
        depends_on: Dependencies declared outside the step.
        secrets: Values to ignore.

    Attributes:
        identity: Everything its results depend on.
    """

    def __init__(
        self, step: Any, depends_on: DependsOn | None = None, secrets: Iterable[str] = ()
    ) -> None:
        self._secrets = tuple(secrets)
        self._inspected = [
            (prefix, thing, identity_of(thing, secrets=self._secrets))
            for prefix, thing in code_of(step).items()
        ]
        declared = [given for given in (declared_of(step), depends_on) if given is not None]
        identities = [(prefix, identity) for prefix, _, identity in self._inspected]
        identities += [("", dependencies.identity()) for dependencies in declared]
        stated = stated_by(step)
        parts, found = dict(stated), dict(stated)
        left_out: dict[str, str] = {}
        state: list[str] = []
        for prefix, identity in identities:
            parts |= {prefix + name: digest for name, digest in identity.parts.items()}
            found |= {prefix + name: digest for name, digest in identity.found.items()}
            left_out |= {prefix + name: why for name, why in identity.left_out.items()}
            state += [prefix + name for name in identity.state]

        def show() -> dict[str, PartContent]:
            shown = {name: PartContent("setting") for name in stated} | shown_data(
                described_by(step)
            )
            for prefix, identity in identities:
                shown |= {prefix + name: part for name, part in identity.shown.parts.items()}
            return shown

        self.identity = Identity(
            parts,
            left_out,
            tuple(state),
            found,
            modules=frozenset().union(*(identity.modules for _, identity in identities)),
            code=frozenset().union(*(identity.code for _, identity in identities)),
            sources=frozenset().union(*(identity.sources for _, identity in identities)),
            shown=PartContents(show),
        )

    @property
    def is_class(self) -> bool:
        """Whether it is a class: its instances in a run are not inspected."""
        return any(issubclass(type(thing), type) for _, thing, _ in self._inspected)

    def forget(self) -> None:
        """Free the memory that is only needed to show the parts."""
        for _, _, identity in self._inspected:
            identity.shown.forget()
        self.identity.shown.forget()

    def record_state(self) -> tuple[str, ...]:
        """Inspect again; return the names of the parts that changed during the run."""
        state: list[str] = []
        for prefix, thing, planned in self._inspected:
            try:
                names = record_state(thing, planned, secrets=self._secrets)
            except Exception:  # all results are on disk: at worst, cells run again
                logger.exception("state changes during the run could not be read")
            else:
                state += [prefix + name for name in names]
        return tuple(state)
