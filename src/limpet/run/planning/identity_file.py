"""What was each step made of when the run was last planned, and before that?

`identity.json` is a hint, like the index: with it a difference can be shown, without it only named.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from limpet.errors import JournalError
from limpet.fingerprints.explaining.shown import Shown
from limpet.fingerprints.identity import Identity
from limpet.journal.files import read_whole
from limpet.journal.journal import FORMAT, Journal
from limpet.journal.layout import Layout

_MOST_NAMES = 5_000
_MOST_TEXT, _MOST_TEXT_BEFORE = 1_500_000, 500_000


@dataclass(frozen=True, slots=True)
class KeptStep:
    """A step as it was.

    Attributes:
        version: Its digest.
        parts: The digest of each part.
        shown: What each part was.
        left_out: What did not count, and why.
        state: What was state.
        cut: Whether there was no room for all of it.
        before: The version before this one; empty: there was none.
        parts_before: The digest of each part then.
        shown_before: What those parts were then that are different now.
        asked: A version that nobody has run yet: somebody was asked what to do about it.
        parts_asked: The digest of each part of that.
        shown_asked: What those parts are of it that are different.
    """

    version: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, Shown] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    state: tuple[str, ...] = ()
    cut: bool = False
    before: str = ""
    parts_before: Mapping[str, str] = field(default_factory=dict)
    shown_before: Mapping[str, Shown] = field(default_factory=dict)
    asked: str = ""
    parts_asked: Mapping[str, str] = field(default_factory=dict)
    shown_asked: Mapping[str, Shown] = field(default_factory=dict)

    @property
    def known(self) -> dict[tuple[str, str], Shown]:
        """What the parts were, now and before, by their names and digests."""
        then = {(n, self.parts_before[n]): one for n, one in self.shown_before.items()}
        return then | {(name, self.parts[name]): one for name, one in self.shown.items()}


@dataclass(frozen=True, slots=True)
class KeptIdentity:
    """What `identity.json` says.

    Attributes:
        steps: Each step by its name.
        remark: Why less is known than there should be; empty: it is not so.
    """

    steps: Mapping[str, KeptStep] = field(default_factory=dict)
    remark: str = ""


def read_identity(layout: Layout) -> KeptIdentity:
    """Return what the steps of a run were made of. Never raises: it is a hint."""
    try:
        known = json.loads(read_whole(layout.identity))
    except FileNotFoundError:
        return KeptIdentity(remark="there is no identity.json: what things were is not known")
    except (OSError, ValueError, JournalError, RecursionError):
        return KeptIdentity(remark="identity.json cannot be read: what things were is not known")
    if isinstance(known, dict) and known.get("format") not in (None, FORMAT):
        return KeptIdentity(
            remark=f"identity.json has format {str(known['format'])[:20]}, and this Limpet knows "
            f"{FORMAT} only: what things were is not known"
        )
    steps = known.get("steps") if isinstance(known, dict) else None
    if not isinstance(steps, dict):
        return KeptIdentity(remark="identity.json makes no sense: what things were is not known")
    return KeptIdentity({name: _step(one) for name, one in steps.items() if isinstance(one, dict)})


def write_identity(
    journal: Journal,
    steps: Mapping[str, tuple[str, Identity]],
    clean: Callable[[Any], Any],
) -> None:
    """Write down what each step is made of, and what it was made of before it last changed.

    Args:
        journal: Of the run.
        steps: The version and the identity of each step.
        clean: Takes secrets out.

    Raises:
        JournalError: It cannot be written.
    """
    there = read_identity(journal.layout).steps
    if steps.keys() == there.keys() and all(
        _is_as_it_was(there[name], *step, clean) for name, step in steps.items()
    ):
        return
    room, room_before = _MOST_TEXT, _MOST_TEXT_BEFORE
    told: dict[str, Any] = {}
    for name, (version, identity) in steps.items():
        kept = there.get(name)
        told[name], room = _told(version, identity, room)
        if kept is not None and kept.version != version:
            told[name]["before"], room_before = _before(kept, identity.parts, room_before)
        elif kept is not None and kept.before:
            told[name]["before"], room_before = _before_again(kept, room_before)
    journal.write_identity({"steps": clean(told)})


def _is_as_it_was(
    kept: KeptStep, version: str, identity: Identity, clean: Callable[[Any], Any]
) -> bool:
    """Tell whether what is on disk is what would be written: making that again takes a while."""
    beside = clean([dict(identity.left_out), list(identity.state)])
    same = kept.version == version and [dict(kept.left_out), list(kept.state)] == beside
    return same and not kept.asked and len(kept.parts) == min(len(identity.parts), _MOST_NAMES)


def note_asked(
    journal: Journal, step: str, version: str, identity: Identity, clean: Callable[[Any], Any]
) -> None:
    """Note a version that somebody is asked about, for whoever wants to see all of it.

    Raises:
        JournalError: It cannot be written.
    """
    try:
        known = json.loads(read_whole(journal.layout.identity))
        kept = _step(known["steps"][step])
        now = {name: one for name, one in identity.parts.items() if kept.parts.get(name) != one}
        parts, _ = _parts(now, identity.shown.parts, _MOST_TEXT_BEFORE)
        gone = [name for name in kept.parts if name not in identity.parts]
        asked = {"digest": version, "parts": clean(parts), "gone": clean(gone)}
        known["steps"][step]["asked"] = asked
    except (OSError, ValueError, JournalError, LookupError, TypeError, RecursionError):
        return  # there is nothing to compare it with
    journal.write_identity(known)


def kept_step(version: str, identity: Identity, clean: Callable[[Any], Any]) -> KeptStep:
    """Return a step as it is now, as it would be read once it was written."""
    told, _ = _told(version, identity, _MOST_TEXT)
    return _step(clean(told))


# ---- writing ------------------------------------------------------------------------------------


def _told(version: str, identity: Identity, room: int) -> tuple[dict[str, Any], int]:
    names = list(islice(identity.parts, _MOST_NAMES))
    wanted = {name: identity.parts[name] for name in names}
    parts, room = _parts(wanted, identity.shown.parts, room)
    told: dict[str, Any] = {
        "digest": version,
        "parts": parts,
        "left_out": dict(islice(identity.left_out.items(), _MOST_NAMES)),
        "state": list(identity.state[:_MOST_NAMES]),
    }
    many = max(len(identity.parts), len(identity.left_out), len(identity.state))
    if many > _MOST_NAMES or any(one.get("cut") for one in parts.values()):
        told["cut"] = True
    return told, room


def _parts(
    parts: Mapping[str, str], shown: Mapping[str, Shown], room: int
) -> tuple[dict[str, Any], int]:
    told: dict[str, Any] = {}
    for name, digest in parts.items():
        part = shown.get(name, Shown("value"))
        one: dict[str, Any] = {"digest": digest, "kind": part.kind}
        told[name] = one
        if part.called:
            one["called"] = part.called
        if part.text is not None and len(part.text) <= room:
            one["text"] = part.text
            room -= len(part.text)
        if part.cut or (part.text is not None and "text" not in one):
            one["cut"] = True
    return told, room


def _before(kept: KeptStep, now: Mapping[str, str], room: int) -> tuple[dict[str, Any], int]:
    gone = {name: one for name, one in kept.parts.items() if now.get(name) != one}
    parts, room = _parts(gone, kept.shown, room)
    new = [name for name in now if name not in kept.parts][:_MOST_NAMES]
    return {"digest": kept.version, "parts": parts, "new": new}, room


def _before_again(kept: KeptStep, room: int) -> tuple[dict[str, Any], int]:
    gone = {name: kept.parts_before[name] for name in kept.shown_before}
    parts, room = _parts(gone, kept.shown_before, room)
    new = [name for name in kept.parts if name not in kept.parts_before]
    return {"digest": kept.before, "parts": parts, "new": new}, room


# ---- reading ------------------------------------------------------------------------------------


def _step(told: Mapping[str, Any]) -> KeptStep:
    parts, shown = _read_parts(told.get("parts"))
    left_out, state = told.get("left_out"), told.get("state")
    before, asked = _object(told, "before"), _object(told, "asked")
    then, shown_then = _read_parts(before.get("parts"))
    new, gone = _names(before, "new"), _names(asked, "gone")
    earlier = {name: one for name, one in parts.items() if name not in new} | then
    changed, shown_asked = _read_parts(asked.get("parts"))
    later = {name: one for name, one in parts.items() if name not in gone} | changed
    return KeptStep(
        str(told.get("digest", "")),
        parts,
        shown,
        {str(n): str(why) for n, why in left_out.items()} if isinstance(left_out, dict) else {},
        tuple(map(str, state)) if isinstance(state, list) else (),
        told.get("cut") is True,
        str(before.get("digest", "")),
        earlier if before else {},
        shown_then,
        str(asked.get("digest", "")),
        later if asked else {},
        shown_asked,
    )


def _object(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = told.get(name)
    return found if isinstance(found, dict) else {}


def _names(told: Mapping[str, Any], name: str) -> set[str]:
    found = told.get(name)
    return set(map(str, found)) if isinstance(found, list) else set()


def _read_parts(told: Any) -> tuple[dict[str, str], dict[str, Shown]]:
    parts, shown = {}, {}
    for name, one in told.items() if isinstance(told, dict) else ():
        if isinstance(one, dict) and isinstance(one.get("digest"), str):
            text = one.get("text")
            parts[name] = one["digest"]
            shown[name] = Shown(
                str(one.get("kind", "value")),
                text if isinstance(text, str) else None,
                one.get("cut") is True,
                str(one.get("called", "")),
            )
    return parts, shown
