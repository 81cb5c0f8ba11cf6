"""What counts of an object that shows neither elements nor attributes?

It is asked how it would be copied. If it does not say, the user's own functions and objects that
it holds count: a wrapper that is written in C holds the function that it wraps.
"""

import contextlib
import gc
import io
import warnings
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
)
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.walk.asking import held_by, is_a
from limpet.fingerprints.walk.naming import full_name
from limpet.fingerprints.walk.ownership import is_users

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

# What is written in C: asking an abstract class runs code of its subclasses.
_STREAM: type = io.IOBase.__base__ or io.IOBase


def form_of_opaque(walk: "Walk", path: str, value: Any, form: list[Any], depth: int) -> Any:
    """Return the form of an object of a library's, or of Python's, that shows nothing."""
    kind = type(value)
    if kind is object:
        return form
    copied = _copied(value)
    if copied is not None:
        held = list(walk.held)
        form = [*form, [walk.form(f"{path}.state", one, depth=depth) for one in copied]]
        walk.held = held  # what was made to be copied holds nothing
        return form
    inner = [one for one in gc.get_referents(value) if _is_worth_a_look(one)]
    texts = [] if issubclass(kind, _STREAM) else _texts(value)
    if not inner and not texts:
        walk.leave_out(path, f"no stable form: counts by its class, {full_name(kind)}")
    form += [walk.form(f"{path}.held", one, depth=depth) for one in inner]
    return form + texts


def _copied(value: Any) -> list[Any] | None:
    if issubclass(type(value), _STREAM):
        return None
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copied = value.__reduce_ex__(2)
        if isinstance(copied, str):
            return [copied]
        # The last two are iterators of elements.
        return [*copied[:3], *(None if one is None else list(one) for one in copied[3:5])]
    return None


def _is_worth_a_look(one: Any) -> bool:
    kind = type(one)
    if issubclass(kind, type):
        return False
    return is_a(one, FunctionType, MethodType, BuiltinFunctionType) or is_users(kind)


def _texts(value: Any) -> list[Any]:
    """Return texts that C shows. No numbers: they may be addresses."""
    found = []
    for name, member in sorted(held_by(type(value)).items()):
        if is_a(member, GetSetDescriptorType, MemberDescriptorType) and name not in (
            "__doc__",
            "__module__",
            "__dict__",
        ):
            with contextlib.suppress(Exception):
                one = member.__get__(value)
                if type(one) is str and " at 0x" not in one:
                    found.append([name, one])
    return found
