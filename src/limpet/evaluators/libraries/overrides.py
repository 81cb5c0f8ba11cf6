"""How are another library's retries switched off, and switched on again?

Some can be switched off on a copy of the evaluator. Others are settings of a shared object: a
client, or the environment. Those are changed while an evaluator is open. Several may need the same
one: the last to close restores it.
"""

from collections.abc import MutableMapping
from inspect import getattr_static
from typing import Any

from limpet.evaluators.libraries.shapes import get, has

_MISSING = object()
_Key = tuple[int, str]
_held: dict[_Key, tuple[int, Any, Any]] = {}  # how many hold it, the holder, the value before


class Overrides:
    """Settings that are changed for a while."""

    def __init__(self) -> None:
        self._keys: list[_Key] = []

    def set(self, holder: Any, name: str, value: Any) -> None:
        """Change an attribute of an object, or an item of a mapping, if there is such a holder."""
        if holder is None or not (isinstance(holder, MutableMapping) or hasattr(holder, name)):
            return
        key = (id(holder), name)
        count, _, before = _held.get(key, (0, holder, _MISSING))
        _held[key] = (count + 1, holder, before if count else _read(holder, name))
        self._keys.append(key)
        _write(holder, name, value)

    def restore(self) -> None:
        """Restore what nobody else holds."""
        while self._keys:
            key = self._keys.pop()
            count, holder, before = _held.pop(key)
            if count > 1:
                _held[key] = (count - 1, holder, before)
            else:
                _write(holder, key[1], before)


def _read(holder: Any, name: str) -> Any:
    if isinstance(holder, MutableMapping):
        return holder.get(name, _MISSING)
    is_inherited = name not in (get(holder, "__dict__") or {name})
    is_slot = has(getattr_static(type(holder), name, None), "__set__")
    return _MISSING if is_inherited and not is_slot else get(holder, name)


def _write(holder: Any, name: str, value: Any) -> None:
    is_mapping = isinstance(holder, MutableMapping)
    if value is _MISSING:
        (holder.pop if is_mapping else holder.__delattr__)(name)
    elif is_mapping:
        holder[name] = value
    else:
        setattr(holder, name, value)
