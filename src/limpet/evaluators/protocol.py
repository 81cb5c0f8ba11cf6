"""What is an evaluator?

Anything that looks at what came out of the workflow for one item and says how good it is. The
built-in ones, a user's function and a class of the user's own all look like this to the run.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn, Protocol, runtime_checkable

from limpet.types import Item, Output, Score

Scores = Mapping[str, Score]
"""What came out, by name and in order: one called "score", or several of a dict."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What an evaluator may look at: of these, what it declares in `reads`.

    Attributes:
        output: What the workflow returned.
        expected: What the item says it should be; None if it does not say.
        input: What the workflow was asked.
        item: The whole item, with its id and its row.
        trace: What happened inside the workflow, oldest first.
        where: What messages call the item.
    """

    output: Any
    expected: Any = None
    input: Any = None
    item: Item | None = None
    trace: Sequence[Any] = ()
    where: str = ""

    def __getattr__(self, name: str) -> NoReturn:
        # Only asked for what is not there: the run leaves out what is not declared.
        raise not_given(self, name)


def not_given(thing: Scored | Item, name: str) -> AttributeError:
    """Return the error of an attribute that was not given."""
    if any(field.name == name for field in fields(thing)):
        return AttributeError(f"the evaluator does not declare that it reads {name!r}")
    return AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}")


@runtime_checkable
class Evaluator(Protocol):
    """Scores one output at a time.

    Subclass it, and only `name`, `fingerprint` and `call` are left to write. Or have all of it in
    a class of your own.

    Attributes:
        name: What its column is called.
        fingerprint: What its scores depend on, part by part: another one, and it runs again.
        endpoint: Whom its calls are paced with: evaluators and workflows that name the same
            endpoint share a pacer. None: it calls nobody, or paces each call itself with
            `limpet.pacing.endpoint`.
        reads: What it looks at: "output", "expected", "input", "trace", "id", "row", "row.<field>".
            Its scores are made again when that changes, and it is given nothing else.
        secrets: Values that must not be written anywhere.
    """

    name: str
    fingerprint: Mapping[str, str]
    endpoint: str | None = None
    reads: Collection[str] = ("id", "input", "expected", "output", "trace", "row")
    secrets: Iterable[str] = ()

    async def open(self) -> None:
        """Get ready: called once in a session, before the first call."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden

    @abstractmethod
    async def call(self, scored: Scored) -> Scores | Output:
        """Return the scores of one output, or an `Output` of them with what the call used.

        Raises:
            PermanentError: There is no score, and there would be none the next time.
        """
        ...

    async def close(self) -> None:
        """Let go of everything: called in the task that opened it, whatever happened."""
        return None  # noqa: RET501 - with an empty body, it would have to be overridden


MEMBERS = {
    "name": "what its column is called",
    "fingerprint": "a dict of strings: what its scores depend on",
    "endpoint": "whom its calls are paced with; None: nobody",
    "reads": "what it looks at, such as ['output', 'expected']",
    "secrets": "values that must not be written; () if there are none",
    "open": "async, called before the first call",
    "call": "async, returns the scores of one output",
    "close": "async, called after the last call",
}
"""What an evaluator has, and what for."""
