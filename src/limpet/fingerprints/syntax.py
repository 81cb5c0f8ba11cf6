"""What does code say, whatever it looks like?

A syntax tree as plain data, in a form that is the same for code that does the same: without
comments and layout, type hints, docstrings and the names of locals, and under every version of
Python. Where a hint or a docstring may be read by somebody, `documentation_of` has it.
"""

import ast
from collections.abc import Iterator
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_READS_LOCALS = {"locals", "vars", "eval", "exec", "dir"}
_BESIDE = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
Names = dict[str, str]


def normalised(node: ast.AST) -> Any:
    """Return a tree as plain data: equal for code that does the same."""
    return _Form(_reads_its_locals(node)).of(node, {})


def body_of_class(node: ast.ClassDef) -> Any:
    """Return what a class statement says, but for its methods.

    Hints in it count where somebody may read them: a decorator, a base or a metaclass.
    """
    read = bool(node.decorator_list or node.bases or node.keywords)
    body = [one for one in node.body if not isinstance(one, Function)]
    body = body[1:] if _docstring(node) is not None and body else body
    form = _Form(plain=True, hints=read)
    head = [form.of(one, {}) for one in (*node.decorator_list, *node.bases, *node.keywords)]
    return [head, [form.of(one, {}) for one in body if _does_something(one, hints=read)]]


def documentation_of(node: ast.AST) -> Any:
    """Return what a reader of `__doc__` and of the type hints would see; None if nothing."""
    hints: list[Any] = []
    if isinstance(node, Function):
        every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        every += tuple(one for one in (node.args.vararg, node.args.kwarg) if one is not None)
        hints = [[one.arg, ast.unparse(one.annotation)] for one in every if one.annotation]
        hints += [["return", ast.unparse(node.returns)]] if node.returns else []
    text = _docstring(node)
    return [text, hints] if text is not None or hints else None


def _docstring(node: ast.AST) -> str | None:
    if isinstance(node, (*Function.__args__, ast.ClassDef, ast.Module)):
        match node.body:
            case [ast.Expr(value=ast.Constant(value=str() as text)), *_]:
                return text
    return None


def _does_something(node: ast.AST, *, hints: bool) -> bool:
    return hints or not (isinstance(node, ast.AnnAssign) and node.value is None)


class _Form:
    """Turns a tree into plain data.

    Args:
        plain: Leave the names of locals as they are: something reads them.
        hints: Keep type hints.
    """

    def __init__(self, plain: bool, *, hints: bool = False) -> None:  # noqa: FBT001 - private
        self._plain = plain
        self._hints = hints
        self._locals = 0

    def of(self, node: Any, names: Names) -> Any:
        if isinstance(node, list):
            return [self.of(one, names) for one in node]
        if not isinstance(node, ast.AST):
            return node if node is None or isinstance(node, (str, int)) else repr(node)
        if isinstance(node, ast.Constant):
            return ["Constant", type(node.value).__name__, repr(node.value)]
        if isinstance(node, ast.Name):
            return ["Name", names.get(node.id, node.id)]
        if isinstance(node, ast.JoinedStr):
            return ["JoinedStr", self._pieces(node, names)]
        if isinstance(node, ast.AnnAssign) and not self._hints:
            value = node.value
            return ["Pass"] if value is None else self._fields(ast.Assign([node.target], value), names)
        if isinstance(node, _SCOPES):
            return self._function(node, names)
        if isinstance(node, _COMPREHENSIONS):
            return self._fields(node, names | self._fresh(_targets(node)))
        return self._fields(node, names)

    def _fields(self, node: ast.AST, names: Names) -> list[Any]:
        form: list[Any] = [type(node).__name__]
        for field in sorted(node._fields):  # versions of Python differ in their order
            value = getattr(node, field, None)
            if field in _BESIDE or value is None or value == []:
                continue
            if field in _BINDING.get(type(node), ()):
                bound = value if isinstance(value, list) else [value]
                form.append([field, [names.get(one, one) for one in bound]])
            else:
                form.append([field, self.of(value, names)])
        return form

    def _function(self, node: Any, names: Names) -> list[Any]:
        outside = [self.of(one, names) for one in getattr(node, "decorator_list", [])]
        arguments = node.args
        defaults = [self.of(one, names) for one in (arguments.defaults, arguments.kw_defaults)]
        given = [
            [kind, [one.arg for one in found]]
            for kind, found in (
                ("posonly", arguments.posonlyargs),
                ("args", arguments.args),
                ("vararg", [arguments.vararg] if arguments.vararg else []),
                ("kwonly", arguments.kwonlyargs),
                ("kwarg", [arguments.kwarg] if arguments.kwarg else []),
            )
        ]
        parameters = [name for _, found in given for name in found]
        inner = names | {name: name for name in parameters}
        body = node.body
        if isinstance(node, Function):
            bound, declared = _bound_in(node)
            inner |= {name: name for name in declared["global"]}
            inner |= self._fresh([n for n in bound if n not in {*parameters, *declared["global"], *declared["nonlocal"]}])
            body = body[1:] if _docstring(node) is not None else body
            body = [one for one in body if _does_something(one, hints=False)] or [ast.Pass()]
        name = names.get(node.name, node.name) if isinstance(node, Function) else "<lambda>"
        return [type(node).__name__, name, outside, given, defaults, self.of(body, inner)]

    def _fresh(self, bound: list[str]) -> Names:
        if self._plain:
            return {name: name for name in bound}
        fresh = {}
        for name in bound:
            fresh[name] = f"%{self._locals}"
            self._locals += 1
        return fresh

    def _pieces(self, node: ast.JoinedStr, names: Names) -> list[Any]:
        """Return an f-string's parts; versions of Python cut its text in different places."""
        pieces: list[Any] = []
        for one in node.values:
            if isinstance(one, ast.Constant):
                if pieces and isinstance(pieces[-1], str):
                    pieces[-1] += one.value
                elif one.value:
                    pieces.append(one.value)
            else:
                pieces.append(self.of(one, names))
        return pieces


_BINDING: dict[type[ast.AST], tuple[str, ...]] = {
    ast.ExceptHandler: ("name",),
    ast.Nonlocal: ("names",),
    ast.Global: ("names",),
    ast.MatchAs: ("name",),
    ast.MatchStar: ("name",),
    ast.MatchMapping: ("rest",),
    ast.ClassDef: ("name",),
    ast.alias: ("asname",),
}


def _bound_in(function: Function) -> tuple[list[str], dict[str, set[str]]]:
    """Return the names a function binds, in the order of the text, and those it declares."""
    bound: dict[str, None] = {}
    declared: dict[str, set[str]] = {"global": set(), "nonlocal": set()}
    for node in _own_nodes(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound[name] = None
            case ast.Global(names=names):
                declared["global"].update(names)
            case ast.Nonlocal(names=names):
                declared["nonlocal"].update(names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound[name] = None
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                bound[name] = None
            case ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
                bound[name] = None
            case ast.alias(name=name, asname=None):
                # `import x` names a module: a rename would be another module.
                declared["global"].add(name.partition(".")[0])
            case ast.alias(asname=str() as name):
                bound[name] = None
    return list(bound), declared


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield what stands in a function's own scope."""
    todo: list[ast.AST] = list(reversed(function.body))
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.Lambda):
            continue
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, (*Function.__args__, ast.ClassDef)):
            inside = set(map(id, node.body))
            children = [one for one in children if id(one) not in inside]
            children = [one for one in children if not isinstance(one, ast.arguments)]
        elif isinstance(node, _COMPREHENSIONS):
            # Its targets are its own; what `:=` binds in it is the function's.
            yield from (
                inner.target for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)
            )
            continue
        todo += reversed(children)


def _targets(comprehension: Any) -> list[str]:
    found: dict[str, None] = {}
    for generator in comprehension.generators:
        for node in ast.walk(generator.target):
            if isinstance(node, ast.Name):
                found[node.id] = None
    return list(found)


def _reads_its_locals(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Name) and one.id in _READS_LOCALS for one in ast.walk(node))
