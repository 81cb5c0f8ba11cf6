"""Which arguments does a configuration bind to the user's function or class?

They are part of its identity, by name and value: a changed argument is a changed workflow. A string
under the name of a secret is not: another key gives the same answers.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import OwnCode
from limpet.secrets.in_configs import without_secrets
from limpet.text import hint_near, one_line, quoted

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ArgumentFlaw(NamedTuple):
    """What is wrong with an argument; without a name, with all of them together."""

    name: str
    text: str
    hint: str | None = None


class BoundCode(OwnCode):
    """The user's own code, and the arguments bound to it."""

    def __init__(self, thing: Any, version: str | None, args: Mapping[str, Any] | None) -> None:
        super().__init__(thing, version)
        self._args = dict(args or {})

    @property
    def stated(self) -> Mapping[str, str]:
        counted = {name: digest(value) for name, value in self._counted.items()}
        return {**super().stated, **counted}

    @property
    def described(self) -> Mapping[str, Any]:
        return {**super().described, **self._counted}

    @property
    def _counted(self) -> dict[str, Any]:
        # Not the bare name: the code may have a part of that name.
        counted: dict[str, Any] = without_secrets(self._args)
        return {f"argument {name}": value for name, value in counted.items()}


def flaws_of_arguments(thing: Any, args: Mapping[str, Any]) -> Iterator[ArgumentFlaw]:
    """Yield the arguments that a function or class cannot take."""
    try:
        parameters = inspect.signature(thing).parameters
    except (ValueError, TypeError):  # without a signature, the first call shows it
        return
    name_of_thing = one_line(getattr(thing, "__name__", type(thing).__name__))
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = [name for name, p in parameters.items() if p.kind in _NAMED]
    for name in args:
        parameter = parameters.get(name)
        if name in named or (takes_any and not _is_by_position(parameter)):
            continue
        if _is_by_position(parameter):
            yield ArgumentFlaw(name, f"{name_of_thing} takes it by position only")
        else:
            known = f"its parameters: {', '.join(named)}" if named else "it has no parameters"
            hint = hint_near(name, named) or known
            yield ArgumentFlaw(name, f"{name_of_thing} has no parameter {quoted(name)}", hint)
    if not isinstance(thing, type) and named and all(p in args for p in parameters):
        yield ArgumentFlaw(
            "", f"sets every parameter of {name_of_thing}", "leave one for the input"
        )


def _is_by_position(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and parameter.kind is parameter.POSITIONAL_ONLY


def first_free(function: Any, args: Mapping[str, Any]) -> str | None:
    """Return the name of the parameter that takes the input; None: it is passed by position."""
    parameters = inspect.signature(function).parameters.values() if args else ()
    free = next((p for p in parameters if p.name not in args), None)
    return free.name if free is not None and free.kind in _NAMED else None
