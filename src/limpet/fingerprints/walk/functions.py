"""Which parts does a function have: code, closure, defaults, attributes?"""

import ast
import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    UnionType,
)
from typing import Any

from limpet.fingerprints.code import bytecode, syntax
from limpet.fingerprints.code.bytecode import shape
from limpet.fingerprints.code.canonical_text import (
    DOCUMENTATION,
    FUNCTIONS,
    CodeSummary,
    documentation_of,
    fields_of,
    hints_of,
)
from limpet.fingerprints.code.parsed import Definition, lines_of
from limpet.fingerprints.code.statements import assignments
from limpet.fingerprints.walk import environment, modules, scopes, volatile
from limpet.fingerprints.walk.ownership import full_name, home_of, is_users, is_users_file
from limpet.fingerprints.walk.safe_access import class_dict, is_a, mro_of, plain_name, text_at
from limpet.fingerprints.walk.values import UNKNOWN
from limpet.fingerprints.walk.walk import Walk

GENERATORS = (GeneratorType, CoroutineType, AsyncGeneratorType)


def read_function(walk: Walk, label: str, function: FunctionType, *, documented: bool) -> None:
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
            _document(walk, label, node, scope, counts=may_be_read)
        numbers = {} if summary is None else summary.free
    else:
        walk.add_form(label, ["library", full_name(function)])
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        # The number of a variable counts, not its name: renaming a local changes nothing.
        part = f"{label}.{name}" if name not in numbers else f"{label}.closed over {numbers[name]}"
        with contextlib.suppress(ValueError):  # not bound yet
            value = cell.cell_contents
            if volatile.is_closed_over(walk, function, name, value):
                walk.leave_out_volatile(part)
            else:
                walk.result.variables[part] = (name, _readable_name(walk, label, function))
                walk.add(part, value, holder=function)
    for name, value in sorted(vars(function).items()):
        if name == "statistics" and _is_of_tenacity(function):
            continue  # the number and times of its calls
        walk.add(f"{label}.{name}", value, holder=function)


def _readable_name(walk: Walk, label: str, function: FunctionType) -> str:
    """Return a readable name for a function; for a wrapper, the wrapped function's name."""
    name = function.__qualname__
    if "<locals>" in name or "<lambda>" in name:
        return label.replace("<locals>.", "")
    return walk.short(str(function.__module__), name)


def read_code(
    walk: Walk, label: str, code: CodeType, node: Definition | None, scope: dict[str, Any]
) -> CodeSummary | None:
    """Add the code of a function as a part: as syntax if possible, otherwise as bytecode."""
    module = str(scope.get("__name__", ""))
    if node is None:
        walk.add_form(label, ["bytecode", shape(code)])
        walk.notices.add(DOCUMENTATION)  # it may be read
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
    walk.functions.append((label, walk.sources.text_of(node), code))
    _record_getter(walk, node, summary, scope)
    walk.follow(label, summary, module, scope, code.co_filename)
    return summary


def form_of_generator(walk: Walk, path: str, value: Any) -> Any:
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
            modules.add_scope(walk, str(frame.f_globals.get("__name__")), frame.f_globals)
        else:
            read_code(walk, label, code, node, frame.f_globals)
        form = ["generator", label, frame.f_lasti >= 0]
    return form + [walk.form(f"{path}.local", held) for held in frame.f_locals.values()]


def form_of_wrapper(walk: Walk, path: str, value: Any, depth: int) -> Any:
    """Return the form of a method, property, partial or similar; UNKNOWN for any other value."""
    kind = type(value)
    if kind is functools.partial:
        return _form_of_partial(walk, path, value, depth)
    if kind is MethodType:
        inner = {"__func__": value.__func__, "__self__": value.__self__}
    elif kind is staticmethod or kind is classmethod:
        inner = {"__func__": value.__func__}
    elif kind is functools.cached_property:  # its other attributes differ between Pythons
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


def _form_of_partial(walk: Walk, path: str, value: Any, depth: int) -> Any:
    func = walk.form(f"{path}.func", value.func, depth=depth)
    args = walk.form(f"{path}.args", value.args, depth=depth)
    keywords = value.keywords  # each partial has its own dict: it is not state
    before = len(walk.held)
    form = ["partial", func, args, walk.form(f"{path}.keywords", keywords, depth=depth)]
    walk.held[before:] = [held for held in walk.held[before:] if held is not keywords]
    return form


def _is_of_tenacity(function: FunctionType) -> bool:
    return (text_at(type(vars(function).get("retry")), "__module__") or "").startswith("tenacity")


def _add_defaults(walk: Walk, label: str, function: FunctionType, node: Definition | None) -> None:
    defaults = _defaults_of(function)
    written = _written_defaults(node) if defaults and node is not None else {}
    for name, value in defaults:
        part = f"{label}({name})"
        if name in written and volatile.is_by_source(
            walk, value, [written[name]], function.__globals__, data=False
        ):
            walk.leave_out_volatile(part)
        else:
            walk.add(part, value, holder=function)


def _defaults_of(function: FunctionType) -> list[tuple[str, Any]]:
    code, defaults = function.__code__, function.__defaults__ or ()
    if not defaults and not function.__kwdefaults__:
        return []
    positional = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return [
        *zip(positional, defaults, strict=True),
        *sorted((function.__kwdefaults__ or {}).items()),
    ]


def _written_defaults(node: Definition) -> dict[str, ast.expr]:
    args = node.args
    positional = [*args.posonlyargs, *args.args][-len(args.defaults) :] if args.defaults else []
    written = dict(zip([parameter.arg for parameter in positional], args.defaults, strict=True))
    for parameter, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if default is not None:
            written[parameter.arg] = default
    return written


def _record_getter(
    walk: Walk, node: Definition, summary: CodeSummary, scope: dict[str, Any]
) -> None:
    """Record a function that reads the environment variable named by its argument."""
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
        walk.getters.add(node.name)
        summary.looked_up = [lookup for lookup in summary.looked_up if lookup not in by_parameter]


def _document(
    walk: Walk, label: str, node: ast.AST, scope: Mapping[str, Any], *, counts: bool
) -> None:
    """Add a docstring and hints if they count; otherwise remember them for code that reads them."""
    text, fields, hints = documentation_of(node), fields_of(node), hints_of(node)
    if counts:  # the hints of a class are in the text of its body
        walk.result.forms |= {} if text is None else {f"{label}.__doc__": text}
        follow_hints(walk, hints, scope)
        return
    walk.documentation |= {} if text is None else {f"{label}.__doc__": text}
    walk.documentation |= {f"{label}.__annotations__": fields} if fields else {}
    walk.hints.append((hints, scope))


def follow_hints(walk: Walk, hints: list[ast.expr], scope: Mapping[str, Any]) -> None:
    """Follow the names in type hints."""
    if hints:
        hinted = syntax.read_hints(hints)
        scopes.add_chains(walk, str(scope.get("__name__", "")), scope, hinted.chains, set())


# ---- Which parts does a class have: bases, body, methods, attributes? ---------------------------

# Methods that libraries generate from the fields of a class.
_GENERATED = {"__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"}
_GENERATED |= {"__setattr__", "__delattr__", "__replace__", "__new__", "__getnewargs__"}
_GENERATED |= {"_make", "_replace", "_asdict", "__setstate__", "__getstate__"}
_MAKERS = {"__dataclass_fields__", "_fields", "__attrs_attrs__"}
# Attributes that Python and enums set on every class.
_KEPT = {"__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__slots__"}
_KEPT |= {"__abstractmethods__", "_abc_impl", "__firstlineno__", "__static_attributes__"}
_KEPT |= {"__parameters__", "__orig_bases__", "__annotate__", "__annotate_func__", "__hash__"}
_KEPT |= {"__annotations_cache__", "__class_vars__", "__private_attributes__", "__match_args__"}
_KEPT |= {"_member_map_", "_member_names_", "_value2member_map_", "_generate_next_value_"}
_KEPT |= {"_new_member_", "_use_args_", "_member_type_", "_unhashable_values_", "_value_repr_"}
_KEPT |= {"__signature__", "__getstate__", "_hashable_values_", "_unhashable_values_map_"}
_KEPT |= {"__slotnames__"}  # by pickle and copy, the first time
_KEPT |= {"__dataclass_params__", "__protocol_attrs__", "__non_callable_proto_members__"}
_KEPT |= {"__callable_proto_members_only__", "__subclasshook__", "__conditional_annotations__"}
# Set by Python, unless the user defines them: then they are ordinary methods.
_MAY_BE_WRITTEN = {"__hash__", "__getstate__", "__signature__", "_generate_next_value_"}
_MAY_BE_WRITTEN |= {"__subclasshook__"}
# Covered by the class statement, if its source is known.
_FIELDS = {"__annotations__", "__dataclass_fields__", "__pydantic_fields__", "model_fields"}
_FIELDS |= {"__readonly_keys__", "__mutable_keys__"}


def read_class(walk: Walk, label: str, cls: type) -> None:
    """Add a class as a part."""
    scope, file = home_of(cls)
    node = walk.sources.class_statement(cls, scope, file)
    form: list[Any] = [
        "class",
        [walk.form(plain_name(base), base) for base in type.__dict__["__bases__"].__get__(cls)],
    ]
    if type(cls) is not type:
        form.append(walk.form(plain_name(type(cls)), type(cls)))
    if node is not None:
        summary = syntax.read_class_body(node)
        form.append(summary.digest)
        may_be_read = bool(node.decorator_list or node.bases or node.keywords)
        _document(walk, label, node, scope, counts=may_be_read)
        walk.follow(label, summary, text_at(cls, "__module__") or "", scope, str(file))
    kept = walk.add_form(label, form)
    if node is not None:
        walk.result.written[kept] = (str(file), _lines(node))
    walk.classes.append((label, cls))
    _add_settings(walk, cls)
    assigned = assignments(node.body) if node is not None else {}
    for name, member in _members(cls, node):
        part = f"{label}.{name}"
        if issubclass(cls, Enum) and any(base is cls for base in mro_of(type(member))):
            held = walk.form(f"{part}.value", member.__dict__["_value_"])
            walk.add_form(part, [member.__dict__["_name_"], held])
        elif volatile.is_by_source(
            walk, member, assigned.get(name, []), scope
        ) and not volatile.times_set(walk, name):
            walk.leave_out_volatile(part)
        else:
            walk.add(part, member, documented=False, holder=cls)


def _lines(node: ast.ClassDef) -> tuple[tuple[int, int], ...]:
    """Return the lines of a class without its methods, which are separate parts."""
    begin, end = lines_of(node)
    pieces = []
    for first, last in [lines_of(method) for method in node.body if isinstance(method, FUNCTIONS)]:
        pieces.append((begin, first - 1))
        begin = last + 1
    return tuple((a, b) for a, b in [*pieces, (begin, end)] if a <= b)


def _is_written(name: str, member: Any, written: Any) -> bool:
    """Return whether the user defined a member, in the body or later: `A.__hash__ = h`."""
    function = member.__func__ if is_a(member, staticmethod, classmethod) else member
    return name in written or (type(function) is FunctionType and is_users(function))


def _members(cls: type, node: Any) -> list[tuple[str, Any]]:
    """Return the members of a class that the user or its metaclass defined."""
    written = {method.name for method in node.body if isinstance(method, FUNCTIONS)} if node else ()
    has_generated = any(name in class_dict(cls) for name in _MAKERS)
    left_out = _KEPT | _FIELDS if node is not None else _KEPT
    return [
        (name, member)
        for name, member in sorted(class_dict(cls).items())
        if (
            name not in left_out or (name in _MAY_BE_WRITTEN and _is_written(name, member, written))
        )
        and (not name.startswith("__pydantic") or (node is None and name in _FIELDS))
        and not (has_generated and name in _GENERATED and name not in written)
        and not is_a(member, MemberDescriptorType, GetSetDescriptorType)
    ]


# ---- Which variables does a class of pydantic-settings read? ------------------------------------
#
# `class Settings(BaseSettings)` reads one for each field.

_SETTINGS = "pydantic_settings"


def _add_settings(walk: Walk, cls: type) -> None:
    """Add the variables that a settings class reads, and their values in its `.env` file."""
    bases = mro_of(cls)
    if not any(
        (text_at(base, "__module__") or "").partition(".")[0] == _SETTINGS for base in bases
    ):
        return
    config: Mapping[str, Any] = class_dict(cls).get("model_config") or {}
    by_file = {file: _values_in(file) for file in _files(config.get("env_file"))}
    nested = str(config.get("env_nested_delimiter") or "\0").lower()
    for field in _variables_of(cls, str(config.get("env_prefix") or "").lower()):
        walk.add_variable(field.upper())
        for name in [*os.environ]:
            if name.lower() == field or name.lower().startswith(field + nested):
                walk.add_variable(name)
        for file, values in by_file.items():
            for name, value in values.items():
                if name.lower() == field or name.lower().startswith(field + nested):
                    walk.add_setting(name, f"{name} in {Path(file).name}", value)


def _variables_of(cls: type, prefix: str) -> Iterator[str]:
    held = class_dict(cls)
    fields = held.get("__pydantic_fields__") or held.get("model_fields") or {}
    for name, field in fields.items():
        alias = getattr(field, "validation_alias", None) or getattr(field, "alias", None)
        aliases = [choice for choice in getattr(alias, "choices", [alias]) if type(choice) is str]
        yield from (choice.lower() for choice in aliases or [prefix + name])


def _files(setting: Any) -> list[str]:
    files = setting if is_a(setting, list, tuple) else [setting]
    return [os.fspath(file) for file in files if is_a(file, str, Path)]


def _values_in(file: str) -> dict[str, str]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    parts = [line.removeprefix("export ").partition("=") for line in lines if line[:1] != "#"]
    return {name.strip(): value.strip() for name, sign, value in parts if sign}
