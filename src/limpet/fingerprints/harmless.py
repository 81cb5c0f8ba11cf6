"""Does code that runs once, at import or before a run, change what is not its own?

A call of a library's function may: `configure("m1")`. Which ones do nobody can tell, so all count
but those of packages that are known to change no answer. Making an object of a library's class
changes nothing else, unless nobody gets the object. A function of the user's is looked into.
"""

import ast
import builtins
import functools
import re
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.asking import attributes_of, bases_of, held_by, names_of, text_at
from limpet.fingerprints.naming import module_name
from limpet.fingerprints.ownership import is_module, is_users, is_users_module
from limpet.fingerprints.reading import FUNCTIONS, chain_of
from limpet.fingerprints.statements import is_for_scripts, statements_in

if TYPE_CHECKING:
    from limpet.fingerprints.walk import Walk

Scope = Mapping[str, Any]
_NOTHING = object()
_US = __name__.partition(".")[0]
_CHANGING = re.compile(
    r"set($|[_A-Z]|[a-z])|seed|register|patch|install|putenv|chdir|import_module"
)
_CONTEXTS = {"getcontext", "localcontext"}
_BUILTINS = {"setattr", "delattr", "exec", "eval", "__import__"}
# What they are called for is no part of an answer, or comes out of what they give.
_PACKAGES = {"numpy", "pandas", "polars", "pyarrow", "datasets", "yaml", "tqdm", "rich", "jinja2"}
_PACKAGES |= {"typer", "click", "fire", "dotenv", "structlog", "loguru", "pytest", "_pytest"}
_PACKAGES |= {"attr", "attrs", "pydantic", "pydantic_core", "tenacity", "wrapt", "tiktoken"}
_PACKAGES |= {"fastapi", "flask", "starlette", "mlflow", "wandb", "nest_asyncio", "uvloop"}
_PACKAGES |= {"typing_extensions", "colorama", _US}
# They only look on.
_PACKAGES |= {"opentelemetry", "openinference", "phoenix", "langfuse", "langsmith", "weave", "opik"}
_PACKAGES |= {"logfire", "traceloop", "agentops", "sentry_sdk", "ddtrace", "comet_ml", "icecream"}
# What of them changes answers nevertheless: how numbers, tables and texts are written or read.
_LOUD = {"polars": r"set_|Config"}
_LOUD |= {
    "numpy": r"set_|seterr|seed",
    "yaml": r"add_",
    "wrapt": r"patch_|wrap_|register",
    "csv": r"reg|field",
}
_LOUD |= dict.fromkeys(["mlflow", "wandb", "sentry_sdk", "weave", "opentelemetry", _US], r"(?!)")
_STANDARD = {"argparse", "logging", "warnings", "time", "shutil", "pathlib", "json", "csv", "gc"}
_STANDARD |= {"asyncio", "atexit", "faulthandler", "tracemalloc", "pprint", "textwrap", "typing"}
_STANDARD |= {"_io", "io", "builtins", "collections", "dataclasses", "enum", "posixpath"}
_STANDARD |= {"_thread", "_asyncio", "_collections", "signal", "multiprocessing"}
_OF_CONTAINERS = {"append", "extend", "add", "update", "insert", "pop", "clear", "remove", "sort"}
_OF_CONTAINERS |= {"setdefault", "write", "close", "mkdir", "add_argument", "info", "debug"}
_QUIET = {"makedirs", "mkdir", "exit", "sleep", "flush", "reconfigure"}
# They call what they are given.
_CALLING = {"map", "filter", "Thread", "Timer", "submit", "to_thread", "run_in_executor", "reduce"}
# Of these, attributes and elements are one's own.
_PLAIN = {"builtins", "argparse", "pandas", "numpy", "polars", "types", "collections", "logging"}


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when a statement does: not the bodies of functions in it."""
    todo: list[Any] = [node]
    while todo:
        one = todo.pop()
        yield one
        if isinstance(one, (*FUNCTIONS, ast.Lambda)):
            todo += getattr(one, "decorator_list", ())
            todo += [*one.args.defaults, *filter(None, one.args.kw_defaults)]
        elif isinstance(one, ast.AnnAssign):
            todo += [one.target] if one.value is None else [one.target, one.value]
        elif is_for_scripts(one):
            todo += one.orelse  # type: ignore[attr-defined]
        else:
            todo += ast.iter_child_nodes(one)


class Judge:
    """Tells which code changes what is not its own.

    Args:
        walk: The look that asks.
    """

    def __init__(self, walk: "Walk") -> None:
        self._walk = walk
        self._functions: dict[int, bool] = {}

    def changes(self, node: ast.AST, scope: Scope) -> bool:
        """Tell whether code changes what is not its own, when it runs."""
        dropped = set()
        for one in executed(node):
            if type(one) is ast.Expr:
                value = one.value.value if type(one.value) is ast.Await else one.value
                dropped.add(id(value))
            elif type(one) is ast.Call:
                if self._calls(one, scope, dropped=id(one) in dropped):
                    return True
            elif type(one) is ast.AugAssign and type(one.target) is ast.Name:
                if self._is_not_its_own(one.target, scope):
                    return True
            elif isinstance(one, (ast.Attribute, ast.Subscript)):
                if type(one.ctx) is not ast.Load and self._stores(one, scope):
                    return True
            elif isinstance(one, (*FUNCTIONS, ast.ClassDef)) and self._makes(one, scope):
                return True
        return False

    def _calls(self, call: ast.Call, scope: Scope, *, dropped: bool) -> bool:
        chain = chain_of(call.func)
        if isinstance(call.func, ast.Lambda):
            return self._body(call.func, scope)
        if chain is None:
            return self._calls_what_was_given(call.func, scope, dropped=dropped)
        value, owner = _resolved(chain, scope)
        if owner == "builtins" and dropped and self._imported_from(chain[0], scope):
            return True  # an element is put into what is a library's
        if value is setattr or value is delattr:
            given = call.args[0] if call.args else None
            library = given is not None and _resolved(chain_of(given) or ("",), scope)[0]
            if is_module(library):
                return not is_users_module(library)
            return given is not None and self._is_not_its_own(given, scope)
        given_to = [*call.args, *(one.value for one in call.keywords)]
        if dropped and any(type(one) is ast.Constant and one.value == "error" for one in given_to):
            return True  # warnings may become errors
        if owner == "sys" and chain[-2] == "path":
            return False  # what is imported from there counts
        if chain[-1] == "setdefault" and any(
            self._walk.is_secret(_text_in(one)) for one in given_to
        ):
            return False
        if chain[-1] in _CALLING and not _is_users(value):
            handed = [one for one in map(chain_of, given_to) if one is not None]
            if any(self._is_loud(*_resolved(one, scope), one[-1], dropped=True) for one in handed):
                return True
        if dropped and len(chain) > 1 and chain[-1] not in _OF_CONTAINERS:
            passed = _is_local(chain[0], scope) and chain[0] not in ("self", "cls")
            if passed and value is _NOTHING and owner is None:
                return True  # a function calls a method of what it was given
        return self._is_loud(value, owner, chain[-1], dropped=dropped)

    def _calls_what_was_given(self, function: ast.expr, scope: Scope, *, dropped: bool) -> bool:
        """Judge `Path(x).read_text()`: by what gave it."""
        name = function.attr if isinstance(function, ast.Attribute) else ""
        within: ast.AST = function
        while isinstance(within, (ast.Attribute, ast.Subscript, ast.Call)):
            if isinstance(within, ast.Call):
                chain = chain_of(within.func)
                if chain is not None:
                    value, owner = _resolved(chain, scope)
                    if (value is getattr or value is vars) and within.args:
                        value, owner = _resolved(chain_of(within.args[0]) or ("",), scope)
                        if is_module(value) and is_users_module(value):
                            return False
                    package = owner if owner is not None else _package(value)
                    return not _is_users(value) and _is_loud_package(package, name, dropped=dropped)
                within = within.func
            else:
                within = within.value
        return False

    def _is_loud(self, value: Any, owner: str | None, name: str, *, dropped: bool) -> bool:
        while type(value) is functools.partial:
            value = value.func
        if type(value) is MethodType:
            value = value.__func__
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
        if value is _NOTHING:
            return owner is not None and _is_loud_package(owner, name, dropped=dropped)
        if type(value) is FunctionType and is_users(value):
            return self._does(value)
        if issubclass(type(value), type):
            if is_users(value):
                return self._is_made_loudly(value)
            return dropped and _is_loud_package(_package(value), name, dropped=dropped)
        if is_users(type(value)):
            call = _in_class(type(value), "__call__")
            return type(call) is FunctionType and self._does(call)
        package = owner if owner is not None else _package(value)
        return _is_loud_package(package, name, dropped=dropped)

    def _is_made_loudly(self, cls: type) -> bool:
        makers = [_in_class(cls, name) for name in ("__init__", "__new__", "__post_init__")]
        makers += [_in_class(type(cls), "__call__")]
        makers = [one.__func__ if type(one) is staticmethod else one for one in makers]
        return any(self._does(one) for one in makers if type(one) is FunctionType and is_users(one))

    def _does(self, function: FunctionType) -> bool:
        """Tell whether a function of the user's changes what is not its own."""
        code = function.__code__
        if id(code) not in self._functions:
            self._functions[id(code)] = False  # while it is looked at
            node = self._walk.sources.definition_of(code)
            made = node is None and code.co_filename.startswith("<")  # as dataclasses do
            self._functions[id(code)] = not made and (
                node is None or self._body(node, function.__globals__)
            )
        return self._functions[id(code)]

    def _gives_loud(self, function: FunctionType) -> bool:
        """Tell whether a function returns one of its own that changes what is not its own."""
        node = self._walk.sources.definition_of(function.__code__)
        body: list[Any] = [] if node is None or isinstance(node, ast.Lambda) else node.body
        given = {one.value.id for one in body if _returns_a_name(one)}
        inner = [one for one in body if isinstance(one, FUNCTIONS) and one.name in given]
        return any(self._body(one, function.__globals__) for one in inner)

    def _body(self, node: Any, scope: Scope) -> bool:
        body = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        inner = {one.name: one for one in body if isinstance(one, FUNCTIONS)}
        given = node.args
        own = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        libraries, users = _imported_in(node)
        bound: Scope = ChainMap(dict.fromkeys(own, _NOTHING), libraries, users, scope)  # type: ignore[arg-type]
        for one in body:
            if self.changes(one, bound):
                return True
            for each in ast.walk(one) if inner else ():
                if type(each) is ast.Call and type(each.func) is ast.Name and each.func.id in inner:
                    body += inner.pop(each.func.id).body
        return False

    def _stores(self, target: ast.Attribute | ast.Subscript, scope: Scope) -> bool:
        if self._walk.is_secret(
            target.attr if isinstance(target, ast.Attribute) else _text_in(target.slice)
        ):
            return False
        return self._is_not_its_own(target.value, scope)

    def _is_not_its_own(self, base: ast.expr, scope: Scope) -> bool:
        """Tell whether what is changed may be a library's."""
        while isinstance(base, ast.Subscript):
            base = base.value
        chain = chain_of(base)
        if chain is None:  # what a call gave: `getcontext().prec = 3`
            return any(type(one) is ast.Call for one in ast.walk(base))
        value, owner = _resolved(chain, scope)
        if value is _NOTHING:
            given = _is_local(chain[0], scope) and chain[0] not in ("self", "cls")
            return given or (owner is not None and len(chain) > 1)
        if is_module(value):
            # The values of one that the module imports count, see `_sets`.
            imported = len(chain) == 1 and not _is_local(chain[0], scope)
            return not imported and not is_users_module(value)
        if owner is not None:
            return True
        if _is_users(value) or type(value) is FunctionType:
            return False
        if issubclass(type(value), type) or _package(value) not in _PLAIN:
            return True
        return len(chain) == 1 and self._imported_from(chain[0], scope)

    def _imported_from(self, name: str, scope: Scope) -> bool:
        """Tell whether a name is what `from library import name` gave, or `library.name`."""
        module = scope
        if isinstance(scope, ChainMap):
            if _is_local(name, scope):
                return len(scope.maps) > 2 and name not in scope.maps[0]  # noqa: PLR2004
            module = scope.maps[-1]
        parsed = self._walk.sources.module(module)
        if parsed is None:
            return False
        for one in parsed.assignments.get(name, ()):
            chain = chain_of(one)
            if chain is not None and len(chain) > 1 and _resolved(chain, scope)[1] is not None:
                return True  # another name for it
        for one in parsed.imports:
            if isinstance(one, ast.ImportFrom) and not one.level:
                library = sys.modules.get(one.module or "")
                bound = any((each.asname or each.name) == name for each in one.names)
                if bound and is_module(library) and not is_users_module(library):
                    return True
        return False

    def hands_over(self, node: Any, scope: Scope) -> bool:
        """Tell whether code of the user's puts a function or class where others may find it."""
        alone: Any = type(node)(**{**vars(node), "body": []})
        used = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
        users = [_resolved(chain_of(one) or ("",), scope)[0] for one in used]
        alone.decorator_list = [
            one for one, by in zip(node.decorator_list, users, strict=True) if _is_users(by)
        ]
        return self._makes(alone, scope)

    def _makes(self, node: Any, scope: Scope) -> bool:
        """Tell whether a decorator, or a base of a class, changes what is not its own."""
        for one in node.decorator_list:
            chain = chain_of(one)
            if chain is None and isinstance(one, ast.Call):
                made, _ = _resolved(chain_of(one.func) or ("",), scope)
                if type(made) is FunctionType and is_users(made) and self._gives_loud(made):
                    return True
            if chain is not None:
                value, owner = _resolved(chain, scope)
                if (type(value) is FunctionType or is_users(value)) and self._is_loud(
                    value, owner, chain[-1], dropped=False
                ):
                    return True
        for one in getattr(node, "bases", ()):
            chain = chain_of(one)
            base: Any = _NOTHING if chain is None else _resolved(chain, scope)[0]
            if issubclass(type(base), type) and is_users(base):
                makers = [_in_class(base, "__init_subclass__"), _in_class(type(base), "__new__")]
                makers += [_in_class(type(base), "__init__")]
                for maker in makers:
                    made = getattr(maker, "__func__", maker)
                    if type(made) is FunctionType and is_users(made) and self._does(made):
                        return True
        return False


def _resolved(chain: tuple[str, ...], scope: Scope) -> tuple[Any, str | None]:
    """Return what a chain stands for, and the package whose own it is, if it is within one."""
    first, *rest = chain
    value = scope.get(first, vars(builtins).get(first, _NOTHING))
    owner: str | None = None
    for name in rest:
        if value is _NOTHING:
            break
        if is_module(value):
            if not is_users_module(value):
                owner = _root(text_at(value, "__name__"))
            value = names_of(value).get(name, _NOTHING)
        elif issubclass(type(value), type):
            cls, owner = value, owner if is_users(value) else owner or _package(value)
            value = _in_class(cls, name)
            value = _in_class(type(cls), name) if value is _NOTHING else value
        elif is_users(type(value)):
            held = attributes_of(value)
            value = held[name] if name in held else _in_class(type(value), name)
        else:
            return _NOTHING, owner or _package(value)
    if type(value) is FunctionType and is_users(value):
        owner = None
    return value, owner


def _imported_in(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a function imports when it is called: from libraries, and of the user's own."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for one in () if isinstance(function, ast.Lambda) else statements_in(function):
        if isinstance(one, (ast.Import, ast.ImportFrom)) and not getattr(one, "level", 0):
            for each in one.names:
                within = getattr(one, "module", None)
                path = within or (each.name if each.asname else each.name.partition(".")[0])
                module = sys.modules.get(path)
                if is_module(module):
                    value = names_of(module).get(each.name, _NOTHING) if within else module
                    bound = (each.asname or each.name).partition(".")[0]
                    found[is_users_module(module)][bound] = value
    return found


def _is_local(name: str, scope: Scope) -> bool:
    return isinstance(scope, ChainMap) and any(name in one for one in scope.maps[:2])


def _in_class(cls: type, name: str) -> Any:
    return next((held_by(one)[name] for one in bases_of(cls) if name in held_by(one)), _NOTHING)


def _returns_a_name(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Name)


def _text_in(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is str else ""


def _is_users(value: Any) -> bool:
    return is_users(value) or is_users(type(value))


def _package(value: Any) -> str:
    return _root(text_at(value, "__name__") if is_module(value) else module_name(value))


def _root(name: str | None) -> str:
    return (name or "builtins").partition(".")[0]


def _is_loud_package(package: str, name: str, *, dropped: bool) -> bool:
    if package == "builtins":
        return name in _BUILTINS
    if package in _PACKAGES:
        return re.match(_LOUD.get(package, r"set_|seed"), name) is not None
    if package in sys.stdlib_module_names:
        if package in _STANDARD:
            return re.match(_LOUD.get(package, r"(?!)"), name) is not None
        if dropped:
            return name not in _QUIET
        return name in _CONTEXTS or _CHANGING.match(name) is not None
    return True
