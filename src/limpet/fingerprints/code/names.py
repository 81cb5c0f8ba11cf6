"""Which names does code read where there is no syntax, and which modules does it import?"""

import ast
import dis
from collections.abc import Iterable, Iterator
from types import CodeType

from limpet.fingerprints.code.binding import COMPUTES_NAMES
from limpet.fingerprints.code.bytecode import nested
from limpet.fingerprints.code.reading import Chain, Reading

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_IMPORTING = {"import_module", "__import__"}
_SILENT = {"CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "RESUME"}


def read_bytecode(code: CodeType) -> Reading:
    """Return what bytecode, with all functions in it, reads from its module and imports."""
    found = Reading()
    for one in nested(code):
        found.chains |= {*_chains(one)}
        found.imports += _imports(one)
    found.handed = {*found.chains}
    found.computes_names = any(chain[0] in COMPUTES_NAMES for chain in found.chains)
    return found


def words_in(code: CodeType) -> Iterator[str]:
    """Yield the constants in bytecode, with all functions in it, that could be names."""
    for one in nested(code):
        parts = [
            part for each in one.co_consts for part in (each if type(each) is tuple else [each])
        ]
        yield from (each for each in parts if type(each) is str and each.isidentifier())


def _imports(code: CodeType) -> Iterator[ast.AST]:
    steps = [one for one in dis.get_instructions(code) if one.opname not in _SILENT]
    for place, one in enumerate(steps):
        if one.opname == "IMPORT_NAME":
            level, names = steps[place - 2].argval, steps[place - 1].argval
            aliases = [ast.alias(name) for name in names or ()]
            if aliases or level:
                yield ast.ImportFrom(one.argval, aliases, level)
            else:
                yield ast.Import([ast.alias(one.argval)])
        elif one.argval in _IMPORTING and one.opname != "IMPORT_FROM":
            given = steps[place + 1] if place + 1 < len(steps) else one
            constant = given.argval if given.opname == "LOAD_CONST" else None
            yield ast.Call(ast.Name(one.argval), [ast.Constant(constant)], [])


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
