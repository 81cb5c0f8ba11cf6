"""What does bytecode do, and which names does it read, independent of line numbers?"""

import ast
import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any

from limpet.fingerprints.code.canonical_text import COMPUTES_NAMES, Chain, CodeSummary

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_IMPORTING = {"import_module", "__import__"}
_SILENT = {"CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "RESUME"}


def shape(code: CodeType) -> list[Any]:
    """Return the instructions of bytecode, without positions."""
    constants = [
        shape(constant) if isinstance(constant, CodeType) else _plain(constant)
        for constant in code.co_consts
    ]
    names = [*code.co_names], [*code.co_varnames], [*code.co_freevars]
    return [code.co_code.hex(), *names, constants]


def _plain(constant: Any) -> Any:
    if isinstance(constant, frozenset):  # its order depends on the hash seed
        return sorted(map(repr, constant))
    if isinstance(constant, tuple):
        return [_plain(element) for element in constant]
    return f"{type(constant).__name__} {constant!r}"


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of all functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def compiled(module: ast.Module, flags: int) -> dict[str, list[Any]]:
    """Return the shape of each function in a module, by qualified name."""
    try:
        todo = [compile(module, "<read>", "exec", flags=flags, dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError):
        return {}
    shapes: dict[str, list[Any]] = {}
    while todo:
        code = todo.pop()
        shapes.setdefault(code.co_qualname, []).append(shape(code))
        todo += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return shapes


def read_bytecode(code: CodeType) -> CodeSummary:
    """Return the names that bytecode and its inner functions read and import."""
    found = CodeSummary()
    for inner in nested(code):
        found.chains |= {*_chains(inner)}
        found.imports += _imports(inner)
    found.handed = {*found.chains}
    found.computes_names = any(chain[0] in COMPUTES_NAMES for chain in found.chains)
    return found


def words_in(code: CodeType) -> Iterator[str]:
    """Yield the string constants in bytecode and its inner functions that could be names."""
    for inner in nested(code):
        parts = [
            part
            for constant in inner.co_consts
            for part in (constant if type(constant) is tuple else [constant])
        ]
        yield from (part for part in parts if type(part) is str and part.isidentifier())


def _imports(code: CodeType) -> Iterator[ast.AST]:
    steps = [step for step in dis.get_instructions(code) if step.opname not in _SILENT]
    for index, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level, names = steps[index - 2].argval, steps[index - 1].argval
            aliases = [ast.alias(name) for name in names or ()]
            if aliases or level:
                yield ast.ImportFrom(step.argval, aliases, level)
            else:
                yield ast.Import([ast.alias(step.argval)])
        elif step.argval in _IMPORTING and step.opname != "IMPORT_FROM":
            argument = steps[index + 1] if index + 1 < len(steps) else step
            constant = argument.argval if argument.opname == "LOAD_CONST" else None
            yield ast.Call(ast.Name(step.argval), [ast.Constant(constant)], [])


def _chains(code: CodeType) -> Iterator[Chain]:
    chain: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname in _GLOBAL:
            if chain:
                yield tuple(chain)
            chain = [step.argval]
        elif step.opname in _ATTRIBUTE and chain:
            chain.append(step.argval)
        elif chain and step.opname not in _SILENT:
            yield tuple(chain)
            chain = []
    if chain:
        yield tuple(chain)
