"""What does bytecode do, wherever its source stood?"""

import ast
from collections.abc import Iterator
from types import CodeType
from typing import Any


def shape(code: CodeType) -> list[Any]:
    """Return what bytecode does, without where it stood."""
    constants = [shape(one) if isinstance(one, CodeType) else _shown(one) for one in code.co_consts]
    names = [*code.co_names], [*code.co_varnames], [*code.co_freevars]
    return [code.co_code.hex(), *names, constants]


def _shown(constant: Any) -> Any:
    if isinstance(constant, frozenset):  # its order follows the hash seed
        return sorted(map(repr, constant))
    if isinstance(constant, tuple):
        return [_shown(one) for one in constant]
    return f"{type(constant).__name__} {constant!r}"


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of all functions in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from nested(one)


def compiled(module: ast.Module, flags: int) -> dict[str, list[Any]]:
    """Return what each function in a module does, by its qualified name."""
    try:
        todo = [compile(module, "<read>", "exec", flags=flags, dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError):
        return {}
    shapes: dict[str, list[Any]] = {}
    while todo:
        code = todo.pop()
        shapes.setdefault(code.co_qualname, []).append(shape(code))
        todo += [one for one in code.co_consts if isinstance(one, CodeType)]
    return shapes
