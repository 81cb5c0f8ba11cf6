"""How are secrets kept out of what is written?

A secret is looked for as it is and as it looks inside JSON, a `repr`, an address or base64. One
expression finds them all, in one pass however many there are: it is a tree of their characters, for
`re` would try thousands of alternatives one after the other at each place.
"""

import functools
import json
import os
import re
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from limpet.secrets.known import certain_secrets, declared, wide_secrets

MASK = "[redacted]"
_ALONE = 8  # shorter ones are hidden only where they stand alone, as words do
_WORD_ALONE = 20  # and words and numbers: `postgres` is not hidden in `postgresql`
_SHORTEST_PACKED = 12
_CUTS = ("…", "...")
# Where a word may begin: also behind what JSON and addresses write for a sign that is no letter.
_BEGINS = r"(?:(?<![^\W_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_ENDS = r"(?![^\W_])"


class Mask:
    """Takes some secrets out of texts and of plain data.

    Args:
        secrets: What to take out. The shorter ones are, too, but only where they stand alone.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        secrets = {secret for secret in secrets if secret}
        forms = {form for secret in secrets for form in _forms(secret)}
        short = {form for form in forms if len(form) < _ALONE or _is_word(form)}
        self._patterns = [
            *([re.compile(_tree(forms - short))] if forms - short else []),
            *([re.compile("|".join(map(_alone, _longest_first(short))))] if short else []),
        ]
        # Whoever shows the beginning of a long text may show that of a secret.
        self._long = sorted(forms - short)
        self._longest = max(map(len, self._long), default=0)
        heads = {form[:_ALONE] for form in self._long}
        self._heads = re.compile(_tree(heads)) if heads else None
        # Most texts have no word that is long enough, and that is quickly seen.
        self._shortest = min((max(map(len, form.split()), default=0) for form in forms), default=0)
        # As JSON, a list of texts may read like a secret that none of its texts holds.
        self._across = any('"' in secret for secret in secrets)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self._text(text)[0]

    def data(self, value: Any) -> tuple[Any, int]:
        """Return plain data without secrets, and how many there were.

        The same object if there were none; what is no plain data stays as it is.
        """
        if not self._patterns or not value:
            return value, 0
        if type(value) is str:  # most answers are: this is asked of every one
            return self._text(value) if self._is_in_text(value) else (value, 0)
        found = [0]
        if self._is_in(value):
            value = self._masked(value, found)
        if self._across and not isinstance(value, str):
            whole, count = self._text(_as_json(value))
            if count:
                return whole, found[0] + count
        return value, found[0]

    def _text(self, text: str) -> tuple[str, int]:
        found = 0
        for pattern in self._patterns:
            text, count = pattern.subn(MASK, text)
            found += count
        for begin, end in reversed(list(self._beginnings(text))):
            text = text[:begin] + MASK + text[end:]
            found += 1
        return text, found

    def _beginnings(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where a secret stands of which the end was cut off, as `sk-abc012…`."""
        if self._heads is None or ("…" not in text and "..." not in text):
            return
        for head in self._heads.finditer(text):
            begin = head.start()
            last = begin + self._longest + 1
            ends = (text.find(mark, head.end(), last) for mark in _CUTS)
            end = min((place for place in ends if place >= 0), default=-1)
            at = bisect_left(self._long, text[begin:end]) if end >= 0 else len(self._long)
            if at < len(self._long) and self._long[at].startswith(text[begin:end]):
                yield begin, end

    def _is_in(self, value: Any) -> bool:
        todo = [value]
        while todo:
            held = todo.pop()
            if isinstance(held, str):
                if self._is_in_text(held):
                    return True
            elif isinstance(held, Mapping):
                todo += held.keys()
                todo += held.values()
            elif isinstance(held, (list, tuple)):
                todo += held
            elif isinstance(held, bytes):
                todo.append(_as_text(held))
        return False

    def _is_in_text(self, text: str) -> bool:
        if max(map(len, text.split()), default=0) >= self._shortest:
            for pattern in self._patterns:
                if pattern.search(text):
                    return True
        return any(self._beginnings(text))

    def _masked(self, value: Any, found: list[int]) -> Any:
        if isinstance(value, str):
            text, count = self._text(value)
            found[0] += count
            return text
        if isinstance(value, Mapping):
            masked: dict[Any, Any] = {}
            for key, held in value.items():
                name = self._masked(key, found)
                # Two keys may become the same: neither may hide the other.
                while name in masked or (name != key and name in value):
                    name = f"{name}'"
                masked[name] = self._masked(held, found)
            return masked
        if isinstance(value, (list, tuple)):
            return [self._masked(held, found) for held in value]
        if isinstance(value, bytes):
            return self._masked(_as_text(value), found).encode("utf-8", "surrogateescape")
        return value


class Masking:
    """What one session knows of secrets.

    Args:
        secrets: Declared ones, beside those of the environment.
        results: Whether answers, scores and errors are masked.
        environment: Where to look; None: `os.environ`.

    Attributes:
        ours: For what we write of our own accord: takes out whatever may be a secret.
        certain: Takes out only what certainly is one: for what others said.
        results: The same, for what is kept of answers, scores and errors; or nothing.
    """

    ours: Mask
    certain: Mask
    results: Mask

    def __init__(
        self,
        secrets: Iterable[str] = (),
        *,
        results: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._declared: set[str] = set()
        self._known: frozenset[str] | None = None
        self._masks_results = results
        self.look_again(secrets)

    def look_again(self, secrets: Iterable[str] = ()) -> None:
        """Learn of secrets that came into the environment since, and of these."""
        self._declared.update(declared(secrets))
        certain = self._declared.union(certain_secrets(self._environment))
        everything = frozenset(certain).union(wide_secrets(self._environment))
        if everything == self._known:
            return
        self._known = everything
        self.ours = Mask(everything)
        self.certain = Mask(certain)
        self.results = self.certain if self._masks_results else Mask()


@functools.cache
def _of_environment() -> Masking:
    return Masking()


def by_environment() -> Masking:
    """Return what the environment, as it is now, says of secrets."""
    masking = _of_environment()
    masking.look_again()
    return masking


# ---- forms --------------------------------------------------------------------------------------


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield repr(secret)[1:-1]
    yield ascii(secret)[1:-1]
    yield repr(_as_bytes(secret))[2:-1]
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]  # JSON in JSON
    raw = _as_bytes(secret)
    for encoded in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield encoded
        yield re.sub("%..", lambda found: found[0].lower(), encoded)
    for packed in _packed(raw):
        yield packed
        yield packed.replace("+", "-").replace("/", "_")


def _packed(raw: bytes) -> Iterator[str]:
    """Yield base64, also as it looks behind something else, as in `user:secret`."""
    yield b64encode(raw).decode().rstrip("=")
    for before in (0, 1, 2):
        bits = 8 * (before + len(raw))
        packed = b64encode(b"\0" * before + raw).decode()
        # Only what is made of its bits alone: what stands beside it changes the rest.
        inner = packed[-(-8 * before // 6) : bits // 6]
        if len(inner) >= _SHORTEST_PACKED:
            yield inner


def _as_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _as_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError):
        return ""


# ---- expressions --------------------------------------------------------------------------------


def _is_word(form: str) -> bool:
    return len(form) < _WORD_ALONE and (form.isalpha() or form.isdigit())


def _longest_first(forms: Iterable[str]) -> list[str]:
    return sorted(forms, key=lambda form: (-len(form), form))


def _alone(form: str) -> str:
    begins = _BEGINS if form[0].isalnum() else ""
    ends = _ENDS if form[-1].isalnum() else ""
    return begins + re.escape(form) + ends


def _tree(forms: Iterable[str]) -> str:
    """Return an expression that matches the longest of these texts, sharing what they share."""
    return _fork(sorted(forms), 0)


def _branch(forms: list[str], at: int) -> str:
    """Return an expression for what sorted texts have from one place on."""
    first, last = forms[0], forms[-1]
    same = at
    while same < len(first) and same < len(last) and first[same] == last[same]:
        same += 1
    head = re.escape(first[at:same])
    if len(first) == same:  # the shortest of them ends here
        rest = forms[1:]
        return head if not rest else f"{head}(?:{_fork(rest, same)})?"
    return f"{head}(?:{_fork(forms, same)})"


def _fork(forms: list[str], at: int) -> str:
    parts, begin = [], 0
    for end in range(1, len(forms) + 1):
        if end == len(forms) or forms[end][at] != forms[begin][at]:
            parts.append(_branch(forms[begin:end], at))
            begin = end
    return "|".join(parts)
