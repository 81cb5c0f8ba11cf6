"""What is the form of `Literal["a"]`, of a type variable, of what else `typing` makes?

What these objects hold differs between versions of Python; what they say does not.
"""

from typing import TYPE_CHECKING, Any

from limpet.fingerprints.walk.ownership import full_name
from limpet.fingerprints.walk.safe_access import attributes_of, mro_of, text_at
from limpet.fingerprints.walk.values import UNKNOWN

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

_VARIABLES = {"TypeVar", "ParamSpec", "TypeVarTuple"}
_OF_ALIASES = ("__origin__", "__args__", "__metadata__")


def form_of_typing(walk: "Walk", path: str, value: Any, depth: int) -> Any:
    """Return the form of an object of `typing`; UNKNOWN for any other value."""
    kind = type(value)
    if text_at(kind, "__module__") != "typing":
        return UNKNOWN
    held = attributes_of(value)
    if any(base.__name__ == "_SpecialForm" for base in mro_of(kind)):
        return ["library", f"typing.{held['_name']}"]
    if kind.__name__ in _VARIABLES:
        return ["library", f"typing.{value.__name__}"]
    if "__origin__" not in held:
        return UNKNOWN
    parts = [(name, held[name]) for name in _OF_ALIASES if name in held]
    forms = [walk.form(f"{path}.{name}", part, depth=depth) for name, part in parts]
    return ["a", full_name(kind), forms]
