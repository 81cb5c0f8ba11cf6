"""Which modules does code import, and where are their files?

Nothing is imported to find out.
"""

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

Places = tuple[str, ...]
Finder = Callable[[str, Places], tuple[str | None, Places] | None]
# An environment below the project has thousands of files.
_NOT_OF_PROJECT = {"site-packages", "dist-packages", "node_modules"}


def imports_in(nodes: Iterable[ast.AST], package: str | None) -> Iterator[str]:
    """Yield the full names of imported modules; `pkg.*` if the name is computed."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = _absolute(module or "", level, package)
                if base is not None:
                    yield base
                    yield from (f"{base}.{alias.name}" for alias in names if alias.name != "*")
            case ast.Call(args=[first, *_]):
                yield _computed(first, package)


def _absolute(module: str, level: int, package: str | None) -> str | None:
    if not level:
        return module
    parts = (package or "").split(".")
    if not package or level > len(parts):
        return None
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{module}" if module else base


def _computed(name: ast.expr, package: str | None) -> str:
    match name:
        case ast.Constant(value=str() as text):
            return _absolute(text.lstrip("."), len(text) - len(text.lstrip(".")), package) or text
        case ast.JoinedStr(values=[ast.Constant(value=str() as text), *_]) if "." in text:
            return text.rpartition(".")[0] + ".*"
        case ast.BinOp(left=ast.Constant(value=str() as text)) if "." in text:
            return text.rpartition(".")[0] + ".*"
    return ".*"


def find_module(name: str, places: Places) -> tuple[str | None, Places] | None:
    """Return the file of a module in some folders, and the folders of its own modules."""
    spec = PathFinder.find_spec(name, places)
    return None if spec is None else (spec.origin, (*(spec.submodule_search_locations or ()),))


def file_of_module(name: str, importer: str, find: Finder = find_module) -> str | None:
    """Return the file of a module; None if it has none or is not Python source.

    Args:
        name: Its full name.
        importer: The file that imports it.
        find: `find_module`, or the same with a memory.
    """
    file, places = None, (os.path.dirname(importer) or ".", *sys.path)  # noqa: PTH120 - a string
    for part in name.split("."):
        found = find(part, places)
        if found is None:
            return None
        file, places = found
    return file if file and file.endswith(".py") else None


def modules_below(package: str, importer: str, find: Finder) -> list[tuple[str, str]]:
    """Return all modules of a package, or of the importer's folder if it is empty.

    Returns:
        The name of each module below the folder ("" for the folder itself), and its file.
    """
    folder = Path(importer).parent
    if package:
        file = file_of_module(package, importer, find)
        named = Path(importer).parent.joinpath(*package.split("."))
        folder = Path(file).parent if file is not None else named
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and name not in _NOT_OF_PROJECT]
        found += [Path(place, name) for name in files if name.endswith(".py")]
    return [(_dotted(file.relative_to(folder)), str(file)) for file in sorted(found)]


def _dotted(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
