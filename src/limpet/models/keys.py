"""Which key does a call send?"""

import itertools
import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TypeVar

from limpet.errors import LimpetError, QuotaExhaustedError, SetupError, wrong_argument
from limpet.models.failures import QUOTA_HINT, KeyRefusedError
from limpet.pacing.observation import carrying_endpoint
from limpet.pacing.signals import classify
from limpet.transport.address import flaw_of_header

# ---- Where does a model's key come from? --------------------------------------------------------
#
# From an environment variable by its name, read when the model is opened. Only Python code may
# pass a literal key. Neither is ever shown: messages name the variable.

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Key:
    """The key of a model.

    Args:
        key: `${NAME}`, a literal key, or None: no key is sent.

    Attributes:
        variable: The name of its environment variable; None: it has none.

    Raises:
        LimpetError: It is something else.
    """

    def __init__(self, key: str | None) -> None:
        if key is not None and (not isinstance(key, str) or not key.strip()):
            raise wrong_argument("key", 'must be "${NAME}" for an environment variable, or None')
        variable = _VARIABLE.fullmatch(key.strip()) if key else None
        self.variable = variable[1] if variable else None
        self._literal = None if variable else key
        if self._literal is not None:
            if "${" in self._literal:
                raise wrong_argument("key", 'must be "${NAME}" for one environment variable, alone')
            self._checked(self._literal)

    def __repr__(self) -> str:
        if self.variable is not None:
            return f"${{{self.variable}}}"
        return "None" if self._literal is None else "<a key>"

    @property
    def value(self) -> str | None:
        """The key as it is now; None if there is none, or its variable is not set."""
        value = self._literal if self.variable is None else os.environ.get(self.variable)
        return value.strip() if value and value.strip() else None

    def read(self) -> str | None:
        """Return the key to send; None: none is needed.

        Raises:
            SetupError: Its variable is not set, or its value cannot be sent.
        """
        value = self.value
        if value is None and self.variable is not None:
            raise SetupError(
                f"the environment variable {self.variable} with the model's key is not set",
                hint=f"set {self.variable}; for a server without keys, write `key: null` in "
                "eval.yml, or key=None in Python",
            )
        if value is not None:
            self._checked(value)
        return value

    def _checked(self, value: str) -> None:
        flaw = flaw_of_header(value.strip())
        if flaw is None and not value.strip().isascii():
            flaw = "contains characters that are not allowed in a header"
        if flaw is not None:
            name = "key" if self.variable is None else f"the environment variable {self.variable}"
            raise SetupError(f"{name}: the key {flaw}")

    @property
    def hint(self) -> str:
        """What to do when the server refuses it."""
        if self.variable is not None:
            return f"check the key in the environment variable {self.variable}, and run again"
        if self._literal is not None:
            return "check the key, and run again"
        return 'the server requires a key: set key="${NAME}", with the name of its variable'


# ---- Which of several keys does a call take? ----------------------------------------------------
#
# The one whose pacer lets it start. A key that is refused, or whose quota is exhausted, is set
# aside until the model is opened again, and the call goes on with another.

logger = logging.getLogger("limpet.models")
ResultT = TypeVar("ResultT")
_taken: ContextVar[int] = ContextVar("limpet_key", default=0)
"""The number of the key of the current call."""


class Keys:
    """The keys of a model: mostly one.

    Args:
        keys: The keys.
        endpoints: The key of each one's pacer.
        where: The model's name and address, for messages.

    Attributes:
        keys: The keys.
        aside: Why a key is set aside, by its number.
    """

    def __init__(self, keys: Sequence[Key], endpoints: Sequence[str], where: str) -> None:
        self.keys = keys
        self._endpoints = endpoints
        self._where = where
        self.aside: dict[int, LimpetError] = {}
        self._turns = itertools.count()

    @property
    def _left(self) -> list[int]:
        return [number for number in range(len(self.keys)) if number not in self.aside]

    def name(self, number: int) -> str:
        """Return a key's name in messages: its variable."""
        key = self.keys[number]
        return f"{key}" if key.variable else f"number {number + 1}"

    def read(self) -> list[str | None]:
        """Return the keys to send. Raises as `Key.read` does, and if two are the same."""
        values = [key.read() for key in self.keys]
        for number, value in enumerate(values):
            if value in values[:number]:
                first, second = self.name(values.index(value)), self.name(number)
                raise SetupError(f"keys: {first} and {second} are the same key", hint="keep one")
        return values

    def begin(self) -> None:
        """Use all of them again."""
        self.aside.clear()

    def take(self) -> int:
        """Return the number of the key of the current call; outside a run, they take turns."""
        paced_by, left = carrying_endpoint(), self._left or [0]
        paced = [number for number in left if self._endpoints[number] == paced_by]
        number = paced[0] if paced else left[next(self._turns) % len(left)]
        _taken.set(number)
        return number

    async def trying(self, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Make a call, with another key when that is the reason why it fails.

        Raises:
            SetupError: All keys are refused.
            QuotaExhaustedError: None is left, and the quota of one is exhausted.
        """
        while True:
            try:
                return await call()
            except LimpetError as error:
                if len(self.keys) == 1 or not _is_of_key(error):
                    raise
                self._set_aside(_taken.get(), error)
                if not self._left:
                    raise self._none_left() from error

    def _set_aside(self, number: int, error: LimpetError) -> None:
        is_known = number in self.aside
        self.aside[number] = error
        if not is_known and self._left:  # else the run's error says it
            logger.warning("the key %s is set aside: %s", self.name(number), error)

    def _none_left(self) -> LimpetError:
        reasons = [
            f"{self.name(number)}: {str(error).removeprefix(f'{self._where}: ')}"
            for number, error in sorted(self.aside.items())
        ]
        message = f"{self._where}: no key is left: {'; '.join(reasons)}"
        hints = dict.fromkeys(error.hint for error in self.aside.values() if error.hint)
        if all(isinstance(error, KeyRefusedError) for error in self.aside.values()):
            return SetupError(message, hint="; ".join(hints))
        return QuotaExhaustedError(message, hint="; ".join(dict.fromkeys([QUOTA_HINT, *hints])))


def _is_of_key(error: LimpetError) -> bool:
    is_setup = isinstance(error, SetupError)
    return isinstance(error, KeyRefusedError) if is_setup else classify(error).ends_account
