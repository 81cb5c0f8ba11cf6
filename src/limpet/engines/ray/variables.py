"""Which environment variables must workers on other machines have?

Those that the code of a step reads. The values of most of them count for its results, and are sent.
Of secrets, only the names are: what a cluster is told can be read in its state and its logs.
"""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from limpet.fingerprints.identity import identity_of
from limpet.fingerprints.steps import code_of, declared_of
from limpet.fingerprints.walk.environment import is_of_the_machine
from limpet.secrets.names import is_secret_variable

_VARIABLE = "variable "


class Variables(NamedTuple):
    """The variables that a step reads, as far as they are set here.

    Attributes:
        values: The values of those that may be sent.
        secrets: The names of the others.
    """

    values: dict[str, str]
    secrets: list[str]


def variables_of(step: Any) -> Variables:
    """Return the environment variables that the code of a step reads."""
    names = sorted({name for name in _names(step) if name in os.environ})
    secrets = [name for name in names if is_secret_variable(name)]
    values = {name: os.environ[name] for name in names if name not in secrets}
    return Variables(values, secrets)


def _names(step: Any) -> Iterator[str]:
    for thing in code_of(step).values():
        identity = identity_of(thing)
        for part in (*identity.parts, *identity.left_out):
            name = part.removeprefix(_VARIABLE)
            if name != part and (is_secret_variable(name) or not is_of_the_machine(name)):
                yield name
    if (declared := declared_of(step)) is not None:
        yield from declared.env
