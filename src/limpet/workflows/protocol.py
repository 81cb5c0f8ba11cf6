"""What does every workflow have, whatever it is made of?"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from limpet.types import Item, Output


@runtime_checkable
class Workflow(Protocol):
    """What is evaluated.

    Subclass it, and only `name`, `fingerprint` and `call` are left to write. Or have all of it in
    a class of your own. A function needs none of this.

    Attributes:
        name: What people call it.
        fingerprint: What its answers depend on besides the item, part by part: code, model, prompt.
        endpoint: Whom its calls are paced with: workflows and evaluators that name the same
            endpoint share a pacer. None: it calls nobody, or paces each call itself with
            `limpet.pacing.endpoint`.
        secrets: Values that must not be written anywhere.
        answered_before: Set by the run before it opens: whether an earlier session has answers,
            so that a refusal is the matter of an item and not of the set-up.
    """

    name: str
    fingerprint: Mapping[str, str]
    endpoint: str | None = "workflow"
    secrets: Iterable[str] = ()
    answered_before: bool = False

    def seen(self, item: Item) -> Any:
        """Return what it sees of an item, as plain data: what the answer's key is made of."""
        return [item.id, item.input, item.expected, dict(item.row)]

    async def open(self) -> None:
        """Get ready: called once in a session, before the first call."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden

    @abstractmethod
    async def call(self, item: Item) -> Output:
        """Answer an item. It is a copy, and may be changed."""
        ...

    async def close(self) -> None:
        """Let go of everything: called in the task that opened it, whatever happened."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden


MEMBERS = {
    "name": "what people call it",
    "fingerprint": "a dict of strings: what its answers depend on",
    "endpoint": "whom its calls are paced with; None: nobody",
    "secrets": "values that must not be written; () if there are none",
    "answered_before": "set by the run: whether an earlier session has answers",
    "seen": "returns what it sees of an item",
    "open": "async, called before the first call",
    "call": "async, answers an item",
    "close": "async, called after the last call",
}
"""What a workflow has, and what for."""
