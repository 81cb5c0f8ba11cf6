"""How is a block of the configuration read, so that no key of it is ignored in silence?

Whoever reads a block asks it for each key by its name. What was never asked for is not known, and
is said in the end with its line and the nearest name that is.
"""

from collections.abc import Sequence
from typing import Any

from limpet.config.environment import settled, shown
from limpet.config.errors import Findings, Place, named, nearest, quoted
from limpet.config.imports import BadReferenceError, checked_reference
from limpet.config.yaml_file import KeyPath

_TRUTHS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


class Notes:
    """What is left out of a configuration without harm, each with its line."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._found: list[tuple[Place, str]] = []

    def add(self, path: KeyPath, text: str) -> None:
        """Say what is left out."""
        self._found.append((self.findings.tree.key_place(path), f"{named(path)}{text}"))

    @property
    def said(self) -> list[str]:
        """All of it, in the order of the file."""
        in_order = sorted(self._found, key=lambda one: one[0].line or 0)
        return [f"{place}: {text}" for place, text in in_order]


class Block:
    """A mapping of the configuration, and which of its keys are known.

    Args:
        value: What stands there.
        path: Where.
        notes: Where to say what is left out; its findings say what is wrong.
    """

    def __init__(self, value: Any, path: KeyPath, notes: Notes) -> None:
        self.path = path
        self._notes = notes
        self._findings = notes.findings
        self._known: list[str] = []
        self.is_there = isinstance(value, dict)
        self._data: dict[str, Any] = value if isinstance(value, dict) else {}
        if value is not None and not self.is_there:
            self._findings.add(path, f"must be a mapping of keys to values, not {shown(value)}")

    def get(self, key: str) -> Any:
        """Return what stands under a key; None if nothing does."""
        self._known.append(key)
        value = self._data.get(key)
        return None if settled(value) is None else value

    def block(self, key: str) -> "Block":
        """Return the block under a key; an empty one if there is none."""
        return Block(self.get(key), (*self.path, key), self._notes)

    def keys(self) -> list[str]:
        """Return all keys, where they are names of the user's: none of them is unknown."""
        self._known += self._data
        return list(self._data)

    def text(self, key: str) -> str | None:
        """Return a text, without spaces around it."""
        value = self.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return None if value is None else str(value).strip()
        self._wrong(key, "must be a string", value)
        return None

    def texts(self, key: str) -> list[str] | None:
        """Return a list of texts."""
        value = self.get(key)
        if value is None or (isinstance(value, list) and all(isinstance(x, str) for x in value)):
            return None if value is None else [str(one) for one in value]
        self._wrong(key, "must be a list of strings", value)
        return None

    def whole(self, key: str, least: int) -> int | None:
        """Return a whole number."""
        value = settled(self.get(key))
        if value is None or (type(value) is int and value >= least):
            return value
        self._wrong(key, f"must be an integer of at least {least}", value)
        return None

    def truth(self, key: str) -> bool | None:
        """Return true or false; YAML's other words for them are the toolkit's too."""
        value = settled(self.get(key))
        word = value.lower() if isinstance(value, str) else value
        if word is None or isinstance(word, bool):
            return word
        if isinstance(word, str) and word in _TRUTHS:
            return _TRUTHS[word]
        self._wrong(key, "must be true or false", value)
        return None

    def reference(self, key: str) -> str | None:
        """Return what names a Python object, as module:name; the toolkit writes module.name."""
        value = self.text(key)
        if value is None:
            return None
        colon = value if ":" in value else ":".join(value.rsplit(".", 1))
        try:
            return checked_reference(colon)
        except BadReferenceError as error:
            text = f"must be module.name or module:name, not {shown(value)}"
            self._findings.add((*self.path, key), text, error.hint)
            return None

    def leave_out(self, key: str, why: str = "not supported, and left out") -> None:
        """Know a key of the toolkit's that changes no result, and say that it is left out."""
        if settled(self.get(key)):
            self._notes.add((*self.path, key), why)

    def refuse(self, key: str, text: str, hint: str | None = None) -> None:
        """Know a key of the toolkit's that changes results, and say that it is not supported."""
        if settled(self.get(key)):
            self._findings.add((*self.path, key), text, hint)

    def _wrong(self, key: str, must: str, value: Any) -> None:
        self._findings.add((*self.path, key), f"{must}, not {shown(value)}")

    def check(self, known: Sequence[str] = ()) -> None:
        """Say which keys are not known."""
        here = [*dict.fromkeys((*self._known, *known))]
        for key in self._data:
            if key in here:
                continue
            near = nearest(key, here)
            listed = f"known here: {', '.join(here)}"
            hint = f"did you mean {quoted(near)}?  ({listed})" if near else listed
            text = f"{named(self.path)}unknown key {quoted(key)}"
            self._findings.add_key((*self.path, key), text, hint)
