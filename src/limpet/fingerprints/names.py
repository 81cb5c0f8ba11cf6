"""Which names does code read from its module, and which of them can it not know?"""

import ast
import dis
from collections.abc import Iterator
from types import CodeType

from limpet.fingerprints.source import nested

Chain = tuple[str, ...]
"""A name with the attributes that are read off it: `settings.model.name`."""

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_SILENT = {"CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "RESUME"}
_BY_COMPUTED_NAME = {"globals", "eval", "exec", "vars", "compile"}
_READS_DOCUMENTATION = {
    "__doc__",
    "__annotations__",
    "getdoc",
    "get_type_hints",
    "get_annotations",
    "signature",
    "getsource",
}


def chains_in(code: CodeType) -> set[Chain]:
    """Return what a function, with all functions in it, reads from its module."""
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


def chains_in_tree(node: ast.AST) -> set[Chain]:
    """Return the names that syntax reads, with their attributes; also those of its own locals."""
    found = set()
    for one in ast.walk(node):
        chain = chain_of(one)
        if chain is not None:
            found.add(chain)
    return found


def chain_of(node: ast.AST) -> Chain | None:
    """Return `a.b.c` as a chain; None for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return (node.id, *names) if isinstance(node, ast.Name) else None


def handed_over(node: ast.AST) -> set[Chain]:
    """Return the names that are not only called: somebody else gets what they stand for."""
    called = {id(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
    inner = {id(one.value) for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    found = set()
    for one in ast.walk(node):
        if id(one) not in called and id(one) not in inner and (chain := chain_of(one)):
            found.add(chain)
    return found


def computes_names(code: CodeType) -> bool:
    """Tell whether code may reach anything in its module by a name that nobody can read."""
    return any(chain[0] in _BY_COMPUTED_NAME for chain in chains_in(code))


def reads_documentation(code: CodeType) -> bool:
    """Tell whether code looks at docstrings or type hints."""
    return any(not _READS_DOCUMENTATION.isdisjoint(one.co_names) for one in nested(code))


def imports_in(node: ast.AST, package: str | None) -> Iterator[str]:
    """Yield the modules that syntax imports, by their whole names; `pkg.*` for a computed one."""
    for one in ast.walk(node):
        match one:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = _absolute(module or "", level, package)
                if base is not None:
                    yield base
                    yield from (f"{base}.{alias.name}" for alias in names if alias.name != "*")
            case ast.Call(func=func, args=[first, *_]) if _is_import(func):
                yield _computed(first, package)


def _absolute(module: str, level: int, package: str | None) -> str | None:
    if not level:
        return module
    parts = (package or "").split(".")
    if not package or level > len(parts):
        return None
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{module}" if module else base


def _is_import(function: ast.expr) -> bool:
    chain = chain_of(function)
    return chain is not None and chain[-1] in ("import_module", "__import__")


def _computed(name: ast.expr, package: str | None) -> str:
    match name:
        case ast.Constant(value=str() as text):
            return _absolute(text.lstrip("."), len(text) - len(text.lstrip(".")), package) or text
        case ast.JoinedStr(values=[ast.Constant(value=str() as text), *_]) if "." in text:
            return text.rpartition(".")[0] + ".*"
        case ast.BinOp(left=ast.Constant(value=str() as text)) if "." in text:
            return text.rpartition(".")[0] + ".*"
    return ".*"
