"""Which files belong to the user's project, what are they called, and what do they say?

A file is called by its path below the project's folder: in another folder, and on another machine,
it is the same file. What is the machine's, Python's or a library's does not belong to it, nor what
holds secrets.
"""

import functools
import itertools
import os
import re
import stat
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from limpet.fingerprints.walk.ownership import is_users_file
from limpet.secrets.names import is_secret_name

ABSENT = ""
"""What a file says that is not there."""

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", ".git")
_NOT_OURS = {"__pycache__", "site-packages", "dist-packages", "node_modules", ".DS_Store"}
_NOT_OURS |= {".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".cache", ".idea", ".vscode"}
_NOT_OURS |= {".ipynb_checkpoints", ".ipython", ".jupyter", ".hypothesis", ".eggs", ".direnv"}
_SECRET_FILE = re.compile(
    r"(?i)(?:.*[._-])?(?:secrets?|passwords?|credentials?|api[_-]?keys?|service[_-]account)"
    r"|(?:(?:.*[._-])?(?:access|auth|api|bearer|refresh)[_-])?tokens?"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|htpasswd|netrc"
)
_SECRET_ENDS = {".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".env", ".crt", ".asc"}
_LARGE_BYTES = 64 * 2**20
_PIECE_BYTES = 2**20
_MOST_KNOWN = 100_000


class Project:
    """The folders of a project.

    Args:
        starts: Where it may be: the working directory, the folders of its code.
        without: Files and folders in it that do not count: a run's own, the dataset.

    Attributes:
        own: Names of files that a run made: they are not among those of a folder.
    """

    def __init__(self, starts: Iterable[Path], without: Iterable[Path] = ()) -> None:
        folders = dict.fromkeys(folder for start in starts for folder in _folders(start))
        self.folders = tuple(folders)
        self._without = tuple({str(place) for path in without for place in (path, _real(path))})
        self.own: set[str] = set()
        self._names: dict[str, str | None] = {}
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def name_of(self, path: str) -> str | None:
        """Return what a file of the project is called; None if it does not belong to it.

        Args:
            path: Absolute.
        """
        try:
            return self._names[path]
        except KeyError:
            pass
        if len(self._names) > _MOST_KNOWN:
            self._names.clear()
        name = self._names[path] = self._named(path)
        return name

    def _named(self, path: str) -> str | None:
        if any(
            path == excluded or path.startswith(excluded + os.sep) for excluded in self._without
        ):
            return None
        real = os.path.realpath(path)
        for place, (number, folder) in itertools.product((path, real), enumerate(self.folders)):
            if place.startswith(folder + os.sep):  # its own folder is too much of everything
                name = place[len(folder) + 1 :]
                if not _may_count(name) or not is_users_file(place):
                    return None
                end = "/" if os.path.isdir(path) else ""  # noqa: PTH112 - a text
                twin = self._place(name)
                begin = f"{number}:" if twin is not None and twin != place else ""
                return begin + _writable(Path(name).as_posix()) + end
        return None

    def _place(self, name: str) -> str | None:
        """Return where a file of a name lies; None: nowhere."""
        number, _, rest = name.partition(":")
        if rest and number.isdigit() and int(number) < len(self.folders):
            return os.path.join(self.folders[int(number)], _as_named(rest))  # noqa: PTH118 - texts
        places = (os.path.join(folder, _as_named(name)) for folder in self.folders)  # noqa: PTH118
        return next((place for place in places if os.path.lexists(place)), None)

    def says(self, name: str) -> str:
        """Return the digest of what a file says now: ABSENT if it is not there."""
        place = self._place(name)
        return ABSENT if place is None else self.content(place) or ABSENT

    def _names_in(self, folder: str) -> str:
        """Return a digest of what a folder has, without what does not belong to the project."""
        return blake2b(self._listed(folder).encode(), digest_size=8).hexdigest()

    def _listed(self, folder: str) -> str:
        names = (
            name
            for name in os.listdir(folder)  # noqa: PTH208 - texts
            if _may_count(name)
            and not self._is_without(os.path.join(folder, name))  # noqa: PTH118
            and (not self.own or self.name_of(os.path.join(folder, name)) not in self.own)  # noqa: PTH118
        )
        return "\n".join(sorted(map(_writable, names)))

    def _is_without(self, path: str) -> bool:
        """Tell whether it does not count, or holds what does not."""
        return any(f"{excluded}{os.sep}".startswith(path + os.sep) for excluded in self._without)

    def text(self, name: str, says: str, most: int) -> str | None:
        """Return a file's text if it still says what it said; None if not, or if it is long."""
        place = self._place(name)
        if place is None:
            return None
        try:
            if Path(place).stat().st_size > most or self.content(place) != says:
                return None
            is_folder = os.path.isdir(place)  # noqa: PTH112 - a text
            return self._listed(place) if is_folder else Path(place).read_text(encoding="utf-8")
        except (OSError, ValueError):  # no text
            return None

    def content(self, path: str) -> str | None:
        """Return the digest of what a file says, or of the names in a folder.

        ABSENT if it is not there, None if it is something else, such as a pipe. A very large file
        counts by its size and the time of its last change.
        """
        try:
            about = os.stat(path)  # noqa: PTH116 - called for each read
        except (OSError, ValueError):
            return ABSENT
        if stat.S_ISDIR(about.st_mode):
            return self._names_in(path)
        if not stat.S_ISREG(about.st_mode):
            return None
        signs = (about.st_size, about.st_mtime_ns, about.st_ino, about.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known[0] == signs:
            return known[1]
        digest = _digest(path, about)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        if digest:
            self._known[path] = (signs, digest)
        return digest


def _writable(name: str) -> str:
    """Return a name that has a place in JSON, also if its bytes are no text."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _as_named(name: str) -> str:
    """Return the name that `_writable` wrote."""
    return re.sub(r"\\x([89a-f][0-9a-f])", lambda match: os.fsdecode(bytes.fromhex(match[1])), name)


def _may_count(name: str) -> bool:
    *folders, last = parts = Path(name).parts
    if any(part in _NOT_OURS or (part[:1] == "." and part.endswith("_cache")) for part in parts):
        return False
    if last.startswith(".env"):
        return False
    stem, end = os.path.splitext(last)  # noqa: PTH122 - a text
    if end in (".pyc", ".pyo", ".so") or end in _SECRET_ENDS:
        return False
    return not any(
        _SECRET_FILE.fullmatch(part) or is_secret_name(part) for part in (stem, *folders)
    )


def _digest(path: str, about: os.stat_result) -> str:
    if about.st_size > _LARGE_BYTES:
        return f"{about.st_size}-{about.st_mtime_ns}"
    hashed = blake2b(digest_size=8)
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a text in
            while piece := file.read(_PIECE_BYTES):
                hashed.update(piece)
    except OSError:  # whoever opened it hears of that
        return ABSENT
    return hashed.hexdigest()


def _folders(start: Path) -> list[str]:
    """Return the folder of the project that a folder lies in, by its path and by its real one."""
    start = Path(os.path.abspath(start))  # noqa: PTH100 - links stay
    found = start
    for folder in (start, *start.parents):
        if folder in (Path.home(), Path(folder.anchor)):
            break
        if any((folder / mark).exists() for mark in _MARKS):
            found = folder
            break
    return [str(found), str(_real(found))]


@functools.cache
def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
