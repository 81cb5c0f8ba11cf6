"""How does a user's function become an evaluator?

Async functions run on the event loop, others in threads: while the evaluator is open, in reusable
ones; otherwise in a thread that ends with the call, so that nothing is left behind.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

from limpet.evaluators.inputs import Inputs
from limpet.evaluators.parameters import wanted_by
from limpet.evaluators.protocol import Evaluator, Scored, Scores, checked_name
from limpet.evaluators.score_values import as_scores
from limpet.executors.details import UNSET, Unset
from limpet.executors.threads import Threads, is_async, is_awaitable
from limpet.fingerprints.declared import DependsOn, as_declared
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import OwnCode
from limpet.types import Output, Scale

_UNPOOLED = Threads()
_UNPOOLED.close()  # closed, it reuses no thread: each ends with its call


class FunctionEvaluator(OwnCode, Evaluator):
    """A function that scores. It can still be called as a function.

    See `evaluator` for the arguments.
    """

    def __init__(
        self,
        function: Any,
        name: str | None = None,
        version: str | None = None,
        endpoint: str | Unset | None = UNSET,
        depends_on: DependsOn | None = None,
        reads: Iterable[str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        scale: Scale | None = None,
    ) -> None:
        super().__init__(function, version, depends_on)
        self.scale = scale or Scale()
        self.name = checked_name(_name_of(function) if name is None else name)
        self.endpoint = self.name if endpoint is UNSET else endpoint
        self._function = function
        self._inputs = Inputs(inputs or {}, self.name)
        self._wanted, declared = wanted_by(function, self.name, reads, self._inputs.templates)
        self.reads = declared | self._inputs.reads
        self.needs = self._wanted.columns
        self._is_async = is_async(function)
        self._threads = _UNPOOLED

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {self._function!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)

    @property
    def stated(self) -> Mapping[str, str]:
        templates = self._inputs.templates
        return {**super().stated, **({"inputs": digest(templates)} if templates else {})}

    @property
    def described(self) -> Mapping[str, Any]:
        templates = self._inputs.templates
        return {**super().described, **({"inputs": templates} if templates else {})}

    async def open(self) -> None:
        self._threads = Threads()

    async def call(self, scored: Scored) -> Scores | Output:
        if self._is_async:
            value = self._score(scored)
        else:
            value = await self._threads.run(self._score, scored)
        if is_awaitable(value):  # also from a lambda around an async function
            value = await value
        return as_scores(value, self.name)

    def _score(self, scored: Scored) -> Any:
        return self._wanted.call(self._function, scored, self._inputs.values(scored))

    async def close(self) -> None:
        self._threads.close()
        self._threads = _UNPOOLED


def _name_of(function: Any) -> str:
    """Return a function's name; for a partial its function's, for an object its class's.

    Raises:
        ValueError: It is a lambda, which has no name.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ValueError(
            "a lambda has no name: give it one with as_evaluator(…, name=…), or as the key of a "
            'dict, evaluators={"short": lambda output: …}'
        )
    return name


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
    range: tuple[float, float] | None = None,
    group: str | None = None,
    higher_is_better: bool = True,
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
    range: tuple[float, float] | None = None,  # noqa: A002 - as in eval.yml
    group: str | None = None,
    higher_is_better: bool = True,
) -> FunctionEvaluator | Callable[[Callable[..., Any]], FunctionEvaluator]:
    """Turn a function into an evaluator: `@evaluator`, or `@evaluator(reads=["output"])`.

    Args:
        function: A function over some of output, expected, input, item, trace, and columns of the
            dataset.
        name: Its name; None: the function's.
        reads: What it reads: "output", "expected", "input", "trace", "id", "row", "row.<field>".
            None: everything its parameters name. It sees nothing else, and runs again only when
            one of these changes.
        endpoint: The endpoint its calls are paced with. Functions with the same endpoint share a
            pacer; None: it calls none. By default it has a pacer of its own.
        version: Declares what its scores depend on, instead of its code.
        depends_on: What its code does not show, as for `evaluate`.
        range: The lowest and the highest score that it can give. None: 0 to 1 if all scores are in
            it, else any number.
        group: The field of the dataset that says which items belong together.
        higher_is_better: Whether a higher score is better.

    Raises:
        TypeError: Its parameters are not among those, or not among what it reads.
        ValueError: The name is not allowed, `reads` names something unknown, or `range` is empty.
    """
    scale = Scale(range, group, higher_is_better)

    def decorate(function: Callable[..., Any]) -> FunctionEvaluator:
        declared = as_declared(depends_on)
        return FunctionEvaluator(function, name, version, endpoint, declared, reads, None, scale)

    return decorate if function is None else decorate(function)
