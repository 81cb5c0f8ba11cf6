"""Does code that runs once, at import or before a run, change others' objects?

A call of a library's function may: `configure("m1")`. All such calls count, except those of
packages known not to change answers. Creating an object of a library's class has no side effects
unless the object is discarded. The user's functions are checked line by line.
"""

import ast
import builtins
import functools
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

from limpet.fingerprints.code.canonical_text import FUNCTIONS, chain_of
from limpet.fingerprints.code.source import Sources
from limpet.fingerprints.code.statements import executed, imports_in, statements_in
from limpet.fingerprints.walk.ownership import is_module, is_users, is_users_module
from limpet.fingerprints.walk.safe_access import (
    attributes_of,
    class_dict,
    is_a,
    module_dict,
    module_name,
    mro_of,
    text_at,
)
from limpet.fingerprints.walk.values import contents_of
from limpet.secrets.known import is_secret_name

Scope = Mapping[str, Any]

# ---- Which object does a name in code refer to, and which package owns it? ----------------------

NOTHING: Any = object()
"""The object of an unknown name."""


def resolved(chain: tuple[str, ...], scope: Scope) -> tuple[Any, str | None]:
    """Return the object that a chain refers to, and the package that owns it, if any."""
    first, *rest = chain
    value = scope.get(first, vars(builtins).get(first, NOTHING))
    owner: str | None = None
    for name in rest:
        if value is NOTHING:
            break
        if is_module(value):
            if not is_users_module(value):
                owner = _root(text_at(value, "__name__"))
            value = module_dict(value).get(name, NOTHING)
        elif issubclass(type(value), type):
            cls, owner = value, owner if is_users(value) else owner or package_of(value)
            value = in_class(cls, name)
            value = in_class(type(cls), name) if value is NOTHING else value
        elif is_users(type(value)):
            held = attributes_of(value)
            value = held[name] if name in held else in_class(type(value), name)
        else:
            return NOTHING, owner or package_of(value)
    if is_users_function(value):
        owner = None
    return value, owner


def _imported_in(function: Any, package: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the imports of a function when it is called: of libraries, and of the user's."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for statement in () if isinstance(function, ast.Lambda) else statements_in(function):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        within = (
            next(imports_in([statement], package), "") if type(statement) is ast.ImportFrom else ""
        )
        for alias in statement.names:
            path = within or (alias.name if alias.asname else alias.name.partition(".")[0])
            module = sys.modules.get(path)
            if is_module(module):
                value = module_dict(module).get(alias.name, NOTHING) if within else module
                bound = (alias.asname or alias.name).partition(".")[0]
                found[is_users_module(module)][bound] = value
    return found


def is_local(name: str, scope: Scope) -> bool:
    """Return whether a name is local to a function."""
    return isinstance(scope, ChainMap) and any(name in names for names in scope.maps[:-1])


def is_imported_in(name: str, scope: Scope) -> bool:
    """Return whether a function imports a name from a library."""
    return isinstance(scope, ChainMap) and name not in scope.maps[0] and name in scope.maps[1]


def scope_in(own: dict[str, Any], function: Any, scope: Scope) -> ChainMap[str, Any]:
    """Return the names visible in a function: locals, its imports, globals."""
    libraries, users = _imported_in(function, scope.get("__package__"))
    own = {name: value for name, value in own.items() if name not in libraries}
    return ChainMap(own, libraries, users, scope)  # type: ignore[arg-type]


def in_class(cls: type, name: str) -> Any:
    """Return an attribute from a class or its bases; NOTHING if they lack it."""
    return next(
        (class_dict(base)[name] for base in mro_of(cls) if name in class_dict(base)), NOTHING
    )


def is_users_function(value: Any) -> bool:
    """Return whether an object is a user's function."""
    return type(value) is FunctionType and is_users(value)


def is_users_own(value: Any) -> bool:
    """Return whether an object or its class is the user's."""
    return is_users(value) or is_users(type(value))


def package_of(value: Any) -> str:
    """Return the top-level package of an object."""
    return _root(text_at(value, "__name__") if is_module(value) else module_name(value))


def _root(name: str | None) -> str:
    return (name or "builtins").partition(".")[0]


# ---- Which calls of libraries may have side effects that change later answers? ------------------
#
# All of them, except those known not to.

_US = __name__.partition(".")[0]
# Python's, even if the result is used: `old = locale.setlocale(…)`, `ok = random.seed(1)`.
_CHANGING = re.compile(
    r"set($|[_A-Z]|[a-z])|seed|register|patch|install|putenv|chdir|import_module"
)
# `getcontext().prec = 3` of decimal sets what it returns.
_CONTEXTS = {"getcontext", "localcontext"}
_BUILTINS = {"setattr", "delattr", "exec", "eval", "__import__"}
# Their calls affect answers only by their results.
_PACKAGES = {"numpy", "pandas", "polars", "pyarrow", "datasets", "yaml", "tqdm", "rich", "jinja2"}
_PACKAGES |= {"typer", "click", "fire", "dotenv", "structlog", "loguru", "pytest", "_pytest"}
_PACKAGES |= {"attr", "attrs", "pydantic", "pydantic_core", "tenacity", "wrapt", "tiktoken"}
_PACKAGES |= {"fastapi", "flask", "starlette", "mlflow", "wandb", "nest_asyncio", "uvloop"}
_PACKAGES |= {"typing_extensions", "colorama", _US}
# They only observe.
_PACKAGES |= {"opentelemetry", "openinference", "phoenix", "langfuse", "langsmith", "weave", "opik"}
_PACKAGES |= {"logfire", "traceloop", "agentops", "sentry_sdk", "ddtrace", "comet_ml", "icecream"}
# Their calls that do change answers: how numbers, tables and strings are read or written.
_EXCEPTIONS = {"numpy": r"set_|seterr|seed", "polars": r"set_|Config", "yaml": r"add_"}
_EXCEPTIONS |= {"wrapt": r"patch_|wrap_|register", "csv": r"register_|field_size_limit"}
_EXCEPTIONS |= dict.fromkeys(
    ["mlflow", "wandb", "sentry_sdk", "weave", "opentelemetry", _US], r"(?!)"
)
# Python's modules whose calls have no lasting effect on answers.
_STANDARD = {"argparse", "logging", "warnings", "time", "shutil", "pathlib", "json", "csv", "gc"}
_STANDARD |= {"asyncio", "atexit", "faulthandler", "tracemalloc", "pprint", "textwrap", "typing"}
_STANDARD |= {"_io", "io", "builtins", "collections", "dataclasses", "enum", "posixpath"}
_STANDARD |= {"_thread", "_asyncio", "_collections", "signal", "multiprocessing"}
# In its other modules: `os.makedirs`, `sys.exit`, `sys.stdout.reconfigure`.
_HARMLESS = {"makedirs", "mkdir", "exit", "sleep", "flush", "reconfigure"}


def has_side_effects(package: str, name: str, *, dropped: bool) -> bool:
    """Return whether a call may have side effects.

    Args:
        package: The top-level package of the function.
        name: The name of the function.
        dropped: Whether the return value is discarded.
    """
    if package == "builtins":
        return name in _BUILTINS
    if package in _PACKAGES:
        return re.match(_EXCEPTIONS.get(package, r"set_|seed"), name) is not None
    if package in sys.stdlib_module_names:
        if package in _STANDARD:
            return re.match(_EXCEPTIONS.get(package, r"(?!)"), name) is not None
        if dropped:
            return name not in _HARMLESS
        return package == "unittest" or name in _CONTEXTS or _CHANGING.match(name) is not None
    return True


# ---- Does code that runs once, at import or before a run, change others' objects? ---------------

# Methods of an argument of unknown type that is probably the script's own: a list, a parser.
_OF_CONTAINERS = {"append", "extend", "add", "update", "insert", "pop", "clear", "remove", "sort"}
_OF_CONTAINERS |= {"setdefault", "write", "close", "mkdir", "add_argument", "info", "debug"}
# They call their arguments.
_CALLING = {"map", "filter", "Thread", "Timer", "submit", "to_thread", "run_in_executor", "reduce"}
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
# Attributes and elements of objects of these packages belong to the user.
_PLAIN = {"builtins", "argparse", "pandas", "numpy", "polars", "types", "collections", "logging"}


class SideEffects:
    """Checks which code changes others' objects.

    Args:
        sources: The source files.
        is_elsewhere: Returns whether changes to a chain of names do not matter, or happen anyway;
            None: all changes matter.
    """

    def __init__(
        self, sources: Sources, is_elsewhere: Callable[[tuple[str, ...], Scope], bool] | None = None
    ) -> None:
        self._sources = sources
        self._is_elsewhere = is_elsewhere
        self._functions: dict[int, bool] = {}

    def changes(self, node: ast.AST, scope: Scope) -> bool:
        """Return whether running code changes others' objects."""
        dropped = set()
        for part in executed(node):
            if type(part) is ast.Expr:
                value = part.value.value if type(part.value) is ast.Await else part.value
                dropped.add(id(value))
            elif type(part) is ast.Call:
                if self._call_has_effects(part, scope, dropped=id(part) in dropped):
                    return True
            elif type(part) is ast.AugAssign and type(part.target) is ast.Name:
                name = part.target.id
                if is_a(scope.get(name), list, dict, set) and self._imported_from(name, scope):
                    return True
            elif isinstance(part, (ast.Attribute, ast.Subscript)):
                if type(part.ctx) is not ast.Load and self._store_has_effects(part, scope):
                    return True
            elif isinstance(part, _DEFINITIONS) and self._definition_has_effects(part, scope):
                return True
        return False

    def _call_has_effects(self, call: ast.Call, scope: Scope, *, dropped: bool) -> bool:
        chain = chain_of(call.func)
        if chain is None:
            return self._result_has_effects(call.func, scope, dropped=dropped)
        value, owner = resolved(chain, scope)
        known = self._known_effects(call, chain, value, scope)
        if known is not None:
            return known
        if owner == "builtins" and dropped and self._imported_from(chain[0], scope):
            return True  # adds an element to a library's object
        if owner == "sys" and chain[-2] == "path":
            return False  # modules imported from there count
        given_to = [*call.args, *(keyword.value for keyword in call.keywords)]
        texts = {text for argument in given_to if (text := _text_in(argument))}
        if chain[-1] == "setdefault" and any(map(is_secret_name, texts)):
            return False
        if dropped and "error" in texts:
            return True  # may turn warnings into errors
        if (
            chain[-1] in _CALLING
            and not is_users_own(value)
            and self._arguments_have_effects(given_to, scope)
        ):
            return True
        if dropped and len(chain) > 1 and chain[-1] not in _OF_CONTAINERS:
            passed = is_local(chain[0], scope) and chain[0] not in ("self", "cls")
            if passed and value is NOTHING and owner is None:
                return True  # calls a method of an argument
        return self._has_effects(value, owner, chain[-1], dropped=dropped)

    def _known_effects(
        self, call: ast.Call, chain: tuple[str, ...], value: Any, scope: Scope
    ) -> bool | None:
        """Return whether a call has side effects, if its name alone tells."""
        if self._is_elsewhere is not None and self._is_elsewhere(chain, scope):
            return False
        if value is setattr or value is delattr:
            return bool(call.args) and self._setattr_has_effects(call.args[0], scope)
        if value is eval and len(call.args) == 1 and (text := _text_in(call.args[0])):
            return self._text_has_effects(text, scope)
        return None

    def _text_has_effects(self, text: str, scope: Scope) -> bool:
        """Check `eval("1")` by its text; its result counts where it is used."""
        try:
            return self.changes(ast.parse(text.strip(), mode="eval").body, scope)
        except (SyntaxError, ValueError, RecursionError):
            return True

    def _setattr_has_effects(self, target: ast.expr, scope: Scope) -> bool:
        library = resolved(chain_of(target) or ("",), scope)[0]
        if is_module(library):
            return not is_users_module(library)
        return self._is_foreign(target, scope)

    def _arguments_have_effects(self, arguments: list[ast.expr], scope: Scope) -> bool:
        """Check `map(f, …)` and `Thread(target=f)` by the functions they call."""
        chains = [chain for chain in map(chain_of, arguments) if chain is not None]
        return any(
            self._has_effects(*resolved(chain, scope), chain[-1], dropped=True) for chain in chains
        )

    def _result_has_effects(self, function: ast.expr, scope: Scope, *, dropped: bool) -> bool:
        """Check `Path(x).read_text()` by the call that returned the object."""
        if isinstance(function, ast.Lambda):
            return self._body_has_effects(function, scope)
        if isinstance(function, ast.Subscript):  # `SET_UPS["dev"]()`
            held = contents_of(resolved(chain_of(function.value) or ("",), scope)[0])
            parts = [element[-1] if is_a(element, list) else element for element in held or ()]
            return any(
                type(part) is FunctionType and self._function_has_effects(part) for part in parts
            )
        name = function.attr if isinstance(function, ast.Attribute) else ""
        within: ast.AST = function
        while isinstance(within, (ast.Attribute, ast.Subscript, ast.Call)):
            if isinstance(within, ast.Call):
                chain = chain_of(within.func)
                if chain is not None:
                    value, owner = resolved(chain, scope)
                    if (value is getattr or value is vars) and within.args:
                        value, owner = resolved(chain_of(within.args[0]) or ("",), scope)
                        if is_module(value) and is_users_module(value):
                            return False
                    package = owner if owner is not None else package_of(value)
                    has_effects = has_side_effects(package, name, dropped=dropped)
                    return has_effects and not is_users_own(value)
                within = within.func
            else:
                within = within.value
        return False

    def _has_effects(self, value: Any, owner: str | None, name: str, *, dropped: bool) -> bool:
        while type(value) is functools.partial:
            value = value.func
        if type(value) is MethodType:
            value = value.__func__
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
        while type(value) is FunctionType and not is_users(value) and "__wrapped__" in vars(value):
            value, owner = vars(value)["__wrapped__"], None
        if value is NOTHING:
            return owner is not None and has_side_effects(owner, name, dropped=dropped)
        if is_users_function(value):
            return self._function_has_effects(value)
        if issubclass(type(value), type):
            if is_users(value):
                return self._creation_has_effects(value)
            return dropped and has_side_effects(package_of(value), name, dropped=dropped)
        if is_users(type(value)):
            call = in_class(type(value), "__call__")
            return type(call) is FunctionType and self._function_has_effects(call)
        package = owner if owner is not None else package_of(value)
        return has_side_effects(package, name, dropped=dropped)

    def _creation_has_effects(self, cls: type) -> bool:
        makers = [in_class(cls, name) for name in ("__init__", "__new__", "__post_init__")]
        makers += [in_class(type(cls), "__call__")]
        makers = [maker.__func__ if type(maker) is staticmethod else maker for maker in makers]
        return any(
            self._function_has_effects(maker) for maker in makers if is_users_function(maker)
        )

    def _function_has_effects(self, function: FunctionType) -> bool:
        """Return whether a user's function changes others' objects."""
        code = function.__code__
        if id(code) not in self._functions:
            self._functions[id(code)] = False  # until it is checked, for recursion
            node = self._sources.definition_of(code)
            # Generated, as by dataclasses.
            is_generated = node is None and code.co_filename.startswith("<")
            self._functions[id(code)] = not is_generated and (
                node is None or self._body_has_effects(node, function.__globals__)
            )
        return self._functions[id(code)]

    def _returns_effectful(self, function: FunctionType) -> bool:
        """Return whether a function returns an inner function that has side effects."""
        node = self._sources.definition_of(function.__code__)
        body: list[Any] = [] if node is None or isinstance(node, ast.Lambda) else node.body
        returned = {statement.value.id for statement in body if _returns_a_name(statement)}
        inner = [node for node in body if isinstance(node, FUNCTIONS) and node.name in returned]
        return any(self._body_has_effects(definition, function.__globals__) for definition in inner)

    def _body_has_effects(self, node: Any, scope: Scope) -> bool:
        body = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        inner = {node.name: node for node in body if isinstance(node, FUNCTIONS)}
        args = node.args
        own = [parameter.arg for parameter in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        bound = scope_in(dict.fromkeys(own, NOTHING), node, scope)
        for statement in body:
            if self.changes(statement, bound):
                return True
            for call in ast.walk(statement) if inner else ():
                if type(call) is ast.Call and type(call.func) is ast.Name and call.func.id in inner:
                    body += inner.pop(call.func.id).body
        return False

    def _store_has_effects(self, target: ast.Attribute | ast.Subscript, scope: Scope) -> bool:
        if is_secret_name(
            target.attr if isinstance(target, ast.Attribute) else _text_in(target.slice)
        ):
            return False
        chain = chain_of(target.value)
        if self._is_elsewhere is not None and chain and self._is_elsewhere(chain, scope):
            return False
        return self._is_foreign(target.value, scope)

    def _is_foreign(self, base: ast.expr, scope: Scope) -> bool:
        """Return whether a changed object may belong to a library."""
        while isinstance(base, ast.Subscript):
            base = base.value
        chain = chain_of(base)
        if chain is None:  # the result of a call: `getcontext().prec = 3`
            return any(type(part) is ast.Call for part in ast.walk(base))
        value, owner = resolved(chain, scope)
        if value is NOTHING:
            is_argument = is_local(chain[0], scope) and chain[0] not in ("self", "cls")
            return is_argument or (owner is not None and len(chain) > 1)
        if is_module(value):
            # Attributes of imported modules count anyway: see `import_effects`.
            imported = len(chain) == 1 and not is_local(chain[0], scope)
            return not imported and not is_users_module(value)
        if owner is not None:
            return True
        if is_users_own(value) or type(value) is FunctionType:
            return False
        if issubclass(type(value), type) or package_of(value) not in _PLAIN:
            return True
        return len(chain) == 1 and self._imported_from(chain[0], scope)

    def _imported_from(self, name: str, scope: Scope) -> bool:
        """Return whether a name comes from `from library import name` or `library.name`."""
        if is_local(name, scope):
            return is_imported_in(name, scope)
        module = scope
        while isinstance(module, ChainMap):
            module = module.maps[-1]
        parsed = self._sources.module(module)
        if parsed is None:
            return False
        for assigned in parsed.assignments.get(name, ()):
            chain = chain_of(assigned)
            if chain is not None and len(chain) > 1 and resolved(chain, scope)[1] is not None:
                return True  # an alias
        for statement in parsed.imports:
            if isinstance(statement, ast.ImportFrom) and not statement.level:
                library = sys.modules.get(statement.module or "")
                bound = any((alias.asname or alias.name) == name for alias in statement.names)
                if bound and is_module(library) and not is_users_module(library):
                    return True
        return False

    def registers(self, node: Any, scope: Scope) -> bool:
        """Return whether the user's code registers a function or class elsewhere."""
        return self._definition_has_effects(node, scope, by_users=True)

    def _definition_has_effects(self, node: Any, scope: Scope, *, by_users: bool = False) -> bool:
        """Return whether a decorator or a base class has side effects."""
        for decorator in node.decorator_list:
            chain = chain_of(decorator.func if isinstance(decorator, ast.Call) else decorator)
            value, owner = resolved(chain or ("",), scope)
            if isinstance(decorator, ast.Call):
                if is_users_function(value) and self._returns_effectful(value):
                    return True
            elif (
                is_users(value) or (type(value) is FunctionType and not by_users)
            ) and self._has_effects(value, owner, (chain or ("",))[-1], dropped=False):
                return True
        for written in getattr(node, "bases", ()):
            chain = chain_of(written)
            base: Any = NOTHING if chain is None else resolved(chain, scope)[0]
            if issubclass(type(base), type) and is_users(base):
                makers = [in_class(base, "__init_subclass__"), in_class(type(base), "__new__")]
                makers += [in_class(type(base), "__init__")]
                for maker in makers:
                    function = getattr(maker, "__func__", maker)
                    if is_users_function(function) and self._function_has_effects(function):
                        return True
        return False


def _returns_a_name(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Name)


def _text_in(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is str else ""
