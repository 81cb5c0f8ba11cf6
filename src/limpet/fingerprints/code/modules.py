"""Where is the file of a module, without importing anything?"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

_MOST_FILES = 500


def file_of_module(name: str, importer: str) -> str | None:
    """Return the file of a module; None if there is none, or it is no Python."""
    places = [str(Path(importer).parent), *sys.path]
    spec = None
    for part in name.split("."):
        spec = PathFinder.find_spec(part, places)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or ())
    origin = None if spec is None else spec.origin
    return origin if origin and origin.endswith(".py") else None


def files_below(package: str, importer: str) -> list[str]:
    """Return the files of every module of a package; of none, those beside the importer."""
    folder = Path(importer).parent
    if package:
        file = file_of_module(package, importer)
        named = Path(importer).parent.joinpath(*package.split("."))
        folder = Path(file).parent if file is not None else named
    if not folder.is_dir():
        return []
    return [str(one) for one in sorted(folder.rglob("*.py"))][:_MOST_FILES]
