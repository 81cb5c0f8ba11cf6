"""How does a user's function become an evaluator?

An async one runs on the event loop, a plain one in a thread. The threads are not the evaluator's
own: whoever runs many calls lends it a pool and closes that in the end; without one each call has
a thread that ends with it, so that nothing is ever left behind.
"""

from typing import Any

from limpet.evaluators.parameters import wanted_by
from limpet.evaluators.protocol import Scored, Scores
from limpet.evaluators.score_values import as_scores
from limpet.executors.threads import Threads, is_async, is_awaitable
from limpet.fingerprints.declared import DependsOn
from limpet.fingerprints.steps import OwnCode

_ONE_EACH = Threads()
_ONE_EACH.close()  # closed, it keeps no thread: each goes when its call is done


class FunctionEvaluator(OwnCode):
    """A function that scores.

    Args:
        function: Any callable over some of the five fields.
        name: What it is called.
        version: Declares what its scores depend on, in place of its code.
        endpoint: The provider it calls, if any.
        threads: Where it runs if it is a plain function.
        depends_on: What else its scores depend on.

    Raises:
        TypeError: Its parameters are not some of the five.
    """

    def __init__(
        self,
        function: Any,
        name: str,
        version: str | None = None,
        endpoint: str | None = None,
        threads: Threads | None = None,
        depends_on: DependsOn | None = None,
    ) -> None:
        super().__init__(function, version, depends_on)
        self.name = name
        self.endpoint = endpoint
        self._function = function
        self._wanted = wanted_by(function, name)
        self._is_async = is_async(function)
        self._threads = threads or _ONE_EACH

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {self._function!r}>"

    async def call(self, scored: Scored) -> Scores:
        if self._is_async:
            value = await self._ask(scored)
        else:
            value = await self._threads.run(self._ask, scored)
            if is_awaitable(value):  # a lambda around an async function
                value = await value
        return as_scores(value, self.name)

    def _ask(self, scored: Scored) -> Any:
        return self._wanted.call(self._function, scored)
