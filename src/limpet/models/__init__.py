"""Models for workflows and judges."""

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from limpet.arguments import members_missing
from limpet.executors.threads import is_async
from limpet.models.protocol import Message, Model, Reply

if TYPE_CHECKING:
    from limpet.models.server_model import openai_api, provider_api

__all__ = ["Message", "Model", "Reply", "as_model", "openai_api", "provider_api"]
_MEMBERS = {
    "ask": "asks it",
    "endpoint": "the pacer of its calls",
    "fingerprint": "what its replies depend on",
}
_PAIR = 2


def __getattr__(name: str) -> object:
    # It imports an HTTP client, which plain functions do not need.
    if name not in ("openai_api", "provider_api"):
        raise AttributeError(f"module 'limpet.models' has no attribute {name!r}")
    value = getattr(import_module("limpet.models.server_model"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def as_model(thing: Any, *, model: str | None = None, name: str | None = None) -> Model:
    """Return a model for a user's client, function or model.

    Args:
        thing: A model; an `AsyncOpenAI` client, or any object with `chat.completions.create`, as
            `(client, "gpt-4.1")` or with `model`; or an async function
            `async def ask(messages, **params)` that returns a string, a dict or a `Reply`. A
            function with a parameter `schema` gets the schema there; any other finds it at the
            end of the last message.
        model: The model's name, for a client.
        name: Its name in messages; None: its own. A model keeps its name.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(thing, tuple) and len(thing) == _PAIR:
        thing, model = thing
    if not isinstance(thing, type) and not members_missing(thing, _MEMBERS):
        return cast("Model", thing)
    # Imported when used: they import an HTTP client.
    if _is_client(thing):
        if not isinstance(model, str) or not model.strip():
            raise TypeError(
                "a client needs the name of a model: as_model((client, 'gpt-4.1')), "
                "or as_model(client, model='gpt-4.1')"
            )
        if any(kind.__name__ == "SyncAPIClient" for kind in type(thing).__mro__):
            raise TypeError("the client is not asynchronous: use AsyncOpenAI instead of OpenAI")
        made = import_module("limpet.models.client_model").ClientModel(thing, model, name)
    elif is_async(thing):
        made = import_module("limpet.models.client_model").FunctionModel(thing, name)
    else:
        raise TypeError(
            f"{type(thing).__name__} is not a model: it must be one of limpet.models, a client "
            "like AsyncOpenAI with the model's name, or an async function"
        )
    return cast("Model", made)


def _is_client(thing: Any) -> bool:
    """Return whether an object has `chat.completions.create`.

    `chat` is read only once it is known to exist: a property may run code.
    """
    if isinstance(thing, type) or inspect.getattr_static(thing, "chat", None) is None:
        return False
    completions = getattr(getattr(thing, "chat", None), "completions", None)
    return callable(getattr(completions, "create", None))
