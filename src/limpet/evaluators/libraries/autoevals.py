"""How does a scorer of autoevals score?

`eval_async(output, expected, **fields)` returns a `Score` with a number, and in its metadata the
choice and the reason. By default, it retries a refused request up to 100 times. Here a copy of the
scorer has a client that does not retry.
"""

import copy
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from inspect import Parameter, signature
from typing import Any

from limpet.errors import PermanentError, SetupError
from limpet.evaluators.libraries.adapter import Adapter, EvaluatorFields
from limpet.evaluators.libraries.overrides import (
    UNREADABLE,
    address_and_model,
    shown_address,
    without_retries,
)
from limpet.evaluators.libraries.shapes import get, has, loaded
from limpet.executors.threads import Threads
from limpet.shapes import Score
from limpet.text import one_line, text_of

_ELSEWHERE = ("api_key", "base_url")  # a secret, and a part of its own
_USUAL = ("output", "expected", "input", "context")
_VARIABLE = re.compile(r"\{\{\{?[#^&]?\s*([A-Za-z_]\w*)[^}]*\}\}")  # Mustache's
_OPTIONAL = ("expected", "input")
_MODULE = "autoevals.oai"


class _Never(Exception):  # noqa: N818 - nothing ever raises it
    """Replaces autoevals' rate limit error: it does not retry what it does not recognise."""


class AutoevalsScorer(Adapter):
    """An object with `eval_async` and `_name`, as autoevals' `Scorer` has them."""

    library = "autoevals"
    package = "autoevals"

    @classmethod
    def fits(cls, thing: Any) -> bool:
        return has(thing, "eval_async", "_name", "_run_eval_sync")

    def own_name(self) -> str:
        return str(self.theirs._name())  # noqa: SLF001 - there is no other name

    def wanted(self) -> EvaluatorFields:
        messages = get(self.theirs, "messages")
        if isinstance(messages, list):
            given = get(self.theirs, "render_args") or {}
            named = [name for name in _variables(messages) if name not in given]
            return EvaluatorFields(
                tuple(dict.fromkeys(("output", *named))), _OPTIONAL, any_other=True
            )
        parameters = signature(self.theirs._run_eval_sync).parameters  # noqa: SLF001 - it has them
        required = [name for name in _USUAL if name in parameters]
        others = [
            name
            for name, parameter in parameters.items()
            if name not in required and parameter.kind is not Parameter.VAR_KEYWORD
        ]
        return EvaluatorFields(tuple(required), tuple(others), any_other=True)

    def parts(self) -> Mapping[str, Any]:
        partial = get(self.theirs, "_partial_args")
        address, _ = self._asked
        return {
            **_attributes(self.theirs),
            **({"partial": partial()} if callable(partial) else {}),
            **({} if address is None else {"address": address}),
        }

    def model(self) -> tuple[Any, Any] | None:
        return self._asked

    @property
    def _asked(self) -> tuple[Any, Any]:
        """The address and the name of its model."""
        client, model = get(self.theirs, "client"), get(self.theirs, "model")
        address, _ = address_and_model(get(client, "openai") or client)
        arguments = get(self.theirs, "extra_args")
        if address is None and isinstance(arguments, Mapping):
            address = shown_address(arguments.get("base_url"))
        return address, model

    # ---- calling ------------------------------------------------------------------------------

    async def open(self) -> None:
        self._threads = Threads()
        self._scorer = self._impatient(self.theirs)
        await super().open()

    async def close(self) -> None:
        self._threads.close()
        await super().close()

    def clients(self) -> list[Any]:
        given = get(self.theirs, "client") or get(self, "_scorer", "client")
        return [get(given, "openai") or given]

    async def score(self, values: Mapping[str, Any]) -> Any:
        for name in _variables(get(self.theirs, "messages")):
            if name in values and values[name] is None:
                raise PermanentError(f"the prompt names {name}, but the item has none")
        named = dict(values)
        output, expected = named.pop("output"), named.pop("expected", None)
        if self._is_async:
            returned = await self._scorer.eval_async(output, expected, **named)
        else:
            call = self._scorer.eval
            returned = await self._threads.run(lambda _: call(output, expected, **named), None)
        return _score(returned, self.name)

    @property
    def bad_replies(self) -> Collection[str]:  # type: ignore[override]  # it is only read
        return UNREADABLE if has(self.theirs, "client") else ()

    @cached_property
    def _is_async(self) -> bool:
        """Whether it has an async client. Other scorers run in threads."""
        kind, base = type(self.theirs), loaded("autoevals.score", "Scorer")
        if get(kind, "_run_eval_async") is get(base, "_run_eval_async"):
            return False
        given = get(self.theirs, "client")
        return given is None or _is_async_client(get(given, "openai") or given)

    def _impatient(self, scorer: Any) -> Any:
        """Return a copy of a scorer, and of those inside it, without retries."""
        scorer = copy.copy(scorer)
        if has(scorer, "client"):
            scorer.client = self._client(scorer)
        for name, value in list(vars(scorer).items()):
            if AutoevalsScorer.fits(value):
                setattr(scorer, name, self._impatient(value))
        return scorer

    def _client(self, scorer: Any) -> Any:
        """Return autoevals' wrapper around a client without retries.

        It is the scorer's own client, that of `autoevals.init`, or one from the environment.
        """
        wrapper = loaded(_MODULE, "LLMClient")
        given = get(scorer, "client") or self._default_client(get(scorer, "extra_args") or {})
        if isinstance(given, wrapper) and type(given) is not wrapper:
            client = copy.copy(given)  # the user's own way of asking
        else:
            inner = without_retries(get(given, "openai") or given)
            client = wrapper(openai=inner, is_async=_is_async_client(inner))
        client.RateLimitError = _Never
        return client

    def _default_client(self, arguments: Mapping[str, Any]) -> Any:
        given = {name: arguments.get(name) for name in ("api_key", "base_url")}
        try:
            return loaded(_MODULE, "prepare_openai")(is_async=self._is_async, **given)
        except Exception as error:
            raise SetupError(f"{self.name}: {one_line(text_of(error))}") from error


def _is_async_client(client: Any) -> bool:
    return any("Async" in kind.__name__ for kind in type(client).__mro__)


def _attributes(scorer: Any) -> dict[str, Any]:
    """Return the attributes of a scorer and of those inside it, without client and key."""
    held = {}
    for name, value in vars(scorer).items():
        if name == "extra_args" and isinstance(value, Mapping):
            held[name] = {part: value[part] for part in value if part not in _ELSEWHERE}
        elif AutoevalsScorer.fits(value):
            held[name] = {"scorer": type(value).__name__, **_attributes(value)}
        elif name != "client":
            held[name] = value
    return held


def _variables(messages: Any) -> Iterator[str]:
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str):
            yield from _VARIABLE.findall(content)


def _score(returned: Any, name: str) -> Score:
    value, metadata = get(returned, "score"), get(returned, "metadata")
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    if value is None:
        raise PermanentError(f"{name} returned no score: it skipped the item")
    choice, reason = metadata.pop("choice", None), metadata.pop("rationale", None)
    return Score(value, label=choice, explanation=reason, metadata=metadata or None)
