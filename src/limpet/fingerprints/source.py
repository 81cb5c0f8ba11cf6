"""Where is the syntax of this code?

A file may have been edited since it was imported, so its text is believed only if it compiles to
the code that is in memory. Where there is none, or it says something else, bytecode stands in.
"""

import __future__

import ast
import functools
import linecache
import os
from pathlib import Path
from types import CodeType

from limpet.fingerprints.bytecode import shape
from limpet.fingerprints.parsed import Definition, Parsed, lines_of, parsed

_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag,
    __future__.all_feature_names,
    0,
)


def definition_of(code: CodeType) -> Definition | None:
    """Return the syntax of a function; None if there is none that is surely its own."""
    return _definition(code, "".join(linecache.getlines(code.co_filename))) or _looked_again(code)


def _looked_again(code: CodeType) -> Definition | None:
    """Look at the file as it is now: what was read of it before may be older than the code."""
    linecache.checkcache(code.co_filename)
    return _definition(code, "".join(linecache.getlines(code.co_filename)))


def _definition(code: CodeType, text: str) -> Definition | None:
    file = parsed(text)
    if file is None:
        return None
    found = [one for one in file.at_line(code.co_firstlineno, code.co_name) if _fits(one[1], code)]
    if len(found) == 1 and _is_older_than_we(code.co_filename):
        return found[0][1]
    for statement, node in found:
        shapes = file.shapes_in(statement, code.co_flags & _FUTURE)
        if shape(code) in shapes.get(code.co_qualname, ()):
            return node
    return None


@functools.lru_cache(maxsize=4096)
def _is_older_than_we(file: str) -> bool:
    """Tell whether a file cannot have changed since this process imported it."""
    began = _began()
    try:
        return began is not None and Path(file).stat().st_ctime < began
    except OSError:
        return False


@functools.cache
def _began() -> float | None:
    """Return when this process began; None where that cannot be known."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        booted = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    # Both are cut to a whole number: two seconds are certain.
    return booted + ticks / os.sysconf("SC_CLK_TCK") - 2


def class_statement(cls: type, file: str) -> ast.ClassDef | None:
    """Return the syntax of a class; None if there is no such class in the file."""
    found = parsed("".join(linecache.getlines(file)))
    return None if found is None else found.classes.get(cls.__qualname__)


def file_as_it_is(file: str) -> Parsed | None:
    """Return the syntax of a whole file, as it is now."""
    linecache.checkcache(file)
    return parsed("".join(linecache.getlines(file)))


def _fits(node: Definition, code: CodeType) -> bool:
    if not isinstance(node, ast.Lambda):
        return node.name == code.co_name
    # Several may stand on one line: the body's place tells them apart.
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    return code.co_name == "<lambda>" and (
        not places or (node.body.lineno, node.body.col_offset) <= min(places)
    )


def text_of_file(file: str) -> str:
    """Return the text of a file as it was imported."""
    return "".join(linecache.getlines(file))


def text_of(node: ast.AST, file: str) -> str:
    """Return a function as it is written, comments and all."""
    first, last = lines_of(node)
    return "".join(linecache.getlines(file)[first - 1 : last])
