"""Which files belong to the user's project, and what are their names and digests?

The name of a file is its path below the project's folder: the same on every machine. Files of the
machine, of Python and of libraries do not belong to the project, nor do secrets.
"""

import itertools
import os
import re
import stat
import sys
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from limpet.fingerprints.steps import code_of
from limpet.fingerprints.walk.ownership import folders_of, is_users_file, project_folder, real_path
from limpet.fingerprints.walk.safe_access import module_name
from limpet.secrets.known import is_secret_name

ABSENT = ""
"""The digest of a missing file."""

_NOT_OURS = {"__pycache__", "site-packages", "dist-packages", "node_modules", ".DS_Store"}
_NOT_OURS |= {".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".cache", ".idea", ".vscode"}
_NOT_OURS |= {".ipynb_checkpoints", ".ipython", ".jupyter", ".hypothesis", ".eggs", ".direnv"}
_SECRET_FILE = re.compile(
    r"(?i)(?:.*[._-])?(?:secrets?|passwords?|credentials?|api[_-]?keys?|service[_-]account)"
    r"|(?:(?:.*[._-])?(?:access|auth|api|bearer|refresh)[_-])?tokens?"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|htpasswd|netrc"
)
_SECRET_ENDS = {".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".env", ".crt", ".asc"}
# These contain no secrets: `password.md` is a page about passwords.
_DOCUMENT_ENDS = {".md", ".mdx", ".rst", ".html", ".htm", ".adoc", ".pdf", ".docx"}
_DOCUMENT_ENDS |= {".j2", ".jinja", ".jinja2", ".prompt", ".mustache", ".py"}
_LARGE_BYTES = 64 * 2**20
_PIECE_BYTES = 2**20
_MOST_KNOWN = 100_000


class Project:
    """The folders of a project.

    Args:
        starts: Where to search for it: the working directory, the folders of its code.
        without: Files and folders to exclude: the run's own, the dataset.

    Attributes:
        own: Names of files that the run wrote. Listings of folders skip them.
    """

    def __init__(self, starts: Iterable[Path], without: Iterable[Path] = ()) -> None:
        folders = dict.fromkeys(folder for start in starts for folder in _folders(start))
        self.folders = tuple(folders)
        self._without = tuple({str(known) for path in without for known in (path, real_path(path))})
        self.own: set[str] = set()
        self._names: dict[str, str | None] = {}
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def name_of(self, path: str) -> str | None:
        """Return the name of a file; None if it does not belong to the project.

        Args:
            path: An absolute path.
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
        if any(f"{path}{os.sep}".startswith(excluded + os.sep) for excluded in self._without):
            return None
        real = os.path.realpath(path)
        for candidate, (number, folder) in itertools.product((path, real), enumerate(self.folders)):
            if candidate.startswith(folder + os.sep):  # not the project folder itself
                name = candidate[len(folder) + 1 :]
                if not _may_count(name) or not is_users_file(candidate):
                    return None
                end = "/" if os.path.isdir(path) else ""  # noqa: PTH112 - a string
                twin = self._path_of(name)
                begin = f"{number}:" if twin is not None and twin != candidate else ""
                return begin + _writable(Path(name).as_posix()) + end
        return None

    def _path_of(self, name: str) -> str | None:
        """Return the path of a file by its name; None if it does not exist."""
        number, _, rest = name.partition(":")
        if rest and number.isdigit() and int(number) < len(self.folders):
            return os.path.join(self.folders[int(number)], _as_named(rest))  # noqa: PTH118 - strings
        paths = (os.path.join(folder, _as_named(name)) for folder in self.folders)  # noqa: PTH118
        return next((path for path in paths if os.path.lexists(path)), None)

    def digest(self, name: str) -> str:
        """Return the current digest of a file; ABSENT if it does not exist."""
        path = self._path_of(name)
        return ABSENT if path is None else self.digest_at(path) or ABSENT

    def _listed(self, folder: str) -> str:
        """Return the names in a folder that belong to the project, one per line."""
        names = (name for name in os.listdir(folder) if _may_count(name))  # noqa: PTH208 - strings
        counted = (name for name in names if self._is_listed(os.path.join(folder, name)))  # noqa: PTH118
        return "\n".join(sorted(map(_writable, counted)))

    def _is_listed(self, path: str) -> bool:
        """Return whether listings show a path: not the run's own, not (above) an excluded path."""
        if any(f"{excluded}{os.sep}".startswith(path + os.sep) for excluded in self._without):
            return False
        return not self.own or self.name_of(path) not in self.own

    def text(self, name: str, digest: str, most: int) -> str | None:
        """Return the text of a file to show; None if it changed, is too long or is not text.

        A page named like a secret counts, but is not shown: it may contain some.
        """
        path = self._path_of(name)
        if path is None or _is_like_secret(re.sub(r"^\d+:", "", name)):
            return None
        try:
            if Path(path).stat().st_size > most or self.digest_at(path) != digest:
                return None
            is_folder = os.path.isdir(path)  # noqa: PTH112 - a string
            return self._listed(path) if is_folder else Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError):  # not text
            return None

    def digest_at(self, path: str) -> str | None:
        """Return the digest of a file's content, or of the names in a folder.

        ABSENT if it does not exist, None if it is neither, like a pipe. For a very large file, its
        size and modification time.
        """
        try:
            about = os.stat(path)  # noqa: PTH116 - called for each read
        except (OSError, ValueError):
            return ABSENT
        if stat.S_ISDIR(about.st_mode):
            return blake2b(self._listed(path).encode(), digest_size=8).hexdigest()
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


def project_of(steps: Iterable[Any], without: Iterable[Path] = ()) -> Project:
    """Return the project that the code of some steps belongs to."""
    homes = [
        getattr(sys.modules.get(module_name(thing)), "__file__", None)
        for step in steps
        for thing in code_of(step).values()
    ]
    return Project(folders_of(Path(home).parent for home in homes if home), without)


def _writable(name: str) -> str:
    """Return a name that JSON can hold, even if its bytes are not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _as_named(name: str) -> str:
    """Undo `_writable`."""
    return re.sub(r"\\x([89a-f][0-9a-f])", lambda match: os.fsdecode(bytes.fromhex(match[1])), name)


def _may_count(name: str) -> bool:
    parts = Path(name).parts
    if any(part in _NOT_OURS or (part[:1] == "." and part.endswith("_cache")) for part in parts):
        return False
    if parts[-1].startswith(".env"):
        return False
    _, end = os.path.splitext(parts[-1])  # noqa: PTH122 - a string
    if end in (".pyc", ".pyo", ".so") or end in _SECRET_ENDS:
        return False
    return end in _DOCUMENT_ENDS or not _is_like_secret(name)


def _is_like_secret(name: str) -> bool:
    *folders, last = Path(name).parts
    stem, _ = os.path.splitext(last)  # noqa: PTH122 - a string
    return any(_SECRET_FILE.fullmatch(part) or is_secret_name(part) for part in (stem, *folders))


def _digest(path: str, about: os.stat_result) -> str:
    if about.st_size > _LARGE_BYTES:
        return f"{about.st_size}-{about.st_mtime_ns}"
    hashed = blake2b(digest_size=8)
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a string
            while piece := file.read(_PIECE_BYTES):
                hashed.update(piece)
    except OSError:  # the code that opened it gets the error
        return ABSENT
    return hashed.hexdigest()


def _folders(start: Path) -> list[str]:
    """Return the project folder that contains a folder, as given and with links resolved."""
    project = project_folder(start) or Path(os.path.abspath(start))  # noqa: PTH100 - links stay
    return [str(project), str(real_path(project))]
