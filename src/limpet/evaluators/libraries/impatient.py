"""How are the retries of a model's client switched off, and which model does it ask?

Clients of the openai package and LangChain's models around them are recognised by their shape. The
user's object is not changed: a copy shares its connections and makes one request per call.
"""

import copy
from collections.abc import Mapping
from typing import Any

from limpet.errors import LimpetError
from limpet.evaluators.libraries.shapes import get, has
from limpet.transport.address import Address

UNREADABLE = (
    *("ValueError", "LookupError", "TypeError", "AttributeError"),
    *("LengthFinishReasonError", "ContentFilterFinishReasonError"),  # of the openai package
)
"""What a library raises if it trips over a reply."""
_PARAMS = "_identifying_params"  # LangChain's: model, temperature and the like, without keys


def is_client(thing: Any) -> bool:
    """Return whether an object is a client of the openai package."""
    return has(thing, "with_options", "chat", "max_retries")


def is_chat_model(thing: Any) -> bool:
    """Return whether an object is a chat model of LangChain."""
    return has(thing, "ainvoke", "with_structured_output", _PARAMS)


def without_retries(thing: Any) -> Any:
    """Return a client or a chat model that makes one request per call; other objects unchanged."""
    if is_client(thing):
        return thing.with_options(max_retries=0)
    if not is_chat_model(thing) or not has(thing, "root_async_client", "async_client"):
        return thing
    model = copy.copy(thing)
    for kind in ("", "async_"):
        root = get(thing, f"root_{kind}client")
        if is_client(root):
            root = root.with_options(max_retries=0)
            setattr(model, f"root_{kind}client", root)
            setattr(model, f"{kind}client", root.chat.completions)
    return model


def address_and_model(thing: Any, model: Any = None) -> tuple[str | None, Any]:
    """Return the address of a client or a chat model, and the model's name.

    Args:
        thing: The client or chat model.
        model: The model's name, for a client.
    """
    if is_client(thing):
        return shown_address(get(thing, "base_url")), model
    client = get(thing, "root_async_client") or get(thing, "root_client")
    return shown_address(get(client, "base_url")), get(thing, "model_name") or get(thing, "model")


def shown_address(address: Any) -> str | None:
    """Return an address without the credentials that it may contain."""
    try:
        found = Address(str(address), "base_url")
    except LimpetError:
        return None
    return found.origin + found.path


def described(thing: Any) -> Any:
    """Return what tells one client or chat model from another, as plain data without keys."""
    address, model = address_and_model(thing)
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    facts = {"kind": kind, "address": address, "model": model}
    params = get(thing, _PARAMS)
    if isinstance(params, Mapping):
        facts["params"] = {name: params[name] for name in sorted(params, key=str)}
    return {name: value for name, value in facts.items() if value is not None}
