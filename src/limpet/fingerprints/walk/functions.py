"""Which parts does a function have: code, closure, defaults, attributes?"""

import ast
import contextlib
import functools
from contextvars import ContextVar
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    UnionType,
)
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.code import bytecode, syntax
from limpet.fingerprints.code.bytecode import shape
from limpet.fingerprints.code.parsed import Definition, lines_of
from limpet.fingerprints.code.summary import CodeSummary
from limpet.fingerprints.walk import environment, scopes, volatile
from limpet.fingerprints.walk.ownership import full_name, is_users_file
from limpet.fingerprints.walk.safe_access import text_at
from limpet.fingerprints.walk.values import UNKNOWN

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

GENERATORS = (GeneratorType, CoroutineType, AsyncGeneratorType)


def read_function(walk: "Walk", label: str, function: FunctionType, *, documented: bool) -> None:
    """Add a function as a part."""
    code = function.__code__
    numbers: dict[str, int] = {}
    if is_users_file(code.co_filename):
        walk.result.code.add((code.co_filename, code.co_firstlineno))
        node = walk.sources.definition_of(code)
        _add_defaults(walk, label, function, node)
        scope = function.__globals__
        summary = read_code(walk, label, code, node, scope)
        if node is not None:
            may_be_read = documented or bool(getattr(node, "decorator_list", ()))
            walk.introspection.document(walk, label, node, scope, counts=may_be_read)
            walk.sources.release(node)
        numbers = {} if summary is None else summary.free
    else:
        walk.add_form(label, ["library", full_name(function)])
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        # The number of a variable counts, not its name: renaming a local changes nothing.
        place = f"{label}.{name}" if name not in numbers else f"{label}.closed over {numbers[name]}"
        with contextlib.suppress(ValueError):  # not bound yet
            value = cell.cell_contents
            if volatile.is_closed_over(walk, function, name, value):
                walk.leave_out_volatile(place)
            else:
                walk.result.variables[place] = (name, _readable_name(walk, label, function))
                walk.add(place, value, holder=function)
    for name, value in sorted(vars(function).items()):
        if name == "statistics" and _is_of_tenacity(function):
            continue  # the number and times of its calls
        walk.add(f"{label}.{name}", value, holder=function)


def _readable_name(walk: "Walk", label: str, function: FunctionType) -> str:
    """Return a readable name for a function; a wrapper has the name of what it wraps."""
    name = function.__qualname__
    if "<locals>" in name or "<lambda>" in name:
        return label.replace("<locals>.", "")
    return walk.short(str(function.__module__), name)


def read_code(
    walk: "Walk", label: str, code: CodeType, node: Definition | None, scope: dict[str, Any]
) -> CodeSummary | None:
    """Add the code of a function as a part: as syntax if possible, else as bytecode."""
    module = str(scope.get("__name__", ""))
    if node is None:
        walk.add_form(label, ["bytecode", shape(code)])
        walk.introspection.notice_everything()
        walk.follow(label, bytecode.read_bytecode(code), module, scope, code.co_filename)
        if environment.is_named_in(code, scope):
            known = [
                scope[global_name]
                for global_name in code.co_names
                if type(scope.get(global_name)) is str
            ]
            for name in sorted({*bytecode.words_in(code), *known}):
                walk.add_variable(name)
        return None
    summary = syntax.read(node, free=frozenset(code.co_freevars) - {"__class__"})
    kept = walk.add_form(label, ["code", summary.digest])
    walk.result.written[kept] = (code.co_filename, (lines_of(node),))
    walk.introspection.add_function(label, walk.sources.text_of(node), code)
    _note_getter(walk, node, summary, scope)
    walk.follow(label, summary, module, scope, code.co_filename)
    return summary


def form_of_generator(walk: "Walk", path: str, value: Any) -> Any:
    """Return the form of a suspended generator: its code and its locals."""
    prefix = next(start for start in ("gi", "cr", "ag") if hasattr(value, f"{start}_code"))
    code, frame = getattr(value, f"{prefix}_code"), getattr(value, f"{prefix}_frame")
    if frame is None:
        return ["generator", "at its end"]
    if not is_users_file(code.co_filename):
        form: list[Any] = ["generator", code.co_qualname]
    else:
        label = f"{path}.code"
        node = walk.sources.definition_of(code)
        if node is None:  # an expression
            scopes.add_scope(walk, str(frame.f_globals.get("__name__")), frame.f_globals)
        else:
            read_code(walk, label, code, node, frame.f_globals)
        form = ["generator", label, frame.f_lasti >= 0]
    return form + [walk.form(f"{path}.local", held) for held in frame.f_locals.values()]


def form_of_wrapper(walk: "Walk", path: str, value: Any, depth: int) -> Any:
    """Return the form of a method, property, partial or similar; UNKNOWN for any other value."""
    kind = type(value)
    if kind is functools.partial:
        return _form_of_partial(walk, path, value, depth)
    if kind is MethodType:
        inner = {"__func__": value.__func__, "__self__": value.__self__}
    elif kind is staticmethod or kind is classmethod:
        inner = {"__func__": value.__func__}
    elif kind is functools.cached_property:  # what else it holds differs between Pythons
        inner = {"func": value.func}
    elif kind is property:
        inner = {"fget": value.fget, "fset": value.fset, "fdel": value.fdel}
    elif kind is UnionType:
        inner = {"args": value.__args__}
    elif kind is ContextVar:
        inner = {"name": value.name}
        with contextlib.suppress(LookupError):
            inner["value"] = value.get()
    else:
        return UNKNOWN
    forms = (walk.form(f"{path}.{name}", part, depth=depth) for name, part in inner.items())
    return [kind.__name__, *forms]


def _form_of_partial(walk: "Walk", path: str, value: Any, depth: int) -> Any:
    func = walk.form(f"{path}.func", value.func, depth=depth)
    args = walk.form(f"{path}.args", value.args, depth=depth)
    keywords = value.keywords  # each partial has its own dict: it holds no state
    before = len(walk.held)
    form = ["partial", func, args, walk.form(f"{path}.keywords", keywords, depth=depth)]
    walk.held[before:] = [held for held in walk.held[before:] if held is not keywords]
    return form


def _is_of_tenacity(function: FunctionType) -> bool:
    return (text_at(type(vars(function).get("retry")), "__module__") or "").startswith("tenacity")


def _add_defaults(
    walk: "Walk", label: str, function: FunctionType, node: Definition | None
) -> None:
    defaults = _defaults_of(function)
    written = _written_defaults(node) if defaults and node is not None else {}
    for name, value in defaults:
        place = f"{label}({name})"
        if name in written and volatile.is_default(
            walk, written[name], value, function.__globals__
        ):
            walk.leave_out_volatile(place)
        else:
            walk.add(place, value, holder=function)


def _defaults_of(function: FunctionType) -> list[tuple[str, Any]]:
    code, defaults = function.__code__, function.__defaults__ or ()
    if not defaults and not function.__kwdefaults__:
        return []
    by_place = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return [*zip(by_place, defaults, strict=True), *sorted((function.__kwdefaults__ or {}).items())]


def _written_defaults(node: Definition) -> dict[str, ast.expr]:
    args = node.args
    by_place = [*args.posonlyargs, *args.args][-len(args.defaults) :] if args.defaults else []
    written = dict(zip([parameter.arg for parameter in by_place], args.defaults, strict=True))
    for parameter, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if default is not None:
            written[parameter.arg] = default
    return written


def _note_getter(
    walk: "Walk", node: Definition, summary: CodeSummary, scope: dict[str, Any]
) -> None:
    """Note a function that reads the environment variable named by its argument."""
    if isinstance(node, ast.Lambda) or not summary.looked_up:
        return
    arguments = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
    arguments = arguments[1:] if arguments[:1] in (["self"], ["cls"]) else arguments
    if not arguments:
        return
    by_parameter = [
        (chain, name)
        for chain, name in summary.looked_up
        if type(name) is ast.Name
        and name.id == arguments[0]
        and environment.is_environment(chain, scope)
    ]
    if by_parameter:
        walk.introspection.getters.add(node.name)
        summary.looked_up = [lookup for lookup in summary.looked_up if lookup not in by_parameter]
