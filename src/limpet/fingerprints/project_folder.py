"""Which folder is the user's project?"""

import functools
import os
from collections.abc import Iterable
from pathlib import Path

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", ".git")


def project_folder(start: Path) -> Path | None:
    """Return the project's folder that contains a folder; None if no mark shows it."""
    start = Path(os.path.abspath(start))  # noqa: PTH100 - links stay
    for folder in (start, *start.parents):
        if folder in (Path.home(), Path(folder.anchor)):
            break
        if any((folder / mark).exists() for mark in _MARKS):
            return folder
    return None


def folders_of(homes: Iterable[Path]) -> list[Path]:
    """Return the folders that the paths of a project are relative to, with links resolved too.

    The working directory is one of them, but not if it is just any folder above the project: then
    a path would be another one wherever a run is started.

    Args:
        homes: The folders of the project's code.
    """
    homes = [Path(os.path.abspath(home)) for home in homes]  # noqa: PTH100 - links stay
    here = Path.cwd()
    known = [project_folder(home) for home in homes]
    is_above = any(project and here in project.parents for project in known)
    found = [project or home for project, home in zip(known, homes, strict=True)]
    if not (is_above and project_folder(here) is None):
        found.insert(0, project_folder(here) or here)
    linked = (place for one in found for place in (one, real_path(one)))
    return list(dict.fromkeys(linked))


@functools.cache
def real_path(path: Path) -> Path:
    """Return a path with links resolved."""
    return Path(os.path.realpath(path))
