"""How is another library's object read?

Any of its attributes may raise, or hold a key. So nothing here raises because of it, and results
are plain data without secrets.
"""

import inspect
import os
import re
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib import metadata
from typing import Any

from limpet.errors import LimpetError
from limpet.evaluators.protocol import flaw_of_name
from limpet.foreign import is_interrupt
from limpet.json_values import NotPlainError, to_plain
from limpet.secrets.known import is_secret_key
from limpet.transport.address import Address

_NOTHING = object()


def has(thing: Any, *names: str) -> bool:
    """Return whether an object has all these attributes, without reading any."""
    return all(inspect.getattr_static(thing, name, _NOTHING) is not _NOTHING for name in names)


def loaded(module: str, name: str) -> Any:
    """Return an attribute of a module that is already imported; None if it is not."""
    return getattr(sys.modules.get(module), name, None)


def get(thing: Any, *path: str) -> Any:
    """Return an attribute of an attribute; None if one is missing or raises."""
    for name in path:
        try:
            thing = getattr(thing, name, None)
        except BaseException as error:
            if is_interrupt(error):
                raise
            return None
    return thing


def settings_of(thing: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the attributes of an object that are plain data, except secrets and `without`.

    So settings that an adapter does not know by name are included. Patterns are plain, too.
    """
    found = {}
    for name, value in sorted((get(thing, "__dict__") or {}).items()):
        if name not in without and not is_secret_key(name):
            with suppress(NotPlainError):
                is_pattern = isinstance(value, re.Pattern)
                found[name] = _plain((value.pattern, value.flags) if is_pattern else value)
    return found


def plain(value: Any) -> Any:
    """Return plain data for a fingerprint; for an object without any, the name of its class.

    Never its `repr`, which may hold an address in memory, and never a key.
    """
    try:
        return _plain(value)
    except NotPlainError:
        pass
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items() if not is_secret_key(str(key))}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _plain(value: Any) -> Any:
    """Return plain data without secrets.

    Raises:
        NotPlainError: It has none.
    """
    try:
        return _without_secrets(to_plain(value))
    except NotPlainError:
        raise
    except BaseException as error:  # an object may raise anything
        if is_interrupt(error):
            raise
        raise NotPlainError(type(value).__name__) from error


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if not is_secret_key(key)}
        return {key: _without_secrets(part) for key, part in kept.items()}
    return [_without_secrets(part) for part in value] if isinstance(value, list) else value


def version_of(package: str) -> str:
    """Return the version of a package; empty if it is not installed as one."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def valid_name(name: Any) -> str:
    """Return a name that an evaluator may have: "Answer Relevancy" becomes "Answer_Relevancy"."""
    text = re.sub(r"[^A-Za-z0-9_-]+", "_", str(name)).strip("_-") or "evaluator"
    text = f"_{text}" if text[0].isdigit() else text
    return f"{text}_score" if flaw_of_name(text) else text


def endpoint_of(address: Any, model: Any) -> str | None:
    """Return the endpoint of a model: its server and its name. None if one is unknown."""
    if not isinstance(model, str) or not model:
        return None
    try:
        origin = Address(str(address), "base_url").origin
    except LimpetError:
        return None
    return f"{origin} {model}"


def openai_address() -> str:
    """Return the default address of OpenAI's client."""
    return os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
