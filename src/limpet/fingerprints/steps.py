"""Which steps of a run contain the user's code, and what is that code?

Every step has a fingerprint: what its results depend on. A step that contains the user's code also
names the code, which is inspected when a run is planned and when it ends.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.declared import DependsOn
from limpet.fingerprints.explaining.shown import Shown, ShownParts, shown_data
from limpet.fingerprints.identity import Identity, identity_of, note_end
from limpet.fingerprints.walk.result import digest_of

logger = logging.getLogger("limpet.fingerprints")


class CodeStep(ABC):
    """A step that contains the user's own code."""

    @property
    @abstractmethod
    def code(self) -> Mapping[str, Any]:
        """The user's functions, classes and objects, by the prefix of their part names."""

    @property
    def stated(self) -> Mapping[str, str]:
        """What else its results depend on: a digest for each part."""
        return {}

    @property
    def described(self) -> Mapping[str, Any]:
        """The values behind `stated` that can be shown: plain data without secrets."""
        return {}

    @property
    def depends_on(self) -> DependsOn | None:
        """The declared dependencies that its code does not show."""
        return None

    if TYPE_CHECKING:  # the protocols declare a plain attribute
        fingerprint: Mapping[str, str]
    else:

        @property
        def fingerprint(self) -> Mapping[str, str]:
            """What its results depend on now, part by part."""
            return Inspection(self).identity.parts


class OwnCode(CodeStep):
    """A step that is a single function, class or object of the user.

    Args:
        thing: The function, class or object.
        version: A declared version, which replaces the code and everything else.
        depends_on: Dependencies that the code does not show.
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
    def stated(self) -> Mapping[str, str]:
        return {} if self._version is None else {"version": digest_of(self._version)}

    @property
    def described(self) -> Mapping[str, Any]:
        return {} if self._version is None else {"version": self._version}

    @property
    def depends_on(self) -> DependsOn | None:
        return self._depends_on if self._version is None else None


def code_of(step: Any) -> Mapping[str, Any]:
    """Return the user's code in a step."""
    return step.code if isinstance(step, CodeStep) else {}


def declared_of(step: Any) -> DependsOn | None:
    """Return the declared dependencies of a step."""
    return step.depends_on if isinstance(step, CodeStep) else None


def stated_by(step: Any) -> Mapping[str, str]:
    """Return the parts that a step states itself."""
    return step.stated if isinstance(step, CodeStep) else dict(step.fingerprint)


def described_by(step: Any) -> Mapping[str, Any]:
    """Return the values of the parts that a step states itself, if it shows them."""
    described = getattr(step, "described", None)
    return described if isinstance(described, Mapping) else {}


class Inspection:
    """The inspection of a step, when a run is planned and when it ends.

    Args:
        step: A workflow or an evaluator.
        depends_on: Dependencies declared outside the step.
        secrets: Values that do not count.

    Attributes:
        identity: What its results depend on.
    """

    def __init__(
        self, step: Any, depends_on: DependsOn | None = None, secrets: Iterable[str] = ()
    ) -> None:
        self._secrets = tuple(secrets)
        self._inspected = [
            (prefix, thing, identity_of(thing, secrets=self._secrets))
            for prefix, thing in code_of(step).items()
        ]
        parts = dict(stated_by(step))
        stated = list(parts)
        found = dict(parts)
        declared_shown: list[ShownParts] = []
        left_out: dict[str, str] = {}
        state: list[str] = []
        for prefix, _, identity in self._inspected:
            parts |= {prefix + name: digest for name, digest in identity.parts.items()}
            found |= {prefix + name: digest for name, digest in identity.found.items()}
            left_out |= {prefix + name: why for name, why in identity.left_out.items()}
            state += [prefix + name for name in identity.state]
        for declared in (declared_of(step), depends_on):
            if declared is not None:
                more = declared.identity()
                parts |= more.parts
                found |= more.parts
                left_out |= more.left_out
                declared_shown.append(more.shown)

        def show() -> dict[str, Shown]:
            shown = {name: Shown("setting") for name in stated} | shown_data(described_by(step))
            for prefix, _, identity in self._inspected:
                shown |= {prefix + name: part for name, part in identity.shown.parts.items()}
            for content in declared_shown:
                shown |= content.parts
            return shown

        self.identity = Identity(
            parts,
            left_out,
            tuple(state),
            found,
            modules=frozenset().union(*(identity.modules for _, _, identity in self._inspected)),
            code=frozenset().union(*(identity.code for _, _, identity in self._inspected)),
            sources=frozenset().union(*(identity.sources for _, _, identity in self._inspected)),
            shown=ShownParts(show),
        )

    @property
    def is_class(self) -> bool:
        """Whether a run makes an object of it, which is not inspected."""
        return any(issubclass(type(thing), type) for _, thing, _ in self._inspected)

    def forget(self) -> None:
        """Free what is only needed to show the parts."""
        for _, _, identity in self._inspected:
            identity.shown.forget()
        self.identity.shown.forget()

    def note_end(self) -> tuple[str, ...]:
        """Inspect again; return the names of the parts that changed during the run."""
        state: list[str] = []
        for prefix, thing, planned in self._inspected:
            try:
                names = note_end(thing, planned, secrets=self._secrets)
            except Exception:  # all results are on disk: at worst they run again
                logger.exception("changes of state during the run could not be read")
            else:
                state += [prefix + name for name in names]
        return tuple(state)
