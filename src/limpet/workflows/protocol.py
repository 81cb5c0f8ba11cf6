"""What does every workflow have, whatever it is made of?"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from limpet.types import Item, Output


@runtime_checkable
class Workflow(Protocol):
    """What is evaluated.

    Attributes:
        name: What people call it.
        endpoint: Whom it calls: workflows and evaluators with the same one share a pacer.
    """

    name: str
    endpoint: str

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What its answers depend on besides the item, part by part: code, model, prompt."""
        ...

    def seen(self, item: Item) -> Any:
        """Return what it sees of an item, as plain data: what the answer's key is made of."""
        ...

    async def open(self) -> None:
        """Get ready, before the first call."""
        ...

    async def call(self, item: Item) -> Output:
        """Answer an item."""
        ...

    async def close(self) -> None:
        """Let go of everything, after the last call."""
        ...
