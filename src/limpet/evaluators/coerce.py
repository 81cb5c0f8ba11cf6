"""How does the user's object become an evaluator?

An evaluator stays unchanged; a function or an evaluator of another library is wrapped. Each can get
another name or a declared version. An unusable object is an error here, before anything is spent.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from limpet.arguments import members_missing, members_text
from limpet.evaluators.builtin import BuiltIn
from limpet.evaluators.contains import contains
from limpet.evaluators.exact_match import exact_match, one_of
from limpet.evaluators.functions import FunctionEvaluator
from limpet.evaluators.json_match import json_match
from limpet.evaluators.libraries.recognised import is_class_of_library, recognised
from limpet.evaluators.numeric import numeric
from limpet.evaluators.protocol import MEMBERS, Evaluator, Scored, Scores, checked_name, scale_of
from limpet.evaluators.reads import calls_of, checked_reads, needs_of, replies_of
from limpet.evaluators.regex import regex
from limpet.evaluators.similarity import similarity
from limpet.evaluators.trajectory import trajectory
from limpet.executors.details import UNSET, Unset
from limpet.fingerprints.steps import (
    CodeStep,
    DependsOn,
    OwnCode,
    as_declared,
    code_of,
    declared_of,
    described_by,
    stated_by,
)
from limpet.shapes import Output, Scale
from limpet.text import did_you_mean, one_line
from limpet.usage import reserves_each_call

# ---- The built-in evaluators, by name. ----------------------------------------------------------

BUILT_INS: Mapping[str, Callable[..., Any]] = {
    create.__name__: create
    for create in (
        contains,
        exact_match,
        json_match,
        numeric,
        one_of,
        regex,
        similarity,
        trajectory,
    )
}


def built_in_for(thing: Any) -> Evaluator | None:
    """Return the built-in evaluator for `"exact_match"` or `limpet.exact_match`.

    Returns None for anything but a string or the constructor of a built-in evaluator.

    Raises:
        TypeError: No built-in evaluator has this name.
    """
    if isinstance(thing, str):
        if thing not in BUILT_INS:
            near = did_you_mean(thing, BUILT_INS)
            raise TypeError(
                f"{one_line(thing)!r} is not a built-in evaluator{near} (built in: "
                f"{', '.join(BUILT_INS)}; your own: give the function itself, not its name)"
            )
        thing = BUILT_INS[thing]
    elif not any(thing is create for create in BUILT_INS.values()):
        return None
    made: Evaluator = thing()
    return made


# ---- How does the user's object become an evaluator? --------------------------------------------


def as_evaluator(
    thing: Any,
    name: str | None = None,
    version: str | None = None,
    *,
    endpoint: str | Unset | None = UNSET,
    depends_on: Any = None,
    inputs: Mapping[str, Any] | None = None,
    scale: Scale | None = None,
) -> Evaluator:
    """Return an evaluator for an evaluator, another library's evaluator, or a function.

    Args:
        thing: An `Evaluator`, a built-in one's constructor or its name, an evaluator of another
            library, or a function of some of output, expected, input, item, trace.
        name: Its name; None: its own.
        version: Declares what its scores depend on, instead of its code.
        endpoint: The endpoint its calls are paced with; None: it calls none; by default, the
            evaluator's own, or for a function one of its own.
        depends_on: What else its scores depend on, as for `evaluate`.
        inputs: Templates that fill the fields of another library's evaluator, or parameters of a
            function: `{"context": "{{documents}}"}`.
        scale: What its scores mean; None: the evaluator's own.

    Raises:
        TypeError: It is none of them, or one of its fields or parameters has no value.
        ValueError: The name is not allowed.
    """
    declared = as_declared(depends_on)
    thing = built_in_for(thing) or thing
    if not isinstance(thing, type) and not members_missing(thing, MEMBERS):
        if inputs is not None:
            raise TypeError(
                f"{one_line(thing)}: inputs is for functions and other libraries' evaluators"
            )
        return _renamed(cast("Evaluator", thing), name, version, declared, endpoint, scale)
    if (adapter := recognised(thing)) is not None:
        adapted = adapter(thing, name, inputs)
        if endpoint is not UNSET:
            adapted.endpoint = endpoint  # it paces its requests itself
        return _renamed(adapted, name, version, declared, UNSET, scale)
    is_class = isinstance(thing, type) and (hasattr(thing, "call") or is_class_of_library(thing))
    if not callable(thing) or is_class:
        raise TypeError(_why_not(thing))
    return FunctionEvaluator(thing, name, version, endpoint, declared, None, inputs, scale)


def as_evaluators(things: Any) -> list[Evaluator]:
    """Return an evaluator for each element of a list, or each value of a dict, named by its key.

    Args:
        things: Evaluators and functions; None: none.

    Raises:
        TypeError: They are not in a list or a dict, or one of them is not an evaluator.
        ValueError: Two have the same name, or a name is not allowed.
    """
    evaluators = [as_evaluator(thing, name) for name, thing in _named(things)]
    seen: dict[str, str] = {}
    for evaluator in evaluators:
        name, folded = evaluator.name, evaluator.name.lower()  # some file systems ignore case
        if folded in seen:
            names = repr(name) if name == seen[folded] else f"{seen[folded]!r} and {name!r}"
            raise ValueError(
                f"two evaluators are called {names}: give one of them another name with name=…"
            )
        seen[folded] = name
    return evaluators


def _named(things: Any) -> list[tuple[str | None, Any]]:
    if things is None:
        return []
    if isinstance(things, Mapping):
        return [(checked_name(name), thing) for name, thing in things.items()]
    if isinstance(things, (str, bytes)) or not isinstance(things, Iterable):
        raise TypeError(
            f"evaluators={one_line(things)}: must be a list of evaluators and functions, or a dict "
            "of them by name"
        )
    return [(None, thing) for thing in things]


class _Renamed(OwnCode, Evaluator):
    """An evaluator with another name, endpoint, scale or fingerprint."""

    def __init__(
        self,
        inner: Evaluator,
        name: str,
        version: str | None,
        depends_on: DependsOn | None,
        endpoint: str | None,
        scale: Scale,
    ) -> None:
        super().__init__(inner, version, depends_on)
        self.name = name
        self.scale = scale
        self.endpoint = endpoint
        self.reads = inner.reads
        self.needs = needs_of(inner)
        self.calls_each = calls_of(inner)
        self._inner = inner

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {self._inner!r}>"

    @property
    def code(self) -> Mapping[str, Any]:
        return code_of(self._inner) if self._version is None else {}

    @property
    def stated(self) -> Mapping[str, str]:
        return stated_by(self._inner) if self._version is None else super().stated

    @property
    def described(self) -> Mapping[str, Any]:
        return described_by(self._inner) if self._version is None else super().described

    @property
    def depends_on(self) -> DependsOn | None:
        if self._version is not None:
            return None
        return self._depends_on or declared_of(self._inner)

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        return self._inner.secrets

    @property
    def reserves(self) -> bool:
        """Whether each of its requests reserves what it may use."""
        return reserves_each_call(self._inner)

    @property
    def model_names(self) -> Collection[str] | None:
        """The names of the models that it asks; None: unknown."""
        return getattr(self._inner, "model_names", None)

    def replies(self, scored: Scored) -> Sequence[Any] | None:
        """Return what each reply behind a score depends on; None: it has no replies."""
        return replies_of(self._inner, scored)

    async def open(self) -> None:
        await self._inner.open()

    async def call(self, scored: Scored) -> Scores | Output:
        return await self._inner.call(scored)

    async def close(self) -> None:
        await self._inner.close()


def _renamed(
    evaluator: Evaluator,
    name: str | None,
    version: str | None,
    depends_on: DependsOn | None,
    endpoint: str | Unset | None,
    scale: Scale | None,
) -> Evaluator:
    if not isinstance(evaluator, CodeStep) and not isinstance(evaluator.fingerprint, Mapping):
        raise TypeError(
            f"{one_line(evaluator)}: its fingerprint is {one_line(evaluator.fingerprint)}; make it "
            "a dict of strings, or a property that returns one"
        )
    checked_reads(evaluator.reads, evaluator.name)
    name = checked_name(evaluator.name if name is None else name)
    endpoint = evaluator.endpoint if endpoint is UNSET else endpoint
    own = scale_of(evaluator)
    scale = own if scale is None else scale
    declares_nothing = version is None and depends_on is None and scale == own
    if declares_nothing and (name, endpoint) == (evaluator.name, evaluator.endpoint):
        return evaluator
    if declares_nothing and isinstance(evaluator, BuiltIn) and endpoint is None:
        return dataclasses.replace(evaluator, name=name)
    return _Renamed(evaluator, name, version, depends_on, endpoint, scale)


def _why_not(thing: Any) -> str:
    """Return the message for an object that cannot become an evaluator."""
    if isinstance(thing, type):
        return f"{thing.__name__} is a class: give an instance of it, {thing.__name__}(…)"
    missing = members_missing(thing, MEMBERS)
    if len(missing) < len(MEMBERS):
        return (
            f"{one_line(thing)} is not an evaluator yet: {members_text(missing)}; a subclass of "
            "limpet.Evaluator has defaults for all but name, fingerprint and call"
        )
    return (
        f"{one_line(thing)} is not an evaluator: give a function of some of output, expected, "
        "input, item, trace, one of limpet.evaluators, or an evaluator of another library"
    )
