"""How does a user's function become an evaluator?

An async one runs on the event loop, a plain one in a thread: while it is open, in one of a pool;
else each call has a thread that ends with it, so that nothing is ever left behind.
"""

from collections.abc import Callable, Iterable
from typing import Any, overload

from limpet.evaluators.naming import checked_name, name_of
from limpet.evaluators.parameters import wanted_by
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.evaluators.score_values import as_scores
from limpet.executors.details import UNSET, Unset
from limpet.executors.threads import Threads, is_async, is_awaitable
from limpet.fingerprints.declared import DependsOn, as_declared
from limpet.fingerprints.steps import OwnCode
from limpet.types import Output

_ONE_EACH = Threads()
_ONE_EACH.close()  # closed, it keeps no thread: each goes when its call is done


class FunctionEvaluator(OwnCode, Evaluator):
    """A function that scores. It can still be called as the function that it is.

    Args:
        function: Any callable over some of the five fields.
        name: What it is called; None: as it calls itself.
        version: Declares what its scores depend on, in place of its code.
        endpoint: Whom its calls are paced with; None: it calls nobody; not given: with no other
            step's.
        depends_on: What else its scores depend on.
        reads: What it reads of what it is given; None: all that its parameters name.

    Raises:
        TypeError: Its parameters are not some of the five, or not among what it reads.
        ValueError: It may not be called so.
    """

    def __init__(
        self,
        function: Any,
        name: str | None = None,
        version: str | None = None,
        endpoint: str | Unset | None = UNSET,
        depends_on: DependsOn | None = None,
        reads: Iterable[str] | None = None,
    ) -> None:
        super().__init__(function, version, depends_on)
        self.name = checked_name(name_of(function) if name is None else name)
        self.endpoint = self.name if endpoint is UNSET else endpoint
        self._function = function
        self._wanted, self.reads = wanted_by(function, self.name, reads)
        self._is_async = is_async(function)
        self._threads = _ONE_EACH

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {self._function!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)

    async def open(self) -> None:
        self._threads = Threads()

    async def call(self, scored: Scored) -> Scores | Output:
        if self._is_async:
            value = await self._ask(scored)
        else:
            value = await self._threads.run(self._ask, scored)
            if is_awaitable(value):  # a lambda around an async function
                value = await value
        return as_scores(value, self.name)

    def _ask(self, scored: Scored) -> Any:
        return self._wanted.call(self._function, scored)

    async def close(self) -> None:
        self._threads.close()
        self._threads = _ONE_EACH


@overload
def evaluator(function: Callable[..., Any], /) -> FunctionEvaluator: ...


@overload
def evaluator(
    *,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    endpoint: str | Unset | None = UNSET,
    version: str | None = None,
    depends_on: Any = None,
) -> Callable[[Callable[..., Any]], FunctionEvaluator]: ...


def evaluator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    endpoint: str | Unset | None = UNSET,
    version: str | None = None,
    depends_on: Any = None,
) -> FunctionEvaluator | Callable[[Callable[..., Any]], FunctionEvaluator]:
    """Make an evaluator of a function: `@evaluator`, or `@evaluator(reads=["output"])`.

    Args:
        function: A function over some of output, expected, input, item, trace.
        name: What to call it; None: as it calls itself.
        reads: What it reads: "output", "expected", "input", "trace", "id", "row", "row.<field>".
            None: all that its parameters name. It is given nothing else, and its scores are made
            again only when one of these changes.
        endpoint: Whom its calls are paced with. Functions with the same endpoint share a pacer;
            None: it calls nobody. Not given: it has a pacer of its own.
        version: Declares what its scores depend on, in place of its code.
        depends_on: What its code does not show, as for `evaluate`.

    Raises:
        TypeError: Its parameters cannot be given.
        ValueError: It may not be called so, or `reads` names something unknown.
    """

    def made(function: Callable[..., Any]) -> FunctionEvaluator:
        declared = as_declared(depends_on)
        return FunctionEvaluator(function, name, version, endpoint, declared, reads)

    return made if function is None else made(function)
