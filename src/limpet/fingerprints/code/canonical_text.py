"""Which text is the same for equivalent code?

The text lists the kinds and fields of the nodes of a syntax tree, without anything that differs
between versions of Python. A local is written as a number, so renaming it changes nothing. Which
names are locals is known at the end of their scope; until then their tokens are empty.
"""

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar

# ---- What does one pass over code collect? A text for its digest, and the names it uses. --------

Chain = tuple[str, ...]
"""A name with its attributes: `settings.model.name`."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTATION, SOURCE, FRAMES, SUBCLASSES = "documentation", "source", "frames", "subclasses"
NOTICED: dict[str, str] = dict.fromkeys(
    ["__doc__", "__annotations__", "getdoc", "get_type_hints", "get_annotations", "signature"],
    DOCUMENTATION,
)
NOTICED |= dict.fromkeys(["getsource", "getsourcelines", "getblock", "getcomments"], SOURCE)
NOTICED |= dict.fromkeys(["_getframe", "currentframe", "f_locals", "f_back"], FRAMES)
NOTICED |= {"__subclasses__": SUBCLASSES}
ENVIRONMENT = "environment"
NOTICED |= dict.fromkeys(["environ", "environb", "getenv", "getenvb", "expandvars"], ENVIRONMENT)
LOOKS = "looks"
NOTICED |= dict.fromkeys(["exists", "lexists", "isfile", "isdir", "is_file", "is_dir"], LOOKS)
NOTICED |= dict.fromkeys(["stat", "lstat", "getmtime", "getsize", "readlink", "access"], LOOKS)
"""Names that show which things code inspects."""


@dataclass(slots=True, eq=False)
class CodeSummary:
    """The result of one pass over code.

    Attributes:
        text: The canonical text of the code.
        chains: The globals it reads, with their attribute chains.
        handed: The chains that are passed on, not just called.
        imports: Its import statements, and calls that import by name.
        looked_up: Its lookups by name: the chain of the container, and the name as syntax.
        computes_names: Whether it may reach anything in its module by a computed name.
        notices: The things it inspects: docstrings, source, frames, subclasses.
        environment: How often it mentions the environment.
        free: The variables it closes over, numbered by first use.
    """

    text: str = ""
    chains: set[Chain] = field(default_factory=set)
    handed: set[Chain] = field(default_factory=set)
    imports: list[ast.AST] = field(default_factory=list)
    looked_up: list[tuple[Chain, ast.expr]] = field(default_factory=list)
    computes_names: bool = False
    notices: set[str] = field(default_factory=set)
    environment: int = 0
    free: dict[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """32 hex digits of the text."""
        return blake2b(self.text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def documentation_of(node: ast.AST) -> Any:
    """Return the docstring and type hints of a node; None if it has neither."""
    hints: list[Any] = []
    if isinstance(node, FUNCTIONS):
        hints = [
            [parameter.arg, ast.unparse(parameter.annotation)]
            for parameter in _parameters(node)
            if parameter.annotation is not None
        ]
        hints += [["return", ast.unparse(node.returns)]] if node.returns else []
    text = docstring(node)
    return [text, hints] if text is not None or hints else None


def fields_of(node: ast.AST) -> list[list[str]]:
    """Return the names and type hints in the body of a class."""
    return [[ast.unparse(field.target), ast.unparse(field.annotation)] for field in _fields(node)]


def _fields(node: ast.AST) -> list[ast.AnnAssign]:
    body = node.body if isinstance(node, ast.ClassDef) else []
    return [statement for statement in body if isinstance(statement, ast.AnnAssign)]


def hints_of(node: ast.AST) -> list[ast.expr]:
    """Return the type hints of a function, or those in the body of a class."""
    if not isinstance(node, FUNCTIONS):
        return [field.annotation for field in _fields(node)]
    hints = [
        parameter.annotation for parameter in _parameters(node) if parameter.annotation is not None
    ]
    return hints if node.returns is None else [*hints, node.returns]


def _parameters(node: Function) -> list[ast.arg]:
    args = node.args
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return named + [parameter for parameter in (args.vararg, args.kwarg) if parameter is not None]


def docstring(node: ast.AST) -> str | None:
    """Return the docstring of a node; None if there is none."""
    body = getattr(node, "body", None)
    if type(body) is list and body and type(body[0]) is ast.Expr:
        value = body[0].value
        if type(value) is ast.Constant and type(value.value) is str:
            return value.value
    return None


def chain_of(node: ast.AST) -> Chain | None:
    """Return `a.b.c` as a chain; None for anything else."""
    if type(node) is ast.Name:
        return (node.id,)
    names: list[str] = []
    while type(node) is ast.Attribute:
        names.append(node.attr)
        node = node.value
    if type(node) is not ast.Name:
        return None
    return (node.id, *reversed(names))


# ---- Which text is the same for equivalent code? ------------------------------------------------

_IGNORED = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
_READS_LOCALS = {"locals", "vars", "eval", "exec", "dir"}
COMPUTES_NAMES = {"globals", "eval", "exec", "vars", "compile"}
"""Functions that may reach anything in their caller's module."""

_Use = tuple[int, str, Chain | None, bool]
"""A name in the text: its token, the name, its attribute chain, and whether it is called."""


_position, _named = operator.itemgetter(0), operator.itemgetter(1)


@dataclass(slots=True, eq=False)
class Scope:
    """The names of a function, class or comprehension. Its bound names are known at its end."""

    kind: str
    parent: "Scope | None"
    bound: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)  # keeps its name: a parameter, an import
    defined: frozenset[str] = frozenset()  # bound by a def: keeps its name if it is passed on
    of_module: frozenset[str] = frozenset()  # declared global
    outer: frozenset[str] = frozenset()  # declared nonlocal
    uses: list[_Use] = field(default_factory=list)


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
        """Leave a scope, and write its bound names."""
        self.tokens.append("}")
        scope = self.scope
        assert scope.parent is not None
        self.scope = scope.parent
        named = scope.kind == "class" or not _READS_LOCALS.isdisjoint(map(_named, scope.uses))
        written: dict[str, str] = {}
        tokens, fixed, own = self.tokens, scope.fixed, scope.bound
        if scope.of_module or scope.outer:
            own = own - scope.of_module - scope.outer
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
                continue
            if name not in written:
                if named or name in fixed:
                    written[name] = name
                else:
                    written[name] = f"%{self._locals}"
                    self._locals += 1
            tokens[use[0]] = written[name]

    def finish(self, free: frozenset[str]) -> CodeSummary:
        """Write the remaining names, and return the summary."""
        found, tokens = self.found, self.tokens
        uses = self.scope.uses
        # Free variables are numbered by first use.
        for at, name, chain, called in sorted(uses, key=_position) if free else uses:
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


Handler = Callable[[Any, Any], None]
"""Writes a node. The first argument is a `NodeWriter`."""


class Handlers(dict[type[Any], Handler]):
    """How to write each kind of node. Without a handler, all its fields are written."""

    def __missing__(self, kind: type[Any]) -> Handler:
        handler = self[kind] = _by_fields(kind) if issubclass(kind, ast.AST) else _write_plain
        return handler


def _write_plain(writer: "NodeWriter", value: Any) -> None:
    writer.tokens.append(repr(value))


def _by_fields(kind: type[ast.AST]) -> Handler:
    # Sorted: the order differs between versions of Python.
    fields = [(name, f"{name}:") for name in sorted(set(kind._fields) - _IGNORED)]
    begin = f"{kind.__name__}:"

    def write(writer: NodeWriter, node: ast.AST) -> None:
        tokens = writer.tokens
        tokens.append(begin)
        for name, token in fields:
            value = getattr(node, name, None)
            if type(value) is list:
                if value:
                    tokens.append(token)
                    writer.write_all(value)
            elif value is not None:
                tokens.append(token)
                writer.visit(value)

    return write


class NodeWriter(Names):
    """Writes the nodes that are neither names nor scopes.

    The token of a node or field ends with a colon, so it differs from every name.

    Args:
        handlers: How to write each kind of node.
    """

    def __init__(self, handlers: Handlers) -> None:
        super().__init__()
        self._handlers = handlers

    def visit(self, node: Any) -> None:
        """Write a node and its children."""
        self._handlers[type(node)](self, node)

    def write_all(self, values: list[Any]) -> None:
        """Write several nodes."""
        tokens = self.tokens
        if not values:
            tokens += "[]"
            return
        tokens.append("[")
        handlers = self._handlers
        for value in values:
            handlers[type(value)](self, value)
        tokens.append("]")

    def _constant(self, node: ast.Constant) -> None:
        self.tokens.append(f"={type(node.value).__name__} {node.value!r}")

    def _pass(self, node: ast.Pass) -> None:
        """Write nothing: an empty body is equivalent."""

    def _operator(self, node: ast.AST) -> None:
        self.tokens.append(type(node).__name__)

    # ---- the most common nodes, without a loop over their fields --------------------------------

    def _assign(self, node: ast.Assign) -> None:
        self.tokens.append("Assign:")
        if len(node.targets) == 1:
            self.visit(node.targets[0])
        else:
            self.write_all(node.targets)
        self.visit(node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        self.tokens += ("AugAssign:", type(node.op).__name__)
        self.visit(node.target)
        self.visit(node.value)

    def _expression(self, node: ast.Expr) -> None:
        self.tokens.append("Expr:")
        self.visit(node.value)

    def _if(self, node: ast.If) -> None:
        self.tokens.append("If:")
        self.visit(node.test)
        self.write_all(node.body)
        if node.orelse:
            self.tokens.append("else:")
            self.write_all(node.orelse)

    def _for(self, node: ast.For) -> None:
        self.tokens.append("For:")
        self.visit(node.target)
        self.visit(node.iter)
        self.write_all(node.body)
        if node.orelse:
            self.tokens.append("else:")
            self.write_all(node.orelse)

    def _binary(self, node: ast.BinOp) -> None:
        self.tokens += ("BinOp:", type(node.op).__name__)
        self.visit(node.left)
        self.visit(node.right)

    def _tuple(self, node: ast.Tuple) -> None:
        self.tokens.append("Tuple:")
        self.write_all(node.elts)

    def _keyword(self, node: ast.keyword) -> None:
        self.tokens.append(f"{node.arg}=")  # `None=`: two stars
        self.visit(node.value)

    def _formatted(self, node: ast.FormattedValue) -> None:
        self.tokens.append(f"FormattedValue: {node.conversion}")
        if node.format_spec is not None:
            self.tokens.append("format_spec:")
            self.visit(node.format_spec)
        self.visit(node.value)

    def _joined(self, node: ast.JoinedStr) -> None:
        """Write an f-string; versions of Python split its text differently."""
        self.tokens.append("JoinedStr:")
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

    common: ClassVar[dict[type[Any], Handler]] = {
        ast.Constant: _constant,
        ast.Pass: _pass,
        **dict.fromkeys(
            [
                kind
                for family in (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
                for kind in family.__subclasses__()
            ],
            _operator,
        ),
        ast.Assign: _assign,
        ast.AugAssign: _augmented,
        ast.Expr: _expression,
        ast.If: _if,
        ast.For: _for,
        ast.BinOp: _binary,
        ast.Tuple: _tuple,
        ast.keyword: _keyword,
        ast.FormattedValue: _formatted,
        ast.JoinedStr: _joined,
    }
