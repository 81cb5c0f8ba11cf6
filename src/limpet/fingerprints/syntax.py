"""What does code say, whatever it looks like, and which names does it read?

One pass over a syntax tree. It gives a text that is equal for code that does the same: without
comments and layout, type hints, docstrings and the names of locals, and under every version of
Python; and, from the same pass, what the code reads from its module.
"""

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

Chain = tuple[str, ...]
"""A name with the attributes that are read off it: `settings.model.name`."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BESIDE = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
_READS_LOCALS = {"locals", "vars", "eval", "exec", "dir"}
_COMPUTES_NAMES = {"globals", "eval", "exec", "vars", "compile"}
DOCUMENTATION, SOURCE, FRAMES, SUBCLASSES = "documentation", "source", "frames", "subclasses"
_NOTICED = dict.fromkeys(
    ["__doc__", "__annotations__", "getdoc", "get_type_hints", "get_annotations", "signature"],
    DOCUMENTATION,
)
_NOTICED |= dict.fromkeys(["getsource", "getsourcelines", "getblock", "getcomments"], SOURCE)
_NOTICED |= dict.fromkeys(["_getframe", "currentframe", "f_locals", "f_back"], FRAMES)
_NOTICED |= {"__subclasses__": SUBCLASSES}
_LOOKING_UP = {"get", "pop", "setdefault", "__getitem__", "getenv"}
_IMPORTING = {"import_module", "__import__"}


@dataclass(slots=True)
class Reading:
    """What one pass over code found.

    Attributes:
        text: What it says.
        chains: What it reads from its module.
        handed: Those of them that are not only called: somebody else gets what they stand for.
        imports: Its import statements, and calls that import by name.
        looked_up: What it looks up by a name: an expression's chain, and the name as syntax.
        computes_names: It may reach anything in its module by a name nobody can read.
        notices: What it looks at that others do not: docstrings, source text, frames, subclasses.
        free: What it closes over: by name, the place of its first use.
    """

    text: str = ""
    chains: set[Chain] = field(default_factory=set)
    handed: set[Chain] = field(default_factory=set)
    imports: list[ast.AST] = field(default_factory=list)
    looked_up: list[tuple[Chain, ast.expr]] = field(default_factory=list)
    computes_names: bool = False
    notices: set[str] = field(default_factory=set)
    free: dict[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """32 hex digits of the text."""
        return blake2b(self.text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def read(*nodes: ast.AST, hints: bool = False, free: frozenset[str] = frozenset()) -> Reading:
    """Read code.

    Args:
        *nodes: Statements and expressions of one scope.
        hints: Whether type hints count.
        free: Names that are locals of a function around it.
    """
    return _Reader(hints=hints).read(nodes, free)


def read_class_body(node: ast.ClassDef) -> Reading:
    """Read a class statement but for its methods.

    Hints in it count where somebody may read them: a decorator, a base or a metaclass.
    """
    received = bool(node.decorator_list or node.bases or node.keywords)
    body = node.body[1:] if docstring(node) is not None else node.body
    body = [one for one in body if not isinstance(one, FUNCTIONS)]
    return read(*node.decorator_list, *node.bases, *node.keywords, *body, hints=received)


def documentation_of(node: ast.AST) -> Any:
    """Return what a reader of `__doc__` and of the type hints would see; None if nothing."""
    hints: list[Any] = []
    if isinstance(node, FUNCTIONS):
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        every += [one for one in (given.vararg, given.kwarg) if one is not None]
        hints = [[one.arg, ast.unparse(one.annotation)] for one in every if one.annotation]
        hints += [["return", ast.unparse(node.returns)]] if node.returns else []
    text = docstring(node)
    return [text, hints] if text is not None or hints else None


def docstring(node: ast.AST) -> str | None:
    """Return a docstring as it stands in the syntax; None if there is none."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and type(body[0]) is ast.Expr:
        value = body[0].value
        if type(value) is ast.Constant and type(value.value) is str:
            return value.value
    return None


def chain_of(node: ast.AST) -> Chain | None:
    """Return `a.b.c` as a chain; None for anything else."""
    names: list[str] = []
    while type(node) is ast.Attribute:
        names.append(node.attr)
        node = node.value
    if type(node) is not ast.Name:
        return None
    return (node.id, *reversed(names))


_Use = tuple[int, str, Chain | None, bool]
"""A name in the text: at which token, which name, what is read off it, whether it is called."""


_place = operator.itemgetter(0)


class _Scope:
    """Names in one function, class or comprehension: who binds them is known at its end."""

    __slots__ = ("bound", "fixed", "kind", "of_module", "outer", "parent", "uses")

    def __init__(self, kind: str, parent: "_Scope | None") -> None:
        self.kind = kind
        self.parent = parent
        self.bound: set[str] = set()
        self.fixed: set[str] = set()  # bound, and keeps its name: a parameter, an import
        self.of_module: set[str] = set()  # declared global
        self.outer: set[str] = set()  # declared nonlocal
        self.uses: list[_Use] = []


class _Reader:
    def __init__(self, *, hints: bool) -> None:
        self._hints = hints
        self._tokens: list[str] = []
        self._locals = 0
        self._found = Reading()
        self._module = self._scope = _Scope("module", None)

    def read(self, nodes: tuple[ast.AST, ...], free: frozenset[str]) -> Reading:
        for node in nodes:
            self._visit(node)
        found, tokens = self._found, self._tokens
        for at, name, chain, called in sorted(self._scope.uses, key=_place):
            if name in free:
                tokens[at] = f"^{found.free.setdefault(name, len(found.free))}"
                continue
            tokens[at] = name
            if chain is None:
                continue
            found.chains.add(chain)
            if not called:
                found.handed.add(chain)
            if name in _COMPUTES_NAMES:
                found.computes_names = True
        found.text = "\x1f".join(tokens)
        return found

    # ---- nodes ----------------------------------------------------------------------------------

    def _visit(self, node: Any) -> None:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node)
            return
        kind = type(node)
        fields = _FIELDS.get(kind)
        if fields is None:
            # Sorted: versions of Python differ in their order.
            fields = _FIELDS[kind] = tuple(sorted(set(kind._fields) - _BESIDE))
        self._tokens.append(kind.__name__)
        for name in fields:
            value = getattr(node, name, None)
            if value is None or value == []:
                continue
            self._tokens.append(name)
            self._value(value)

    def _value(self, value: Any) -> None:
        if type(value) is list:
            self._tokens.append("[")
            for one in value:
                if type(one) is not ast.Pass:
                    self._value(one)
            self._tokens.append("]")
        elif isinstance(value, ast.AST):
            self._visit(value)
        else:
            self._tokens.append(repr(value))

    def _constant(self, node: ast.Constant) -> None:
        self._tokens.append(f"={type(node.value).__name__} {node.value!r}")

    def _name(self, node: ast.Name, *, called: bool = False) -> None:
        if type(node.ctx) is ast.Load:
            if node.id in _NOTICED:
                self._found.notices.add(_NOTICED[node.id])
            self._use(node.id, (node.id,), called=called)
        else:
            self._bind(node.id)

    def _use(self, name: str, chain: Chain | None, *, called: bool = False) -> None:
        self._scope.uses.append((len(self._tokens), name, chain, called))
        self._tokens.append("")

    def _bind(self, name: str) -> None:
        self._scope.bound.add(name)
        self._use(name, None)

    def _attribute(self, node: ast.Attribute, *, called: bool = False) -> None:
        if node.attr in _NOTICED:
            self._found.notices.add(_NOTICED[node.attr])
        chain = chain_of(node)
        if chain is None:
            self._tokens.append(f".{node.attr}")
            self._visit(node.value)
        else:
            self._tokens.append("." + ".".join(chain[1:]))
            for name in chain[1:-1]:
                if name in _NOTICED:
                    self._found.notices.add(_NOTICED[name])
            # Writing `x.y = 1` reads x, and hands it to nobody.
            self._use(chain[0], chain, called=called or type(node.ctx) is not ast.Load)

    def _call(self, node: ast.Call) -> None:
        self._tokens.append("Call")
        function = node.func
        if type(function) is ast.Name:
            if function.id in _IMPORTING:
                self._found.imports.append(node)
            self._name(function, called=True)
        elif type(function) is ast.Attribute:
            if function.attr in _IMPORTING:
                self._found.imports.append(node)
            self._attribute(function, called=True)
        else:
            self._visit(function)
        if node.args and (
            type(node.args[0]) in (ast.Constant, ast.Name)
            or getattr(function, "attr", getattr(function, "id", "")) in _LOOKING_UP
        ):
            self._looked_up(function, node.args[0])
        self._value(node.args)
        self._value(node.keywords)

    def _subscript(self, node: ast.Subscript) -> None:
        self._tokens.append("Subscript")
        if type(node.ctx) is ast.Load:
            self._looked_up(node.value, node.slice)
        self._visit(node.value)
        self._visit(node.slice)

    def _compare(self, node: ast.Compare) -> None:
        if type(node.ops[0]) in (ast.In, ast.NotIn):
            self._looked_up(node.comparators[0], node.left)
        self._tokens.append("Compare")
        self._visit(node.left)
        self._value(node.ops)
        self._value(node.comparators)

    def _looked_up(self, where: ast.expr, name: ast.expr) -> None:
        chain = chain_of(where)
        if chain is not None:
            self._found.looked_up.append((chain, name))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        self._found.imports.append(node)
        self._tokens.append(f"import {getattr(node, 'level', 0)} {getattr(node, 'module', '')}")
        for one in node.names:
            self._tokens.append(one.name)
            if one.asname is None:
                name = one.name.partition(".")[0]
                self._scope.bound.add(name)
                self._scope.fixed.add(name)  # it names what is imported
            else:
                self._bind(one.asname)

    def _joined(self, node: ast.JoinedStr) -> None:
        """Write an f-string; versions of Python cut its text in different places."""
        self._tokens.append("JoinedStr")
        text = ""
        for one in node.values:
            if type(one) is ast.Constant:
                text += one.value
                continue
            if text:
                self._tokens.append(f"={text!r}")
                text = ""
            self._visit(one)
        if text:
            self._tokens.append(f"={text!r}")

    def _annotated(self, node: ast.AnnAssign) -> None:
        if self._hints and self._scope.kind != "function":
            self._tokens.append("AnnAssign")
            self._visit(node.target)
            self._visit(node.annotation)
            if node.value is not None:
                self._visit(node.value)
        elif node.value is not None:
            self._tokens += ("Assign", "targets", "[")
            self._visit(node.target)
            self._tokens += ("]", "value")
            self._visit(node.value)
        elif type(node.target) is ast.Name:
            self._scope.bound.add(node.target.id)

    def _handler(self, node: ast.ExceptHandler) -> None:
        self._tokens.append("ExceptHandler")
        if node.type is not None:
            self._visit(node.type)
        if node.name is not None:
            self._bind(node.name)
        self._value(node.body)

    def _match_name(self, node: Any) -> None:
        self._tokens.append(type(node).__name__)
        name = node.rest if type(node) is ast.MatchMapping else node.name
        for child in ast.iter_child_nodes(node):
            self._visit(child)
        if name is not None:
            self._bind(name)

    def _global(self, node: ast.Global) -> None:
        self._scope.of_module.update(node.names)
        for name in node.names:
            self._use(name, (name,), called=True)

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        self._scope.outer.update(node.names)
        for name in node.names:
            self._use(name, None)

    # ---- scopes ---------------------------------------------------------------------------------

    def _function(self, node: Any) -> None:
        self._value(getattr(node, "decorator_list", []))
        given = node.args
        self._value(given.defaults)
        self._value(given.kw_defaults)
        is_lambda = type(node) is ast.Lambda
        self._tokens.append(type(node).__name__)
        if not is_lambda:
            self._bind(node.name)
        self._enter("function")
        for kind, found in (
            ("/", given.posonlyargs),
            ("", given.args),
            ("*", [given.vararg]),
            ("=", given.kwonlyargs),
            ("**", [given.kwarg]),
        ):
            for one in found:
                if one is not None:
                    self._tokens.append(f"({kind}{one.arg}")
                    self._scope.bound.add(one.arg)
                    self._scope.fixed.add(one.arg)
        if is_lambda:
            self._visit(node.body)
        else:
            self._value(node.body[1:] if docstring(node) is not None else node.body)
        self._leave()

    def _class(self, node: ast.ClassDef) -> None:
        self._value(node.decorator_list)
        self._value(node.bases)
        self._value(node.keywords)
        self._tokens.append("ClassDef")
        self._bind(node.name)
        self._enter("class")
        outer, self._hints = self._hints, bool(node.decorator_list or node.bases or node.keywords)
        self._value(node.body[1:] if docstring(node) is not None and not self._hints else node.body)
        self._hints = outer
        self._leave()

    def _comprehension(self, node: Any) -> None:
        self._tokens.append(type(node).__name__)
        self._enter("comprehension")
        for one in node.generators:
            self._tokens.append(f"for {one.is_async}")
            self._visit(one.target)
            self._visit(one.iter)
            self._value(one.ifs)
        if type(node) is ast.DictComp:
            self._visit(node.key)
            self._visit(node.value)
        else:
            self._visit(node.elt)
        self._leave()

    def _named(self, node: ast.NamedExpr) -> None:
        self._tokens.append("NamedExpr")
        self._visit(node.value)
        scope = self._scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        scope.bound.add(node.target.id)
        self._use(node.target.id, None)

    def _enter(self, kind: str) -> None:
        self._tokens.append("{")
        self._scope = _Scope(kind, self._scope)

    def _leave(self) -> None:
        self._tokens.append("}")
        scope = self._scope
        assert scope.parent is not None
        self._scope = scope.parent
        named = scope.kind == "class" or any(use[1] in _READS_LOCALS for use in scope.uses)
        numbers: dict[str, str] = {}
        for use in scope.uses:
            at, name, _, _ = use
            if name in scope.of_module:
                self._module.uses.append(use)
            elif name in scope.outer or name not in scope.bound:
                scope.parent.uses.append(use)
            elif named or name in scope.fixed:
                self._tokens[at] = name
            else:
                if name not in numbers:
                    numbers[name] = f"%{self._locals}"
                    self._locals += 1
                self._tokens[at] = numbers[name]


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_HANDLERS: dict[type[Any], Callable[[_Reader, Any], None]] = {
    ast.Constant: _Reader._constant,  # noqa: SLF001 - its own table
    ast.Name: _Reader._name,
    ast.Attribute: _Reader._attribute,
    ast.Call: _Reader._call,
    ast.Subscript: _Reader._subscript,
    ast.Compare: _Reader._compare,
    ast.Import: _Reader._import,
    ast.ImportFrom: _Reader._import,
    ast.JoinedStr: _Reader._joined,
    ast.AnnAssign: _Reader._annotated,
    ast.ExceptHandler: _Reader._handler,
    ast.MatchAs: _Reader._match_name,
    ast.MatchStar: _Reader._match_name,
    ast.MatchMapping: _Reader._match_name,
    ast.Global: _Reader._global,
    ast.Nonlocal: _Reader._nonlocal,
    ast.FunctionDef: _Reader._function,
    ast.AsyncFunctionDef: _Reader._function,
    ast.Lambda: _Reader._function,
    ast.ClassDef: _Reader._class,
    ast.ListComp: _Reader._comprehension,
    ast.SetComp: _Reader._comprehension,
    ast.DictComp: _Reader._comprehension,
    ast.GeneratorExp: _Reader._comprehension,
    ast.NamedExpr: _Reader._named,
}
