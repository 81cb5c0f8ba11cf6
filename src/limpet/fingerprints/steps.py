"""Which of a run's steps are made of code that can be looked at, and what is the code?

A step says itself what its results depend on: its fingerprint. One that is made of the user's own
code says where that code is, and is looked at when a run is planned and when it ends.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.declared import DependsOn
from limpet.fingerprints.explaining.shown import Showing, Shown, shown_data
from limpet.fingerprints.identity import Identity, identity_of, note_end
from limpet.fingerprints.walk.result import digest_of

logger = logging.getLogger("limpet.fingerprints")


class LookedAt(ABC):
    """A step that is made of the user's own code, at least in part."""

    @property
    @abstractmethod
    def code(self) -> Mapping[str, Any]:
        """Functions, classes and objects of the user's own, by what their names begin with."""

    @property
    def said(self) -> Mapping[str, str]:
        """What its results depend on besides: part by part, each a digest."""
        return {}

    @property
    def described(self) -> Mapping[str, Any]:
        """What that is, in plain data without secrets, as far as it can be shown."""
        return {}

    @property
    def depends_on(self) -> DependsOn | None:
        """What was declared that its code does not show."""
        return None

    if TYPE_CHECKING:  # one that may be set has an attribute: see the protocols
        fingerprint: Mapping[str, str]
    else:

        @property
        def fingerprint(self) -> Mapping[str, str]:
            """What its results depend on, part by part, as it is now."""
            return Look(self).identity.parts


class OwnCode(LookedAt):
    """A step that is one function, class or object of the user's own.

    Args:
        thing: What it is.
        version: Declares what it is, in place of its code and of all else.
        depends_on: What its code does not show.
    """

    def __init__(
        self, thing: Any, version: str | None = None, depends_on: DependsOn | None = None
    ) -> None:
        self._thing = thing
        self._version = version
        self._depends_on = depends_on

    @property
    def code(self) -> Mapping[str, Any]:
        return {"": self._thing} if self._version is None else {}

    @property
    def said(self) -> Mapping[str, str]:
        return {} if self._version is None else {"version": digest_of(self._version)}

    @property
    def described(self) -> Mapping[str, Any]:
        return {} if self._version is None else {"version": self._version}

    @property
    def depends_on(self) -> DependsOn | None:
        return self._depends_on if self._version is None else None


def code_of(step: Any) -> Mapping[str, Any]:
    """Return what of a step can be looked at."""
    return step.code if isinstance(step, LookedAt) else {}


def declared_of(step: Any) -> DependsOn | None:
    """Return what was declared of a step."""
    return step.depends_on if isinstance(step, LookedAt) else None


def said_by(step: Any) -> Mapping[str, str]:
    """Return what a step says of itself."""
    return step.said if isinstance(step, LookedAt) else dict(step.fingerprint)


def described_by(step: Any) -> Mapping[str, Any]:
    """Return what the parts are that a step says of itself, as far as it shows them."""
    described = getattr(step, "described", None)
    return described if isinstance(described, Mapping) else {}


class Look:
    """A step as it is when a run is planned, and what becomes of it.

    Args:
        step: A workflow or an evaluator.
        depends_on: What was declared beside what the step itself says.
        secrets: Values that do not count.

    Attributes:
        identity: What its results depend on.
    """

    def __init__(
        self, step: Any, depends_on: DependsOn | None = None, secrets: Iterable[str] = ()
    ) -> None:
        self._secrets = tuple(secrets)
        self._looks = [
            (begin, thing, identity_of(thing, secrets=self._secrets))
            for begin, thing in code_of(step).items()
        ]
        parts = dict(said_by(step))
        said = list(parts)
        others: list[Showing] = []
        left_out: dict[str, str] = {}
        state: list[str] = []
        for begin, _, identity in self._looks:
            parts |= {begin + name: digest for name, digest in identity.parts.items()}
            left_out |= {begin + name: why for name, why in identity.left_out.items()}
            state += [begin + name for name in identity.state]
        for declared in (declared_of(step), depends_on):
            if declared is not None:
                found = declared.look()
                parts |= found.parts
                left_out |= found.left_out
                others.append(found.shown)

        def show() -> dict[str, Shown]:
            shown = {name: Shown("setting") for name in said} | shown_data(described_by(step))
            for begin, _, identity in self._looks:
                shown |= {begin + name: part for name, part in identity.shown.parts.items()}
            for other in others:
                shown |= other.parts
            return shown

        self.identity = Identity(
            parts,
            left_out,
            tuple(state),
            modules=frozenset().union(*(identity.modules for _, _, identity in self._looks)),
            code=frozenset().union(*(identity.code for _, _, identity in self._looks)),
            shown=Showing(show),
        )

    def forget(self) -> None:
        """Let go of what is only there to be shown."""
        for _, _, identity in self._looks:
            identity.shown.forget()
        self.identity.shown.forget()

    def note_end(self) -> tuple[str, ...]:
        """Look again; return the names of what changed while the run was going on."""
        state: list[str] = []
        for begin, thing, planned in self._looks:
            try:
                names = note_end(thing, planned, secrets=self._secrets)
            except Exception:  # every result is on disk: at worst they are made again
                logger.exception("what changed during the run could not be read")
            else:
                state += [begin + name for name in names]
        return tuple(state)
