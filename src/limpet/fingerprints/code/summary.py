"""What one pass over code finds out: a text for its digest, and the names it uses."""

import ast
from hashlib import blake2b
from typing import Any

Chain = tuple[str, ...]
"""A name with the attributes that are read off it: `settings.model.name`."""

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
"""Names that show what code inspects."""


class CodeSummary:
    """What one pass over code finds out.

    Attributes:
        text: The canonical text of the code.
        chains: The globals it reads, with their attribute chains.
        handed: The chains that are passed on, not only called.
        imports: Its import statements, and calls that import by name.
        looked_up: Its lookups by name: the chain of the container, and the name as syntax.
        computes_names: Whether it may reach anything in its module by a computed name.
        notices: What it inspects: docstrings, source, frames, subclasses.
        environment: How often it mentions the environment.
        free: The variables it closes over, numbered by first use.
    """

    __slots__ = (
        "chains",
        "computes_names",
        "environment",
        "free",
        "handed",
        "imports",
        "looked_up",
        "notices",
        "text",
    )

    def __init__(self) -> None:
        self.text = ""
        self.chains: set[Chain] = set()
        self.handed: set[Chain] = set()
        self.imports: list[ast.AST] = []
        self.looked_up: list[tuple[Chain, ast.expr]] = []
        self.computes_names = False
        self.notices: set[str] = set()
        self.environment = 0
        self.free: dict[str, int] = {}

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
