"""What was each step made of when the run was last planned, and before that?

`identity.json` is optional, like the index: without it, a difference is named but not shown.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from limpet.errors import JournalError
from limpet.fingerprints.part_contents import PartContent
from limpet.journal.files import read_whole
from limpet.journal.journal import FORMAT, Journal
from limpet.journal.layout import Layout

if TYPE_CHECKING:
    from limpet.fingerprints.identity import Identity

_MOST_NAMES = 5_000
_MOST_TEXT, _MOST_TEXT_BEFORE = 1_500_000, 500_000


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A version of a step.

    Attributes:
        fingerprint: Its fingerprint.
        parts: The digest of each part.
        shown: The content of each part; for an earlier or later version, only those that differ.
    """

    fingerprint: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, PartContent] = field(default_factory=dict)

    @property
    def contents(self) -> dict[tuple[str, str], PartContent]:
        """The content of the parts, by name and digest."""
        return {(name, self.parts[name]): shown for name, shown in self.shown.items()}


@dataclass(frozen=True, slots=True)
class KeptStep(KeptVersion):
    """A step as it was last planned.

    Attributes:
        left_out: What is not part of the fingerprint, and why.
        state: The names of state.
        shortened: Whether some of it was too long to keep.
        before: The version before this one; None: none.
        asked: A version that has not run: the user was asked what to do about it.
    """

    left_out: Mapping[str, str] = field(default_factory=dict)
    state: tuple[str, ...] = ()
    shortened: bool = False
    before: KeptVersion | None = None
    asked: KeptVersion | None = None

    @property
    def known(self) -> dict[tuple[str, str], PartContent]:
        """The content of the parts of all versions, by name and digest."""
        known: dict[tuple[str, str], PartContent] = {}
        for version in (self.before, self, self.asked):
            known |= version.contents if version is not None else {}
        return known


@dataclass(frozen=True, slots=True)
class KeptIdentity:
    """The content of `identity.json`.

    Attributes:
        steps: Each step by its name.
        remark: Why the file could not be used; empty: it could.
    """

    steps: Mapping[str, KeptStep] = field(default_factory=dict)
    remark: str = ""


def read_identity(layout: Layout) -> KeptIdentity:
    """Return what the steps of a run were made of. Never raises: the file is optional."""
    try:
        data = json.loads(read_whole(layout.identity))
    except FileNotFoundError:
        return _unusable("does not exist")
    except (OSError, ValueError, JournalError, RecursionError):
        return _unusable("cannot be read")
    if isinstance(data, dict) and data.get("format") not in (None, FORMAT):
        theirs = str(data["format"])[:20]
        return _unusable(f"has format {theirs}, and this Limpet knows only {FORMAT}")
    steps = data.get("steps") if isinstance(data, dict) else None
    if not isinstance(steps, dict):
        return _unusable("is damaged")
    return KeptIdentity(
        {name: _read_step(step) for name, step in steps.items() if isinstance(step, dict)}
    )


def _unusable(why: str) -> KeptIdentity:
    return KeptIdentity(remark=f"identity.json {why}: earlier contents cannot be shown")


def write_identity(
    journal: Journal,
    steps: Mapping[str, tuple[str, "Identity"]],
    clean: Callable[[Any], Any],
) -> None:
    """Write what each step is made of, and what it was made of before it last changed.

    `steps` has the fingerprint and the identity of each step; `clean` removes secrets.

    Raises:
        JournalError: The file cannot be written.
    """
    there = read_identity(journal.layout).steps
    if steps.keys() == there.keys() and all(
        _is_unchanged(there[name], *step, clean) for name, step in steps.items()
    ):
        return
    room, room_before = _MOST_TEXT, _MOST_TEXT_BEFORE
    data: dict[str, Any] = {}
    for name, (fingerprint, identity) in steps.items():
        data[name], room = _step_data(fingerprint, identity, room)
        kept, base = there.get(name), identity.parts
        before: KeptVersion | None = kept
        if kept is not None and kept.fingerprint == fingerprint:
            before, base = kept.before, kept.parts
        if before is not None:
            data[name]["before"], room_before = _version_data(before, base, room_before)
    journal.write_identity({"steps": clean(data)})


def _is_unchanged(
    kept: KeptStep, fingerprint: str, identity: "Identity", clean: Callable[[Any], Any]
) -> bool:
    """Return whether the file is up to date: encoding it takes a while."""
    beside = clean([dict(identity.left_out), list(identity.state)])
    same = kept.fingerprint == fingerprint and [dict(kept.left_out), list(kept.state)] == beside
    is_asked = kept.asked is not None
    return same and not is_asked and len(kept.parts) == min(len(identity.parts), _MOST_NAMES)


def record_question(
    journal: Journal, step: str, fingerprint: str, identity: "Identity", clean: Callable[[Any], Any]
) -> None:
    """Record a version that the user is asked about, for `limpet why`.

    Raises:
        JournalError: The file cannot be written.
    """
    try:
        data = json.loads(read_whole(journal.layout.identity))
        kept = _read_step(data["steps"][step])
        asked = KeptVersion(fingerprint, identity.parts, identity.shown.parts)
        asked_data, _ = _version_data(asked, kept.parts, _MOST_TEXT_BEFORE)
        data["steps"][step]["asked"] = clean(asked_data)
    except (OSError, ValueError, JournalError, LookupError, TypeError, RecursionError):
        return  # nothing to compare it with
    journal.write_identity(data)


def kept_step(fingerprint: str, identity: "Identity", clean: Callable[[Any], Any]) -> KeptStep:
    """Return the current step in the form in which the file has it."""
    data, _ = _step_data(fingerprint, identity, _MOST_TEXT)
    return _read_step(clean(data))


# ---- writing ------------------------------------------------------------------------------------


def _step_data(fingerprint: str, identity: "Identity", room: int) -> tuple[dict[str, Any], int]:
    parts, room = _parts_data(
        dict(islice(identity.parts.items(), _MOST_NAMES)), identity.shown.parts, room
    )
    data: dict[str, Any] = {
        "fingerprint": fingerprint,
        "parts": parts,
        "left_out": dict(islice(identity.left_out.items(), _MOST_NAMES)),
        "state": list(identity.state[:_MOST_NAMES]),
    }
    many = max(len(identity.parts), len(identity.left_out), len(identity.state))
    if many > _MOST_NAMES or any(part.get("shortened") for part in parts.values()):
        data["shortened"] = True
    return data, room


def _version_data(
    version: KeptVersion, base: Mapping[str, str], room: int
) -> tuple[dict[str, Any], int]:
    """Return another version of a step as its differences from the parts of `base`."""
    differing = {name: digest for name, digest in version.parts.items() if base.get(name) != digest}
    parts, room = _parts_data(differing, version.shown, room)
    absent = [name for name in base if name not in version.parts][:_MOST_NAMES]
    return {"fingerprint": version.fingerprint, "parts": parts, "absent": absent}, room


def _parts_data(
    parts: Mapping[str, str], shown: Mapping[str, PartContent], room: int
) -> tuple[dict[str, Any], int]:
    data: dict[str, Any] = {}
    for name, digest in parts.items():
        part = shown.get(name, PartContent("value"))
        entry: dict[str, Any] = {"digest": digest, "kind": part.kind}
        data[name] = entry
        if part.called:
            entry["called"] = part.called
        if part.text is not None and len(part.text) <= room:
            entry["text"] = part.text
            room -= len(part.text)
        if part.is_shortened or (part.text is not None and "text" not in entry):
            entry["shortened"] = True
    return data, room


# ---- reading ------------------------------------------------------------------------------------


def _read_step(data: Mapping[str, Any]) -> KeptStep:
    parts, shown = _read_parts(data.get("parts"))
    left_out, state = data.get("left_out"), data.get("state")
    return KeptStep(
        str(data.get("fingerprint", "")),
        parts,
        shown,
        {str(n): str(why) for n, why in left_out.items()} if isinstance(left_out, dict) else {},
        tuple(map(str, state)) if isinstance(state, list) else (),
        data.get("shortened") is True,
        _read_version(data.get("before"), parts),
        _read_version(data.get("asked"), parts),
    )


def _read_version(data: Any, base: Mapping[str, str]) -> KeptVersion | None:
    if not isinstance(data, dict) or not data.get("fingerprint"):
        return None
    parts, shown = _read_parts(data.get("parts"))
    names = data.get("absent")
    absent = set(map(str, names)) if isinstance(names, list) else set()
    same = {name: digest for name, digest in base.items() if name not in absent}
    return KeptVersion(str(data["fingerprint"]), same | parts, shown)


def _read_parts(data: Any) -> tuple[dict[str, str], dict[str, PartContent]]:
    parts, shown = {}, {}
    for name, part in data.items() if isinstance(data, dict) else ():
        if isinstance(part, dict) and isinstance(part.get("digest"), str):
            text = part.get("text")
            parts[name] = part["digest"]
            shown[name] = PartContent(
                str(part.get("kind", "value")),
                text if isinstance(text, str) else None,
                part.get("shortened") is True,
                str(part.get("called", "")),
            )
    return parts, shown
