"""How is code written down so that code that does the same gives the same text?

The text lists the kinds and fields of the nodes of a syntax tree, without anything that differs
between versions of Python. A local is written as a number, so renaming it changes nothing. Which
names are locals is known at the end of their scope: until then their places in the text are empty.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any, ClassVar

from limpet.fingerprints.code.summary import Chain, CodeSummary

_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_IGNORED = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
_OPERATORS = [
    kind
    for family in (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
    for kind in family.__subclasses__()
]
_READS_LOCALS = {"locals", "vars", "eval", "exec", "dir"}
COMPUTES_NAMES = {"globals", "eval", "exec", "vars", "compile"}
"""Functions that may reach anything in the module of their caller."""

_Use = tuple[int, str, Chain | None, bool]
"""A name in the text: its token, the name, its attribute chain, and whether it is called."""


_place = operator.itemgetter(0)


class Scope:
    """The names of a function, class or comprehension. Which ones it binds is known at its end."""

    __slots__ = ("bound", "defined", "fixed", "kind", "of_module", "outer", "parent", "uses")

    def __init__(self, kind: str, parent: "Scope | None") -> None:
        self.kind = kind
        self.parent = parent
        self.bound: set[str] = set()
        self.defined: set[str] = set()  # bound by a def: keeps its name if it is passed on
        self.fixed: set[str] = set()  # keeps its name: a parameter, an import
        self.of_module: set[str] = set()  # declared global
        self.outer: set[str] = set()  # declared nonlocal
        self.uses: list[_Use] = []


class Names:
    """The text of some code, and the names in it."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.found = CodeSummary()
        self.module = self.scope = Scope("module", None)
        self.returned: set[int] = set()  # the tokens of names that are returned
        self._locals = 0

    def use(self, name: str, chain: Chain | None, *, called: bool = False) -> None:
        """Write a name that is used, with its attribute chain."""
        self.scope.uses.append((len(self.tokens), name, chain, called))
        self.tokens.append("")

    def bind(self, name: str) -> None:
        """Write a name that is assigned here."""
        self.scope.bound.add(name)
        self.use(name, None)

    def enter(self, kind: str) -> None:
        """Enter a scope."""
        self.tokens.append("{")
        self.scope = Scope(kind, self.scope)

    def leave(self) -> None:
        """Leave a scope, and write the names that it binds."""
        self.tokens.append("}")
        scope = self.scope
        assert scope.parent is not None
        self.scope = scope.parent
        named = scope.kind == "class" or not _READS_LOCALS.isdisjoint(
            [use[1] for use in scope.uses]
        )
        numbers: dict[str, str] = {}
        tokens, fixed = self.tokens, scope.fixed
        own = scope.bound - scope.of_module - scope.outer
        if scope.defined:
            fixed |= {
                name
                for at, name, chain, called in scope.uses
                if name in scope.defined and chain and not called and at not in self.returned
            }
        for use in scope.uses:
            name = use[1]
            if name not in own:
                outer = self.module if name in scope.of_module else scope.parent
                outer.uses.append(use)
            elif named or name in fixed:
                tokens[use[0]] = name
            else:
                if name not in numbers:
                    numbers[name] = f"%{self._locals}"
                    self._locals += 1
                tokens[use[0]] = numbers[name]

    def finish(self, free: frozenset[str]) -> CodeSummary:
        """Write the remaining names, and return the summary."""
        found, tokens = self.found, self.tokens
        for at, name, chain, called in sorted(self.scope.uses, key=_place):
            if name in free:
                tokens[at] = f"^{found.free.setdefault(name, len(found.free))}"
                continue
            tokens[at] = name
            if chain is None:
                continue
            found.chains.add(chain)
            if not called:
                found.handed.add(chain)
            if name in COMPUTES_NAMES:
                found.computes_names = True
        found.text = "\x1f".join(tokens)
        return found


class Writer(Names):
    """Writes the nodes that are neither names nor scopes.

    Attributes:
        handlers: How to write nodes that are more than a list of fields.
    """

    def visit(self, node: Any) -> None:
        """Write a node and its children."""
        kind = type(node)
        handler = self.handlers.get(kind)
        if handler is not None:
            handler(self, node)
            return
        fields = _FIELDS.get(kind)
        if fields is None:
            # Sorted, because the order differs between versions of Python.
            fields = _FIELDS[kind] = tuple(sorted(set(kind._fields) - _IGNORED))
        tokens, handlers = self.tokens, self.handlers
        tokens.append(kind.__name__)
        for name in fields:
            value = getattr(node, name, None)
            handler = handlers.get(type(value))
            if handler is not None:
                tokens.append(name)
                handler(self, value)
            elif type(value) is list:
                if value:
                    tokens.append(name)
                    self.write_all(value)
            elif value is not None:
                tokens.append(name)
                if isinstance(value, ast.AST):
                    self.visit(value)
                else:
                    tokens.append(repr(value))

    def write_all(self, values: list[Any]) -> None:
        """Write several nodes."""
        tokens, handlers = self.tokens, self.handlers
        if not values:
            tokens += "[]"
            return
        tokens.append("[")
        for value in values:
            kind = type(value)
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, value)
            elif isinstance(value, ast.AST):
                if kind is not ast.Pass:
                    self.visit(value)
            else:  # None: the value of `{**others}`, a parameter without a default
                tokens.append(repr(value))
        tokens.append("]")

    def _constant(self, node: ast.Constant) -> None:
        self.tokens.append(f"={type(node.value).__name__} {node.value!r}")

    def _operator(self, node: ast.AST) -> None:
        self.tokens.append(type(node).__name__)

    def _joined(self, node: ast.JoinedStr) -> None:
        """Write an f-string; versions of Python cut its text in different places."""
        self.tokens.append("JoinedStr")
        text = ""
        for part in node.values:
            if type(part) is ast.Constant:
                text += str(part.value)
                continue
            if text:
                self.tokens.append(f"={text!r}")
                text = ""
            self.visit(part)
        if text:
            self.tokens.append(f"={text!r}")

    handlers: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        ast.Constant: _constant,
        ast.JoinedStr: _joined,
        **dict.fromkeys(_OPERATORS, _operator),
    }
