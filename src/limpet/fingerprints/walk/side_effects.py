"""Does code that runs once, at import or before a run, change what is not its own?

A call of a library's function may: `configure("m1")`. Which ones do nobody can tell, so all count
but those of packages that are known to change no answer. Making an object of a library's class
changes nothing else, unless nobody gets the object. A function of the user's is looked into.
"""

import ast
import functools
import sys
from collections import ChainMap
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.code.statements import executed
from limpet.fingerprints.code.summary import FUNCTIONS, chain_of
from limpet.fingerprints.walk import library_calls
from limpet.fingerprints.walk.name_lookup import (
    NOTHING,
    Scope,
    in_class,
    is_imported_in,
    is_local,
    is_users_own,
    package_of,
    resolved,
    scope_in,
)
from limpet.fingerprints.walk.ownership import is_module, is_users, is_users_module
from limpet.fingerprints.walk.safe_access import is_a
from limpet.fingerprints.walk.values import contents_of

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

_OF_CONTAINERS = {"append", "extend", "add", "update", "insert", "pop", "clear", "remove", "sort"}
_OF_CONTAINERS |= {"setdefault", "write", "close", "mkdir", "add_argument", "info", "debug"}
# They call what they are given.
_CALLING = {"map", "filter", "Thread", "Timer", "submit", "to_thread", "run_in_executor", "reduce"}
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
# Of these, attributes and elements are one's own.
_PLAIN = {"builtins", "argparse", "pandas", "numpy", "polars", "types", "collections", "logging"}


class SideEffects:
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
        for part in executed(node):
            if type(part) is ast.Expr:
                value = part.value.value if type(part.value) is ast.Await else part.value
                dropped.add(id(value))
            elif type(part) is ast.Call:
                if self._calls(part, scope, dropped=id(part) in dropped):
                    return True
            elif type(part) is ast.AugAssign and type(part.target) is ast.Name:
                name = part.target.id
                if is_a(scope.get(name), list, dict, set) and self._imported_from(name, scope):
                    return True
            elif isinstance(part, (ast.Attribute, ast.Subscript)):
                if type(part.ctx) is not ast.Load and self._stores(part, scope):
                    return True
            elif isinstance(part, _DEFINITIONS) and self._makes(part, scope):
                return True
        return False

    def _calls(self, call: ast.Call, scope: Scope, *, dropped: bool) -> bool:
        chain = chain_of(call.func)
        if chain is None:
            return self._calls_what_was_given(call.func, scope, dropped=dropped)
        value, owner = resolved(chain, scope)
        if owner == "builtins" and dropped and self._imported_from(chain[0], scope):
            return True  # an element is put into what is a library's
        if value is setattr or value is delattr:
            return bool(call.args) and self._sets_in(call.args[0], scope)
        if owner == "sys" and chain[-2] == "path":
            return False  # what is imported from there counts
        given_to = [*call.args, *(keyword.value for keyword in call.keywords)]
        texts = {text for argument in given_to if (text := _text_in(argument))}
        if chain[-1] == "setdefault" and any(map(self._walk.is_secret, texts)):
            return False
        if dropped and "error" in texts:
            return True  # warnings may become errors
        if chain[-1] in _CALLING and not is_users_own(value) and self._runs(given_to, scope):
            return True
        if dropped and len(chain) > 1 and chain[-1] not in _OF_CONTAINERS:
            passed = is_local(chain[0], scope) and chain[0] not in ("self", "cls")
            if passed and value is NOTHING and owner is None:
                return True  # a function calls a method of what it was given
        return self._is_loud(value, owner, chain[-1], dropped=dropped)

    def _sets_in(self, given: ast.expr, scope: Scope) -> bool:
        library = resolved(chain_of(given) or ("",), scope)[0]
        if is_module(library):
            return not is_users_module(library)
        return self._is_not_its_own(given, scope)

    def _runs(self, given: list[ast.expr], scope: Scope) -> bool:
        """SideEffects `map(f, …)`, `Thread(target=f)`: by what they call."""
        handed = [chain for chain in map(chain_of, given) if chain is not None]
        return any(
            self._is_loud(*resolved(chain, scope), chain[-1], dropped=True) for chain in handed
        )

    def _calls_what_was_given(self, function: ast.expr, scope: Scope, *, dropped: bool) -> bool:
        """SideEffects `Path(x).read_text()`: by what gave it."""
        if isinstance(function, ast.Lambda):
            return self._body(function, scope)
        if isinstance(function, ast.Subscript):  # `SET_UPS["dev"]()`
            held = contents_of(resolved(chain_of(function.value) or ("",), scope)[0])
            parts = [element[-1] if is_a(element, list) else element for element in held or ()]
            return any(type(part) is FunctionType and self._does(part) for part in parts)
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
                    return not is_users_own(value) and library_calls.is_loud(
                        package, name, dropped=dropped
                    )
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
        while type(value) is FunctionType and not is_users(value) and "__wrapped__" in vars(value):
            value, owner = vars(value)["__wrapped__"], None
        if value is NOTHING:
            return owner is not None and library_calls.is_loud(owner, name, dropped=dropped)
        if type(value) is FunctionType and is_users(value):
            return self._does(value)
        if issubclass(type(value), type):
            if is_users(value):
                return self._is_made_loudly(value)
            return dropped and library_calls.is_loud(package_of(value), name, dropped=dropped)
        if is_users(type(value)):
            call = in_class(type(value), "__call__")
            return type(call) is FunctionType and self._does(call)
        package = owner if owner is not None else package_of(value)
        return library_calls.is_loud(package, name, dropped=dropped)

    def _is_made_loudly(self, cls: type) -> bool:
        makers = [in_class(cls, name) for name in ("__init__", "__new__", "__post_init__")]
        makers += [in_class(type(cls), "__call__")]
        makers = [maker.__func__ if type(maker) is staticmethod else maker for maker in makers]
        return any(
            self._does(maker) for maker in makers if type(maker) is FunctionType and is_users(maker)
        )

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
        given = {statement.value.id for statement in body if _returns_a_name(statement)}
        inner = [
            statement
            for statement in body
            if isinstance(statement, FUNCTIONS) and statement.name in given
        ]
        return any(self._body(definition, function.__globals__) for definition in inner)

    def _body(self, node: Any, scope: Scope) -> bool:
        body = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        inner = {
            statement.name: statement for statement in body if isinstance(statement, FUNCTIONS)
        }
        given = node.args
        own = [parameter.arg for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        bound = scope_in(dict.fromkeys(own, NOTHING), node, scope)
        for statement in body:
            if self.changes(statement, bound):
                return True
            for call in ast.walk(statement) if inner else ():
                if type(call) is ast.Call and type(call.func) is ast.Name and call.func.id in inner:
                    body += inner.pop(call.func.id).body
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
            return any(type(part) is ast.Call for part in ast.walk(base))
        value, owner = resolved(chain, scope)
        if value is NOTHING:
            given = is_local(chain[0], scope) and chain[0] not in ("self", "cls")
            return given or (owner is not None and len(chain) > 1)
        if is_module(value):
            # The values of one that the module imports count, see `_sets`.
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
        """Tell whether a name is what `from library import name` gave, or `library.name`."""
        if is_local(name, scope):
            return is_imported_in(name, scope)
        module = scope
        while isinstance(module, ChainMap):
            module = module.maps[-1]
        parsed = self._walk.sources.module(module)
        if parsed is None:
            return False
        for assigned in parsed.assignments.get(name, ()):
            chain = chain_of(assigned)
            if chain is not None and len(chain) > 1 and resolved(chain, scope)[1] is not None:
                return True  # another name for it
        for made in parsed.imports:
            if isinstance(made, ast.ImportFrom) and not made.level:
                library = sys.modules.get(made.module or "")
                bound = any((alias.asname or alias.name) == name for alias in made.names)
                if bound and is_module(library) and not is_users_module(library):
                    return True
        return False

    def hands_over(self, node: Any, scope: Scope) -> bool:
        """Tell whether code of the user's puts a function or class where others may find it."""
        return self._makes(node, scope, by_users=True)

    def _makes(self, node: Any, scope: Scope, *, by_users: bool = False) -> bool:
        """Tell whether a decorator, or a base of a class, changes what is not its own."""
        for decorator in node.decorator_list:
            chain = chain_of(decorator.func if isinstance(decorator, ast.Call) else decorator)
            value, owner = resolved(chain or ("",), scope)
            if isinstance(decorator, ast.Call):
                if type(value) is FunctionType and is_users(value) and self._gives_loud(value):
                    return True
            elif (
                is_users(value) or (type(value) is FunctionType and not by_users)
            ) and self._is_loud(value, owner, (chain or ("",))[-1], dropped=False):
                return True
        for written in getattr(node, "bases", ()):
            chain = chain_of(written)
            base: Any = NOTHING if chain is None else resolved(chain, scope)[0]
            if issubclass(type(base), type) and is_users(base):
                makers = [in_class(base, "__init_subclass__"), in_class(type(base), "__new__")]
                makers += [in_class(type(base), "__init__")]
                for maker in makers:
                    made = getattr(maker, "__func__", maker)
                    if type(made) is FunctionType and is_users(made) and self._does(made):
                        return True
        return False


def _returns_a_name(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Name)


def _text_in(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is str else ""
