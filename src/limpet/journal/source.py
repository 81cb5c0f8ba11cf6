"""What does code say, which names does it use, and what does it change?"""

import ast
import contextlib
import dis
import functools
import importlib.util
import inspect
import linecache
import site
import sys
import sysconfig
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_CHANGING = {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert"}
_CHANGING |= {"pop", "popitem", "popleft", "remove", "setdefault", "update", "__setitem__"}


# ---- what it says --------------------------------------------------------------------------------


def source_of(code: CodeType) -> Any:
    """Return a function's source without comments, docstrings and layout; else its bytecode."""
    tree = _tree_of(code)
    if tree is None or not _is_in_memory(code):
        return _shape(code)
    if code.co_name == "<lambda>":
        # What is found is the whole statement around it.
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        return ast.unparse(lambdas[0]) if len(lambdas) == 1 else _shape(code)
    return _unparsed(tree)


def source_of_class(cls: type) -> Any:
    """Return a class's source in the same way; else the bytecode of its methods."""
    tree = _tree_of(cls)
    own = [one for one in methods_of(cls) if one.__qualname__.startswith(cls.__qualname__ + ".")]
    if tree is not None and all(_is_in_memory(one.__code__) for one in own):
        return _unparsed(tree)
    return [[one.__name__, _shape(one.__code__)] for one in methods_of(cls)]


def _tree_of(thing: CodeType | type) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError, IndexError):
        return None


def _unparsed(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            match node.body[0]:
                case ast.Expr(value=ast.Constant(value=str())):
                    node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _is_in_memory(code: CodeType) -> bool:
    """Tell whether the file, as it is now, says what was imported from it."""
    text = "".join(linecache.getlines(code.co_filename))
    return _shape(code) in _shapes_in(text, code.co_filename).get(code.co_qualname, [])


@functools.lru_cache(maxsize=64)
def _shapes_in(text: str, file: str) -> dict[str, list[Any]]:
    try:
        todo = [compile(text, file, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return {}
    shapes: dict[str, list[Any]] = {}
    while todo:
        code = todo.pop()
        shapes.setdefault(code.co_qualname, []).append(_shape(code))
        todo += [one for one in code.co_consts if isinstance(one, CodeType)]
    return shapes


def _shape(code: CodeType) -> list[Any]:
    """Return what bytecode does, without where it stood."""
    constants = [
        _shape(one) if isinstance(one, CodeType) else _shown(one) for one in code.co_consts
    ]
    names = [*code.co_names], [*code.co_varnames], [*code.co_freevars]
    return [code.co_code.hex(), *names, constants]


def _shown(constant: Any) -> Any:
    if isinstance(constant, frozenset):  # its order follows the hash seed
        return sorted(map(repr, constant))
    return repr(constant)


# ---- which names it uses -------------------------------------------------------------------------


def names_used(code: CodeType) -> Iterator[list[str]]:
    """Yield what a function reads from its module: names, with the attributes read off them."""
    path: list[str] = []
    for one in _instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if path:
                yield path
            path = [one.argval]
        elif one.opname in ("LOAD_ATTR", "LOAD_METHOD") and path:
            path.append(one.argval)
        elif path and one.opname not in ("CACHE", "PRECALL", "PUSH_NULL"):
            yield path
            path = []
    if path:
        yield path


def modules_imported(code: CodeType, package: str | None) -> Iterator[Path]:
    """Yield the files of the user's own modules that a function imports when it runs."""
    level = 0
    for one in _instructions(code):
        if one.opname == "LOAD_CONST" and isinstance(one.argval, int):
            level = one.argval
        elif one.opname == "IMPORT_NAME":
            with contextlib.suppress(ImportError, ValueError, AttributeError):
                name = importlib.util.resolve_name("." * level + one.argval, package)
                spec = importlib.util.find_spec(name)
                if spec is not None and spec.origin and not _is_in_library(spec.origin):
                    yield Path(spec.origin)


def source_of_file(path: Path) -> str | None:
    """Return a module's source without comments, docstrings and layout."""
    try:
        return _unparsed(ast.parse(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, SyntaxError):
        return None


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


# ---- what it changes -----------------------------------------------------------------------------


def mutated_globals(code: CodeType, scope: Mapping[str, Any]) -> set[str]:
    """Return the names in a module that a function of it assigns or changes."""
    functions = [one for one in scope.values() if type(one) is FunctionType and is_users(one)]
    codes = [code, *(one.__code__ for one in functions if one.__globals__ is scope)]
    names = set()
    for one in codes:
        names |= {
            step.argval
            for step in _instructions(one)
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
        }
        names |= _changed_in(one)
    return names


def closed_over_state(code: CodeType) -> frozenset[str]:
    """Return the names a function closes over and changes."""
    stored = {step.argval for step in _instructions(code) if step.opname == "STORE_DEREF"}
    return frozenset(stored | _changed_in(code))


def mutated_attributes(cls: type) -> set[str]:
    """Return the attributes that methods other than `__init__` assign or change."""
    names: set[str] = set()
    for one in (method for base in cls.__mro__ for method in methods_of(base)):
        if one.__name__ not in ("__init__", "__post_init__", "__new__"):
            names |= {
                step.argval for step in _instructions(one.__code__) if step.opname == "STORE_ATTR"
            }
            names |= _changed_in(one.__code__, of="self")
    return names


@functools.lru_cache(maxsize=1024)
def _changed_in(code: CodeType, of: str | None = None) -> frozenset[str]:
    """Return the names, or the attributes of one, that are changed in place: x[…] = , x.add()."""
    tree = _tree_of(code)
    if tree is None:
        return frozenset()
    changed = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=target, attr=method)) if method in _CHANGING:
                changed.add(_root(target, of))
            case ast.Subscript(value=target, ctx=ast.Store() | ast.Del()):
                changed.add(_root(target, of))
            case ast.Attribute(value=target, ctx=ast.Store() | ast.Del()) if of is None:
                changed.add(_root(target, of))
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as target):
                changed.add(_root(target, of))
    return frozenset(name for name in changed if name is not None)


def _root(node: ast.expr, of: str | None) -> str | None:
    """Return the name a chain like x.y[0] begins with; of `self.x.y`, the attribute x."""
    below: str | None = None
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        below = node.attr if isinstance(node, ast.Attribute) else below
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    if of is None:
        return node.id
    return below if node.id == of else None


# ---- whose it is ---------------------------------------------------------------------------------


def methods_of(cls: type) -> list[FunctionType]:
    """Return the functions a class defines itself, also those behind properties and caches."""
    members = [_peeled(one) for one in vars(cls).values()]
    return [one for one in members if type(one) is FunctionType]


def _peeled(member: Any) -> Any:
    if type(member) is property:
        member = member.fget
    elif type(member) in (staticmethod, classmethod):
        member = member.__func__
    elif type(member) is functools.cached_property:
        member = member.func
    return getattr(member, "__wrapped__", member) if _is_cache(member) else member


def _is_cache(member: Any) -> bool:
    return type(member).__qualname__ == "_lru_cache_wrapper"


def is_users(thing: Any) -> bool:
    """Tell whether something is from the user's own modules: not Python's, not an installed one."""
    while type(thing) is functools.partial:
        thing = thing.func
    if type(thing) in (FunctionType, MethodType):
        # Not its module: a wrapper from a library borrows the name and module of what it wraps.
        return not _is_in_library(thing.__code__.co_filename)
    name = getattr(thing, "__module__", None)
    module = sys.modules.get(name) if isinstance(name, str) else None
    if name == "__main__":
        return True
    if module is None:
        return False
    file = getattr(module, "__file__", None)
    return file is not None and not _is_in_library(file)  # without one: built into Python


def is_users_module(module: ModuleType) -> bool:
    """Tell whether a module is the user's own."""
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    return isinstance(file, str) and not _is_in_library(file)


def is_users_file(file: str) -> bool:
    """Tell whether code from this file is the user's own: not Python's, ours or a library's."""
    return not file.startswith("<frozen") and not _is_in_library(file)


def _is_in_library(file: str) -> bool:
    return file.startswith("<frozen") or any(
        Path(file).is_relative_to(place) for place in _libraries()
    )


@functools.cache
def _libraries() -> tuple[Path, ...]:
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])}
    return tuple(Path(place) for place in places if place)
