"""What may a user give as an evaluator, and what becomes of it?

An evaluator stays what it is; a function becomes one. Both may get another name or a declared
version. Whatever cannot work is an error here, before anything is spent.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, cast

from limpet.arguments import members_missing, members_text
from limpet.evaluators.builtin import BuiltIn
from limpet.evaluators.functions import FunctionEvaluator
from limpet.evaluators.naming import checked_name
from limpet.evaluators.protocol import MEMBERS, Evaluator, Scored, Scores
from limpet.evaluators.reads import checked_reads
from limpet.executors.details import UNSET, Unset
from limpet.fingerprints.declared import DependsOn, as_declared
from limpet.fingerprints.steps import CodeStep, code_of, declared_of, described_by, stated_by
from limpet.fingerprints.walk.result import digest_of
from limpet.text import one_line
from limpet.types import Output


def as_evaluator(
    thing: Any,
    name: str | None = None,
    version: str | None = None,
    *,
    endpoint: str | Unset | None = UNSET,
    depends_on: Any = None,
) -> Evaluator:
    """Return an evaluator for whatever the user gave.

    Args:
        thing: An `Evaluator`, or a function over some of output, expected, input, item, trace.
        name: What to call it; None: as it calls itself.
        version: Declares what its scores depend on, in place of its code.
        endpoint: Whom its calls are paced with; None: it calls nobody; not given: as it says, or
            a function with no other step's.
        depends_on: What else its scores depend on, as for `evaluate`.

    Raises:
        TypeError: It is neither, or its parameters are not among those.
        ValueError: It may not be called so.
    """
    known = _Known(version, as_declared(depends_on))
    if not isinstance(thing, type) and not members_missing(thing, MEMBERS):
        return _renamed(cast("Evaluator", thing), name, known, endpoint)
    if not callable(thing) or (isinstance(thing, type) and hasattr(thing, "call")):
        raise TypeError(_refusal(thing))
    return FunctionEvaluator(thing, name, version, endpoint, known.depends_on)


def as_evaluators(things: Any) -> list[Evaluator]:
    """Return an evaluator for each of a list, or for each of a dict under its key as its name.

    Args:
        things: Evaluators and functions; None: there are none.

    Raises:
        TypeError: They are not in a list or a dict, or one of them is no evaluator.
        ValueError: Two have the same name, or one has a name that none may have.
    """
    evaluators = [as_evaluator(thing, name) for name, thing in _named(things)]
    seen: dict[str, str] = {}
    for one in evaluators:
        # Some file systems do not tell capitals from small letters, and a name is a file's.
        folded = one.name.lower()
        if folded in seen:
            raise ValueError(_clash(seen[folded], one.name))
        seen[folded] = one.name
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


def _clash(first: str, second: str) -> str:
    names = repr(first) if first == second else f"{first!r} and {second!r}"
    return f"two evaluators are called {names}: give one of them another name with name=…"


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """What was declared of an evaluator: a version in place of its code, or what else counts."""

    version: str | None = None
    depends_on: DependsOn | None = None


class _Renamed(CodeStep, Evaluator):
    """An evaluator under another name, or with another fingerprint."""

    def __init__(
        self,
        inner: Evaluator,
        name: str,
        known: _Known,
        endpoint: str | None,
    ) -> None:
        self.name = name
        self._known = known
        self.endpoint = endpoint
        self.reads = inner.reads
        self._inner = inner

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {self._inner!r}>"

    @property
    def code(self) -> Mapping[str, Any]:
        return code_of(self._inner) if self._known.version is None else {}

    @property
    def stated(self) -> Mapping[str, str]:
        version = self._known.version
        return stated_by(self._inner) if version is None else {"version": digest_of(version)}

    @property
    def described(self) -> Mapping[str, Any]:
        version = self._known.version
        return described_by(self._inner) if version is None else {"version": version}

    @property
    def depends_on(self) -> DependsOn | None:
        if self._known.version is not None:
            return None
        return self._known.depends_on or declared_of(self._inner)

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        return self._inner.secrets

    async def open(self) -> None:
        await self._inner.open()

    async def call(self, scored: Scored) -> Scores | Output:
        return await self._inner.call(scored)

    async def close(self) -> None:
        await self._inner.close()


def _renamed(
    thing: Evaluator, name: str | None, known: _Known, endpoint: str | Unset | None
) -> Evaluator:
    if not isinstance(thing, CodeStep) and not isinstance(thing.fingerprint, Mapping):
        raise TypeError(
            f"{one_line(thing)}: its fingerprint is {one_line(thing.fingerprint)}; make it a dict "
            "of texts, or a property that returns one"
        )
    checked_reads(thing.reads, thing.name)
    wanted = checked_name(thing.name if name is None else name)
    called = thing.endpoint if endpoint is UNSET else endpoint
    if wanted == thing.name and known == _Known() and called == thing.endpoint:
        return thing
    if isinstance(thing, BuiltIn) and known == _Known() and called is None:
        return dataclasses.replace(thing, name=wanted)
    return _Renamed(thing, wanted, known, called)


def _refusal(thing: Any) -> str:
    if isinstance(thing, type):
        return f"{thing.__name__} is a class: give an instance of it, {thing.__name__}(…)"
    missing = members_missing(thing, MEMBERS)
    if len(missing) < len(MEMBERS):
        return (
            f"{one_line(thing)} is no evaluator yet: {members_text(missing)}; a subclass of "
            "limpet.Evaluator has defaults for all but name, fingerprint and call"
        )
    return (
        f"{one_line(thing)} is no evaluator: give a function over some of output, expected, "
        "input, item, trace, or one of limpet.evaluators"
    )
