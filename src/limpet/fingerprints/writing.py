"""How is code written so that the same code gives the same text?

Kinds and fields of nodes, one after the other; without what says nothing, and without what one
version of Python has and another has not.
"""

import ast
from collections.abc import Callable
from typing import Any, ClassVar

from limpet.fingerprints.binding import Names

_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_BESIDE = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
_OPERATORS = [
    kind
    for family in (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
    for kind in family.__subclasses__()
]


class Writer(Names):
    """Writes nodes that are neither names nor scopes.

    Attributes:
        handlers: How nodes are written that are no mere lists of fields.
    """

    def visit(self, node: Any) -> None:
        """Write a node and all in it."""
        kind = type(node)
        handler = self.handlers.get(kind)
        if handler is not None:
            handler(self, node)
            return
        fields = _FIELDS.get(kind)
        if fields is None:
            # Sorted: versions of Python differ in their order.
            fields = _FIELDS[kind] = tuple(sorted(set(kind._fields) - _BESIDE))
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
        for one in values:
            kind = type(one)
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, one)
            elif isinstance(one, ast.AST):
                if kind is not ast.Pass:
                    self.visit(one)
            else:  # None: the value of `{**others}`, a parameter without a default
                tokens.append(repr(one))
        tokens.append("]")

    def _constant(self, node: ast.Constant) -> None:
        self.tokens.append(f"={type(node.value).__name__} {node.value!r}")

    def _operator(self, node: ast.AST) -> None:
        self.tokens.append(type(node).__name__)

    def _joined(self, node: ast.JoinedStr) -> None:
        """Write an f-string; versions of Python cut its text in different places."""
        self.tokens.append("JoinedStr")
        text = ""
        for one in node.values:
            if type(one) is ast.Constant:
                text += str(one.value)
                continue
            if text:
                self.tokens.append(f"={text!r}")
                text = ""
            self.visit(one)
        if text:
            self.tokens.append(f"={text!r}")

    handlers: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        ast.Constant: _constant,
        ast.JoinedStr: _joined,
        **dict.fromkeys(_OPERATORS, _operator),
    }
