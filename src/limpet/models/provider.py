"""What is a provider?

Prompts and judges write a request as Chat Completions has it, and read a reply as it does. A
provider translates: the request to its own, and its reply, or the events of a stream, back. All
else is shared: connections, pacing, budgets, schemas, reading replies and errors.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from operator import itemgetter
from typing import Any
from urllib.parse import urlsplit

from limpet.errors import PermanentError, SetupError

Request = Mapping[str, Any]
"""A request as Chat Completions has it."""
ABILITIES: Mapping[str, Sequence[str]] = {
    "schema": (),
    "tools": ("tools",),
    "images": (),
    "documents": (),
    "n": ("n",),
    "logprobs": ("logprobs", "top_logprobs"),
    "seed": ("seed",),
    "stream": (),
    "caching": (),
    "embeddings": (),
}
"""What a provider can do, and the parameters that ask for it."""
_UNASKED = {"n": 1, "logprobs": False, "top_logprobs": 0}
"""Values that ask for nothing."""
_TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "tools": ("a list of tools", lambda value: _is_list(value, Mapping)),
    "parallel_tool_calls": ("true or false", lambda value: isinstance(value, bool)),
    "stop": ("a text or a list of texts", lambda value: _is_list(value, str) or type(value) is str),
}
_PARTS = {"image_url": "images", "file": "documents"}
_WORDS = {
    "n": "several replies at once",
    "documents": "files",
    "seed": "a seed",
    "schema": "schemas",
    "stream": "streaming",
    "caching": "caching on request",
}


_BAD = ("length", "error", "content_filter")
"""Reasons to end with which a reply is no answer; of several, the last of these counts."""


def badness(finish: Any) -> int:
    """Return how bad it is to end for a reason, as Chat Completions has it; 0: it is none."""
    known = finish if isinstance(finish, str) else ""
    return _BAD.index(known) + 2 if known in _BAD else int(bool(known))


class Joiner:
    """Joins the events of a stream into one response, as if it had not been streamed.

    Attributes:
        is_done: Whether the reply is complete.
        ends_with_done: Whether `[DONE]` says that it is.
        flaw: Why the events are no whole reply; empty: they may be one.
        body: The response so far: its usage is read even if the stream breaks.
    """

    is_done: bool = False
    ends_with_done: bool = False
    flaw: str = ""
    body: dict[str, Any]

    def add(self, event: Any) -> bool:
        """Add an event; return whether it has a part of the reply."""
        raise NotImplementedError

    def joined(self) -> dict[str, Any]:
        """Return the complete response."""
        return self.body


class Provider:
    """A provider's own API.

    Attributes:
        name: Its key in `eval.yml`.
        address: Where it is; empty: that has to be said.
        address_hint: How to say it without an address; None: there is no such way.
        versions: Ends of other libraries' addresses, which are part of its paths here.
        key: Where its key is found, if that is not said.
        keyless_hint: What to do if it refuses a request without a key; None: give one.
        prefixes: How its keys begin.
        can: What it can do, of `ABILITIES`.
        most: The parameter that limits the tokens of a reply, for hints.
        defaults: Parameters that it needs, unless they are given.
        fixed_headers: Headers of every request, with and without a key.
        is_keyless: Whether the user says that the server takes no key.
        secrets: What it signs with, once it is ready.
    """

    name: str
    address: str = ""
    address_hint: str | None = None
    versions: tuple[str, ...] = ()
    key: str | None = None
    keyless_hint: str | None = None
    prefixes: tuple[str, ...] = ()
    can: frozenset[str] = frozenset(ABILITIES)
    most: str = "max_tokens"
    defaults: Mapping[str, Any] = {}
    fixed_headers: Mapping[str, str] = {}
    is_keyless: bool = False
    secrets: Sequence[str] = ()

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key."""
        return {"Authorization": f"Bearer {key}"}

    def path(self, model: str, *, stream: bool) -> str:
        """Return the path of a request below the address, quoted; it may have a query."""
        raise NotImplementedError

    def url(self, address: str, path: str) -> str:
        """Return the URL of a path below the address."""
        return address + path

    models_path: str = "/models"
    """Where its models are listed; empty: nowhere."""
    embeddings_path: str = "/embeddings"
    """Where it makes embeddings, as OpenAI does."""

    def names(self, body: Any) -> list[str]:
        """Return the names of its models, from that list."""
        data = body.get("data") if isinstance(body, dict) else None
        entries = data if isinstance(data, list) else []
        names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
        return [name for name in names if isinstance(name, str)]

    def body(self, request: Request, *, stream: bool) -> dict[str, Any]:
        """Return a request in its own words. Unknown parameters stay: the provider refuses them.

        Raises:
            PermanentError: It cannot say what the request has.
        """
        raise NotImplementedError

    def completion(self, body: Any) -> Any:
        """Return a response as Chat Completions has it; anything else, like an error, as it is."""
        raise NotImplementedError

    def joiner(self) -> Joiner:
        """Return what joins the events of a stream."""
        raise NotImplementedError

    def refusal(self, body: Any, headers: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return the body of an error status as Chat Completions has it."""
        return body

    async def get_ready(self, address: str) -> None:
        """Find what requests without a key are signed with, before the first.

        Raises:
            SetupError: There is nothing.
        """

    async def signed(self, url: str, body: bytes) -> Mapping[str, str]:  # noqa: ARG002
        """Return the headers that stand for the key in a request without one.

        Raises:
            SetupError: It cannot be signed.
        """
        return {}

    def check(self, params: Mapping[str, Any]) -> None:
        """Check that it can do what is asked for.

        Raises:
            SetupError: It cannot.
        """
        for ability, names in ABILITIES.items():
            asked = [name for name in names if _asks(name, params.get(name))]
            if asked and ability not in self.can:
                raise self.cannot(ability, asked[0])
        for name, (what, fits) in _TYPES.items():
            if params.get(name) is not None and not fits(params[name]):
                flaw = f"{name}: must be {what}"
                raise _about_params(SetupError(f"params: {flaw}"), flaw)

    def check_parts(self, messages: Sequence[Any]) -> None:
        """Check that it takes the images and files of a conversation. Raises as `check` does.

        Raises:
            PermanentError: A message's tool calls are no list.
        """
        for message in messages:
            calls = message.get("tool_calls") if isinstance(message, Mapping) else None
            if calls is not None and not _is_list(calls, Mapping):
                raise PermanentError("tool_calls: must be a list of tool calls")
            content = message.get("content") if isinstance(message, Mapping) else None
            for part in content if isinstance(content, list) else ():
                kind = part.get("type") if isinstance(part, Mapping) else None
                ability = _PARTS.get(kind) if isinstance(kind, str) else None
                if ability is not None and ability not in self.can:
                    raise self.cannot(ability)

    def cannot(self, ability: str, parameter: str = "") -> SetupError:
        """Return the error for something that it cannot do."""
        where = f"{parameter}: " if parameter else ""
        others = [name for name in PROVIDERS if ability in provider(name).can]
        flaw = f"{where}{self.name} does not support {_WORDS.get(ability, ability)}"
        error = SetupError(flaw, hint=f"{', '.join(others)} {'do' if others[1:] else 'does'}")
        return _about_params(error, flaw) if parameter else error


def _asks(name: str, value: Any) -> bool:
    nothing = _UNASKED.get(name)
    return value is not None and not (type(value) is type(nothing) and value == nothing)


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, kind) for one in value)


def _about_params(error: SetupError, flaw: str) -> SetupError:
    vars(error).update(argument="params", flaw=flaw, is_part=True)
    return error


# ---- Which providers are there? -----------------------------------------------------------------

PROVIDERS: Mapping[str, str] = {
    "openai": "chat_completions:ChatCompletions",
    "responses": "responses:Responses",
    "anthropic": "anthropic:Anthropic",
    "gemini": "gemini:Gemini",
    "ollama": "ollama:Ollama",
    "bedrock": "bedrock:Bedrock",
}
"""By name; `responses` is `openai` with `api: responses`."""


def provider(name: str) -> Provider:
    """Return a provider by its name."""
    module, _, kind = PROVIDERS[name].partition(":")
    made: Callable[[], Provider] = getattr(import_module(f"limpet.models.providers.{module}"), kind)
    return made()


def owner_of(key: str) -> str | None:
    """Return the provider whose keys begin like this one; None: unknown."""
    found = [
        (len(prefix), name)
        for name in PROVIDERS
        for prefix in provider(name).prefixes
        if key.startswith(prefix)
    ]
    return max(found, key=itemgetter(0))[1] if found else None  # of several, the first


def other_owner(key: str, own: Provider) -> str | None:
    """Return the provider that a key belongs to, if it is none of this one's."""
    owner = owner_of(key)
    return None if owner is None or own.prefixes in ((), provider(owner).prefixes) else owner


def provider_at(host: str) -> Provider | None:
    """Return the provider whose own address has this host; None: it is some other server."""
    made = (provider(name) for name in PROVIDERS)
    return next((one for one in made if urlsplit(one.address).hostname == host), None)
