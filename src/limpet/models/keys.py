"""Where does a model's key come from?

From an environment variable by its name, read when the model is opened. Only Python code may pass
a literal key. Neither is ever shown: messages name the variable.
"""

import os
import re

from limpet.errors import LimpetError, SetupError
from limpet.transport.address import flaw_of_header

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Key:
    """The key of a model.

    Args:
        key: `${NAME}`, a literal key, or None: no key is sent.

    Raises:
        LimpetError: It is none of these.
    """

    def __init__(self, key: str | None) -> None:
        if key is not None and (not isinstance(key, str) or not key.strip()):
            raise LimpetError('key: must be "${NAME}" of an environment variable, or None')
        variable = _VARIABLE.fullmatch(key.strip()) if key else None
        self._variable = variable[1] if variable else None
        self._literal = None if variable else key
        if self._literal is not None:
            if "${" in self._literal:
                raise LimpetError('key: must be "${NAME}" of one environment variable, alone')
            self._checked(self._literal)

    def __repr__(self) -> str:
        if self._variable is not None:
            return f"${{{self._variable}}}"
        return "None" if self._literal is None else "<a key>"

    @property
    def value(self) -> str | None:
        """The key as it is now; None if there is none, or its variable is not set."""
        value = self._literal if self._variable is None else os.environ.get(self._variable)
        return value.strip() if value and value.strip() else None

    def read(self) -> str | None:
        """Return the key to send; None: none is needed.

        Raises:
            SetupError: Its variable is not set, or what it holds cannot be sent.
        """
        value = self.value
        if value is None and self._variable is not None:
            raise SetupError(
                f"the environment variable {self._variable}, which holds the model's key, is not "
                "set",
                hint=f"set {self._variable}, or use key=None for a server without keys",
            )
        if value is not None:
            self._checked(value)
        return value

    def _checked(self, value: str) -> None:
        flaw = flaw_of_header(value.strip())
        if flaw is None and not value.strip().isascii():
            flaw = "contains characters that a header cannot hold"
        if flaw is not None:
            name = "key" if self._variable is None else f"the environment variable {self._variable}"
            raise SetupError(f"{name}: the key {flaw}")

    @property
    def hint(self) -> str:
        """What to do when the server refuses it."""
        if self._variable is not None:
            return f"check the key in the environment variable {self._variable}, and run again"
        if self._literal is not None:
            return "check the key, and run again"
        return 'the server wants a key: set key="${NAME}", with the name of a variable that has it'
