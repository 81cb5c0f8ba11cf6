"""What did a pass over code find, and small questions to syntax."""

import ast
from dataclasses import dataclass, field
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
"""Names that tell what code looks at."""


@dataclass(slots=True)
class CodeSummary:
    """What one pass over code found.

    Attributes:
        text: What it says.
        chains: What it reads from its module.
        handed: Those of them that are not only called: somebody else gets what they stand for.
        imports: Its import statements, and calls that import by name.
        looked_up: What it looks up by a name: an expression's chain, and the name as syntax.
        computes_names: It may reach anything in its module by a name nobody can read.
        notices: What it looks at that others do not: docstrings, source text, frames, subclasses.
        environment: How often it names the environment.
        free: What it closes over: by name, the place of its first use.
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
    """Return what a reader of `__doc__` and of the type hints would see; None if nothing."""
    hints: list[Any] = []
    if isinstance(node, FUNCTIONS):
        hints = [
            [parameter.arg, ast.unparse(parameter.annotation)]
            for parameter in _given(node)
            if parameter.annotation
        ]
        hints += [["return", ast.unparse(node.returns)]] if node.returns else []
    text = docstring(node)
    return [text, hints] if text is not None or hints else None


def hints_of(node: ast.AST) -> list[ast.expr]:
    """Return the hints of a function's parameters and of what it returns."""
    if not isinstance(node, FUNCTIONS):
        return []
    hints = [parameter.annotation for parameter in _given(node) if parameter.annotation is not None]
    return hints if node.returns is None else [*hints, node.returns]


def _given(node: Function) -> list[ast.arg]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return every + [parameter for parameter in (given.vararg, given.kwarg) if parameter is not None]


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
    if type(node) is ast.Name:
        return (node.id,)
    names: list[str] = []
    while type(node) is ast.Attribute:
        names.append(node.attr)
        node = node.value
    if type(node) is not ast.Name:
        return None
    return (node.id, *reversed(names))
