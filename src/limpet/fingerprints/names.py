"""Which names does code read where there is no syntax, and which modules does it import?"""

import ast
import dis
from collections.abc import Iterable, Iterator
from types import CodeType

from limpet.fingerprints.bytecode import nested
from limpet.fingerprints.reading import Chain

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_SILENT = {"CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "RESUME"}


def chains_in(code: CodeType) -> set[Chain]:
    """Return what bytecode, with all functions in it, reads from its module."""
    return {chain for one in nested(code) for chain in _chains(one)}


def _chains(code: CodeType) -> Iterator[Chain]:
    chain: list[str] = []
    for one in dis.get_instructions(code):
        if one.opname in _GLOBAL:
            if chain:
                yield tuple(chain)
            chain = [one.argval]
        elif one.opname in _ATTRIBUTE and chain:
            chain.append(one.argval)
        elif chain and one.opname not in _SILENT:
            yield tuple(chain)
            chain = []
    if chain:
        yield tuple(chain)


def imports_in(nodes: Iterable[ast.AST], package: str | None) -> Iterator[str]:
    """Yield the modules that statements import, by whole names; `pkg.*` for a computed one."""
    for one in nodes:
        match one:
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
