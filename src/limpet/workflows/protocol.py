"""What is a workflow?"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from limpet.shapes import Item, Output


@runtime_checkable
class Workflow(Protocol):
    """The function, program, server or prompt to evaluate.

    A subclass only needs `name`, `fingerprint` and `call`. A class of your own with all these
    members works too. A function needs none of this.

    Attributes:
        name: Its name.
        fingerprint: What its answers depend on besides the item, part by part: code, model, prompt.
        endpoint: The endpoint that paces its calls: workflows and evaluators with the same endpoint
            share a pacer. None: it calls no endpoint, or paces each call itself with
            `limpet.pacing.endpoint`.
        concurrency: How many calls run at once if it has no endpoint and the run's pace is auto;
            None: 32.
        secrets: Values that must not be written anywhere.
        answered_before: Set by the run before it opens: whether an earlier session has answers. A
            refusal is then about an item, not the setup.
        sees_files: Whether it sees the contents of files, which may change while the item does not.
    """

    name: str
    fingerprint: Mapping[str, str]
    endpoint: str | None = "workflow"
    concurrency: int | None = None
    secrets: Iterable[str] = ()
    answered_before: bool = False
    sees_files: bool = False

    def seen(self, item: Item) -> Any:
        """Return the parts of an item that it sees, as plain data, for the key of its answer."""
        return [item.id, item.input, item.expected, dict(item.row)]

    async def open(self) -> None:
        """Prepare for calls. Called once per session."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden

    @abstractmethod
    async def call(self, item: Item) -> Output:
        """Answer an item, which is a copy and may be changed."""
        ...

    async def close(self) -> None:
        """Release everything. Always called, in the task that opened it."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden


MEMBERS = {
    "name": "its name",
    "fingerprint": "a dict of strings: what its answers depend on",
    "endpoint": "the endpoint that paces its calls, or None",
    "concurrency": "how many calls run at once without an endpoint; None: 32",
    "secrets": "values that must not be written; () if there are none",
    "answered_before": "set by the run: whether an earlier session has answers",
    "sees_files": "whether it sees the contents of files; usually False",
    "seen": "returns the parts of an item that it sees",
    "open": "async, called before the first call",
    "call": "async, answers an item",
    "close": "async, called after the last call",
}
"""The members of a workflow, each with its purpose."""
