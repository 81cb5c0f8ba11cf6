"""What does code do, independent of its layout, and which names does it read?

A single pass over a syntax tree gives a `CodeSummary`: a text that is equal for equivalent code in
every version of Python, without comments, layout, type hints, docstrings and names of locals; and
the names that the code reads from its module.
"""

import ast
import contextlib
from typing import Any, ClassVar

from limpet.fingerprints.code.canonical_text import (
    ENVIRONMENT,
    FUNCTIONS,
    NOTICED,
    Chain,
    CodeSummary,
    Handler,
    Handlers,
    NodeWriter,
    chain_of,
    docstring,
)

_LOOKING_UP = {"get", "pop", "setdefault", "__getitem__", "getenv"}
_LOAD = ast.Load  # a global is read faster
_NAMING = (ast.Constant, ast.Name)
_IMPORTING = {"import_module", "__import__"}


def read(*nodes: ast.AST, hints: bool = False, free: frozenset[str] = frozenset()) -> CodeSummary:
    """Summarize code.

    Args:
        *nodes: Statements and expressions of one scope.
        hints: Whether to include type hints.
        free: Names that are locals of an enclosing function.
    """
    return _Reader(hints=hints).read(nodes, free)


def read_hints(hints: list[ast.expr]) -> CodeSummary:
    """Summarize type hints, including those written as strings."""
    return _Reader(hints=True).read_hints(hints)


def read_class_body(node: ast.ClassDef) -> CodeSummary:
    """Summarize a class statement without its methods.

    Its hints count if a decorator, a base or a metaclass may read them.
    """
    may_be_read = bool(node.decorator_list or node.bases or node.keywords)
    body = node.body[1:] if docstring(node) is not None else node.body
    body = [statement for statement in body if not isinstance(statement, FUNCTIONS)]
    return read(*node.decorator_list, *node.bases, *node.keywords, *body, hints=may_be_read)


class _Reader(NodeWriter):
    def __init__(self, *, hints: bool) -> None:
        super().__init__(_HANDLERS)
        self._hints = hints

    def read(self, nodes: tuple[ast.AST, ...], free: frozenset[str]) -> CodeSummary:
        for node in nodes:
            self.visit(node)
        return self.finish(free)

    def _name(self, node: ast.Name) -> None:
        if type(node.ctx) is _LOAD:
            self._notice(node.id)
            self.use(node.id, (node.id,))
        else:
            self.bind(node.id)

    def _attribute(self, node: ast.Attribute) -> None:
        # `x.y = 1` reads x, but does not pass it on.
        self._chain(node, called=type(node.ctx) is not _LOAD)

    def _chain(self, node: ast.Attribute, *, called: bool) -> Chain | None:
        chain = chain_of(node)
        if chain is None:
            self._notice(node.attr)
            self.tokens.append(f".{node.attr}")
            self.visit(node.value)
        else:
            self._notice(*chain[1:])
            self.tokens.append("." + ".".join(chain[1:]))
            self.use(chain[0], chain, called=called)
        return chain

    def _notice(self, *names: str) -> None:
        for name in names:
            if name in NOTICED:
                self.found.notices.add(NOTICED[name])
                self.found.environment += NOTICED[name] is ENVIRONMENT

    def _call(self, node: ast.Call) -> None:
        self.tokens.append("Call:")
        function, last = node.func, ""
        chain: Chain | None = None
        if type(function) is ast.Name:
            last = function.id
            chain = (last,)
            self._notice(last)
            self.use(last, chain, called=True)
        elif type(function) is ast.Attribute:
            last = function.attr
            chain = self._chain(function, called=True)
        else:
            self.visit(function)
        if last in _IMPORTING:
            self.found.imports.append(node)
        if chain and node.args and (type(node.args[0]) in _NAMING or last in _LOOKING_UP):
            self.found.looked_up.append((chain, node.args[0]))
        self.write_all(node.args)
        if node.keywords:  # each begins with its name
            self.write_all(node.keywords)

    def _subscript(self, node: ast.Subscript) -> None:
        self.tokens.append("Subscript:")
        if type(node.ctx) is _LOAD:
            self._looked_up(node.value, node.slice)
        self.visit(node.value)
        self.visit(node.slice)

    def _compare(self, node: ast.Compare) -> None:
        if type(node.ops[0]) in (ast.In, ast.NotIn):
            self._looked_up(node.comparators[0], node.left)
        # The number of operators comes first: `a < (b < c)` is not `a < b < c`.
        names = [type(op).__name__ for op in node.ops]
        self.tokens.append(f"Compare {' '.join(names)}:")
        self.visit(node.left)
        for right in node.comparators:
            self.visit(right)

    def _looked_up(self, where: ast.expr, name: ast.expr) -> None:
        chain = chain_of(where)
        if chain is not None:
            self.found.looked_up.append((chain, name))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.found.imports.append(node)
        self.tokens.append(f"import {getattr(node, 'level', 0)} {getattr(node, 'module', '')}")
        for alias in node.names:
            self.tokens.append(alias.name)
            if alias.asname is None:
                name = alias.name.partition(".")[0]
                self.scope.bound.add(name)
                self.scope.fixed.add(name)  # the name of the imported module
            else:
                self.tokens.append("as:")
                self.bind(alias.asname)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if self._hints and self.scope.kind != "function":
            self.tokens.append("AnnAssign:")
            self.visit(node.target)
            self.visit(node.annotation)
            self._hints_in_strings(node.annotation)
            if node.value is not None:
                self.visit(node.value)
        elif node.value is not None:
            self.tokens.append("Assign:")
            self.visit(node.target)
            self.visit(node.value)
        elif type(node.target) is ast.Name:
            self.scope.bound.add(node.target.id)

    def read_hints(self, hints: list[ast.expr]) -> CodeSummary:
        for hint in hints:
            self.visit(hint)
            self._hints_in_strings(hint)
        return self.finish(frozenset())

    def _hints_in_strings(self, hint: ast.expr) -> None:
        for node in ast.walk(hint):
            if type(node) is ast.Constant and type(node.value) is str:
                with contextlib.suppress(SyntaxError, ValueError):
                    self.visit(ast.parse(node.value, mode="eval").body)

    def _handler(self, node: ast.ExceptHandler) -> None:
        self.tokens.append("ExceptHandler:")
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            self.bind(node.name)
        self.write_all(node.body)

    def _match_name(self, node: Any) -> None:
        self.tokens.append(type(node).__name__)
        name = node.rest if type(node) is ast.MatchMapping else node.name
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        if name is not None:
            self.bind(name)

    def _return(self, node: ast.Return) -> None:
        self.tokens.append("Return:")
        if node.value is not None:
            if type(node.value) is ast.Name:
                self.returned.add(len(self.tokens))
            self.visit(node.value)

    def _global(self, node: ast.Global) -> None:
        self.tokens.append("Global:")
        self.scope.of_module |= {*node.names}
        for name in node.names:
            self.use(name, (name,), called=True)

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        self.tokens.append("Nonlocal:")
        self.scope.outer |= {*node.names}
        for name in node.names:
            self.use(name, None)

    # ---- scopes ---------------------------------------------------------------------------------

    def _function(self, node: Any) -> None:
        args = node.args
        if decorators := getattr(node, "decorator_list", None):
            self.tokens.append("decorator_list:")
            self.write_all(decorators)
        self.write_all(args.defaults)
        if args.kw_defaults:
            self.write_all(args.kw_defaults)
        self.tokens.append(type(node).__name__)
        if type(node) is not ast.Lambda:
            self.bind(node.name)
            if decorators:
                self.scope.fixed.add(node.name)
            else:
                self.scope.defined |= {node.name}
        self.enter("function")
        fixed = self.scope.fixed
        for kind, parameters in (
            ("(/", args.posonlyargs),
            ("(", args.args),
            ("(=", args.kwonlyargs),
            ("(*", [args.vararg] if args.vararg else ()),
            ("(**", [args.kwarg] if args.kwarg else ()),
        ):
            for parameter in parameters:
                self.tokens.append(kind + parameter.arg)
                fixed.add(parameter.arg)
        self.scope.bound |= fixed
        if type(node) is ast.Lambda:
            self.visit(node.body)
        else:
            self.write_all(node.body[1:] if docstring(node) is not None else node.body)
        self.leave()

    def _class(self, node: ast.ClassDef) -> None:
        self.write_all(node.decorator_list)
        self.write_all(node.bases)
        self.write_all(node.keywords)
        self.tokens.append("ClassDef")
        self.bind(node.name)
        may_be_read = bool(node.decorator_list or node.bases or node.keywords)
        if may_be_read:
            self.scope.fixed.add(node.name)
        else:
            self.scope.defined |= {node.name}
        self.enter("class")
        outer, self._hints = self._hints, may_be_read
        self.write_all(
            node.body[1:] if docstring(node) is not None and not self._hints else node.body
        )
        self._hints = outer
        self.leave()

    def _comprehension(self, node: Any) -> None:
        self.tokens.append(type(node).__name__)
        self.enter("comprehension")
        for generator in node.generators:
            self.tokens.append(f"for {generator.is_async}")
            self.visit(generator.target)
            self.visit(generator.iter)
            self.write_all(generator.ifs)
        if type(node) is ast.DictComp:
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self.leave()

    def _named(self, node: ast.NamedExpr) -> None:
        self.tokens.append("NamedExpr:")
        self.visit(node.value)
        scope = self.scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        scope.bound.add(node.target.id)
        self.use(node.target.id, None)

    handlers: ClassVar[dict[type[Any], Handler]] = {
        **NodeWriter.common,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Call: _call,
        ast.Subscript: _subscript,
        ast.Compare: _compare,
        ast.Import: _import,
        ast.ImportFrom: _import,
        ast.AnnAssign: _annotated,
        ast.ExceptHandler: _handler,
        **dict.fromkeys((ast.MatchAs, ast.MatchStar, ast.MatchMapping), _match_name),
        ast.Return: _return,
        ast.Global: _global,
        ast.Nonlocal: _nonlocal,
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda), _function),
        ast.ClassDef: _class,
        **dict.fromkeys((ast.ListComp, ast.SetComp), _comprehension),
        **dict.fromkeys((ast.DictComp, ast.GeneratorExp), _comprehension),
        ast.NamedExpr: _named,
    }


_HANDLERS = Handlers(_Reader.handlers)
