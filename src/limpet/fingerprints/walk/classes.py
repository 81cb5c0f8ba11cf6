"""Which parts does a class have: bases, body, methods, attributes?"""

import ast
from enum import Enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.code import syntax
from limpet.fingerprints.code.parsed import lines_of
from limpet.fingerprints.code.statements import assignments
from limpet.fingerprints.code.summary import FUNCTIONS
from limpet.fingerprints.walk import scopes, volatile
from limpet.fingerprints.walk.environment import add_settings
from limpet.fingerprints.walk.ownership import is_users
from limpet.fingerprints.walk.safe_access import class_dict, is_a, mro_of, plain_name, text_at

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

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


def read_class(walk: "Walk", label: str, cls: type) -> None:
    """Add a class as a part."""
    scope, file = scopes.home_of(cls)
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
        walk.introspection.document(walk, label, node, scope, counts=may_be_read)
        walk.follow(label, summary, text_at(cls, "__module__") or "", scope, str(file))
    kept = walk.add_form(label, form)
    if node is not None:
        walk.result.written[kept] = (str(file), _lines(node))
    walk.introspection.add_class(label, cls)
    add_settings(walk, cls)
    assigned = assignments(node.body) if node is not None else {}
    for name, member in _members(cls, node):
        place = f"{label}.{name}"
        if issubclass(cls, Enum) and any(base is cls for base in mro_of(type(member))):
            held = walk.form(f"{place}.value", member.__dict__["_value_"])
            walk.add_form(place, [member.__dict__["_name_"], held])
        elif volatile.is_member(walk, name, member, assigned.get(name, []), scope):
            walk.leave_out_volatile(place)
        else:
            walk.add(place, member, documented=False, holder=cls)


def _lines(node: ast.ClassDef) -> tuple[tuple[int, int], ...]:
    """Return the lines of a class without its methods, which are parts of their own."""
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
