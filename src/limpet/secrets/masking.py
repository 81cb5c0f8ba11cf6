"""How are secrets masked in what we write?

A secret is searched for literally, and as it looks inside JSON, a `repr`, a URL or base64. One
pattern finds them all in one pass. It is a tree of their characters: with plain alternatives, `re`
would try thousands one after the other at each position.
"""

import functools
import logging
import os
import re
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from typing import Any
from urllib.parse import quote, quote_plus

from limpet.secrets.known import certain_secrets, declared, possible_secrets
from limpet.text import one_line

# ---- What in a text or a trace looks like credentials, whoever they belong to? ------------------
#
# Clients put their whole request into an exception: `'Authorization': 'Bearer …'`, a URL with a
# password. Nobody declared these, and no variable holds them. So they are recognised by where they
# stand: in a header, in a URL, after `api_key=`. What merely follows a word like `key` is left
# alone: messages are full of such.

HIDDEN = "[redacted]"
_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "api-key")
_SCHEMES = r"(?:(?:bearer|basic|digest|token|apikey|negotiate)\s+)?+"  # never taken for the key
_QUOTE = r"\\*['\"]"
_NOT_YET = rf"(?!{re.escape(HIDDEN)}|…)"
IN_URL = re.compile(rf"(?<=://)([^/\s:@\"']*:){_NOT_YET}[^/\s@\"']+(?=@)")
"""The password in a URL, after the user."""
KEYS = re.compile(
    r"\b()(?:(?:sk|pk|xox[a-z])-|(?:gh[a-z]|hf)_|AKIA|AIza)[\w-]{16,}"
    r"|\b(Bearer\s+)[\w.~+/=-]{16,}",
    re.IGNORECASE,
)
"""Keys that say what they are by how they begin."""
_IN_HEADERS = re.compile(
    rf"(?i)((?:authorization|\bapi-key)(?:{_QUOTE})?\s*"
    rf"(?:[:=]\s*(?:[bfru]{{0,2}}{_QUOTE})?|,\s*[bfru]{{0,2}}{_QUOTE}){_SCHEMES})"
    rf"{_NOT_YET}[^\s'\"\\,;&)}}\]>]+"
)
_IN_QUERY = re.compile(
    rf"(?i)((?:[?&]|\b)(?:api_?key|access_?token|auth_?token|client_?secret|password|signature"
    rf"|(?<=[?&])(?:key|token|sig))=(?:{_QUOTE})?){_NOT_YET}[^\s'\"\\,;&)}}\]>]{{8,}}"
)
"""A key among the parameters of a URL or of a call, by its name."""
_PATTERNS = (_IN_HEADERS, _IN_QUERY, IN_URL, KEYS)
# Most texts have none of these, which is fast to check.
_SIGNS = ["authorization", "api-key", "bearer", "sk-", "pk-", "xox", "gh", "hf_", "akia", "aiza"]
_SIGNS += ["key=", "token=", "secret=", "password=", "signature=", "sig="]


def without_credentials(text: str) -> tuple[str, int]:
    """Return a text with its credentials hidden, and how many there were."""
    if not _may_have(text):
        return text, 0
    total = 0
    for pattern in _PATTERNS:
        text, found = pattern.subn(_hidden, text)
        total += found
    return text, total


def _may_have(text: str) -> bool:
    if "://" in text and "@" in text:
        return True
    lower = text.lower()
    return any(sign in lower for sign in _SIGNS)


def _hidden(match: re.Match[str]) -> str:
    before = next((group for group in match.groups() if group), "")
    return before + HIDDEN


def trace_without_credentials(value: Any) -> tuple[Any, int]:
    """Return plain data with its credentials hidden, and how many there were.

    The same object if there were none.
    """
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, Mapping):
        parts = {name: _under(name, part) for name, part in value.items()}
        total = sum(found for _, found in parts.values())
        return ({name: part for name, (part, _) in parts.items()} if total else value), total
    if isinstance(value, (list, tuple)):
        listed = [trace_without_credentials(part) for part in value]
        total = sum(found for _, found in listed)
        return ([part for part, _ in listed] if total else value), total
    return value, 0


def _under(name: Any, value: Any) -> tuple[Any, int]:
    if isinstance(name, str) and name.lower() in _HEADERS and isinstance(value, str) and value:
        return HIDDEN, int(value != HIDDEN)
    return trace_without_credentials(value)


# ---- How are secrets masked in what we write? ---------------------------------------------------

MASK = HIDDEN
_ALONE = 8  # shorter ones are masked only as whole words
_WORD_ALONE = 20  # so are words and numbers: `postgres` is not masked in `postgresql`
_SHORTEST_PACKED = 12
_CUTS = ("…", "...")
_NO_TEXT = frozenset({int, float, bool, type(None)})
# Where a word may begin: also after the escapes of JSON and URLs.
_BEGINS = r"(?:(?<![^\W_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_ENDS = r"(?![^\W_])"


class Mask:
    """Masks secrets in strings and plain data.

    Args:
        secrets: The secrets. Short ones are masked only as whole words.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        secrets = {secret for secret in secrets if secret}
        forms = {form for secret in secrets for form in _forms(secret)}
        short = {form for form in forms if len(form) < _ALONE or _is_word(form)}
        self._patterns = [
            *([re.compile(_tree(forms - short))] if forms - short else []),
            *([re.compile("|".join(map(_alone, _longest_first(short))))] if short else []),
        ]
        # A shortened string may show the beginning of a secret.
        self._long = sorted(forms - short)
        self._longest = max(map(len, self._long), default=0)
        heads = {form[:_ALONE] for form in self._long}
        self._heads = re.compile(_tree(heads)) if heads else None
        # Most strings have no word that is long enough, which is fast to check.
        self._shortest = min((max(map(len, form.split()), default=0) for form in forms), default=0)
        # A list as JSON may contain a secret that none of its strings contains.
        self._across = any('"' in secret for secret in secrets)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def text(self, text: str) -> str:
        """Return a message with its secrets masked, and what looks like credentials."""
        return self.message(text)[0]

    def message(self, text: str) -> tuple[str, int]:
        """Do what `text` does, and return how many there were."""
        text, known = self._text(text)
        text, found = without_credentials(text)
        return text, known + found

    def trace(self, value: Any) -> tuple[Any, int]:
        """Do what `data` does, and mask what looks like credentials."""
        value, known = self.data(value)
        value, found = trace_without_credentials(value)
        return value, known + found

    def shown(self, value: object) -> str:
        """Return any value for a message: on one line, shortened, without secrets."""
        return one_line(value, self.text)

    def data(self, value: Any) -> tuple[Any, int]:
        """Return plain data with its secrets masked, and how many there were.

        The same object if there were none. Other objects stay unchanged.
        """
        if not self._patterns or not value:
            return value, 0
        if type(value) is str:  # the usual answer: this runs for each one
            return self._text(value) if self._is_in_text(value) else (value, 0)
        total = [0]
        if self._is_in(value):
            value = self._masked(value, total)
        if self._across and not isinstance(value, str):
            whole, count = self._text(_as_json(value))
            if count:
                return whole, total[0] + count
        return value, total[0]

    def _text(self, text: str) -> tuple[str, int]:
        total = 0
        for pattern in self._patterns:
            text, count = pattern.subn(MASK, text)
            total += count
        for begin, end in reversed(list(self._beginnings(text))):
            text = text[:begin] + MASK + text[end:]
            total += 1
        return text, total

    def _beginnings(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where a shortened secret begins and ends, like `sk-abc012…`."""
        if self._heads is None or not _is_cut(text):
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
            child = todo.pop()
            if type(child) in _NO_TEXT:
                continue
            if isinstance(child, str):
                if self._is_in_text(child):
                    return True
            elif isinstance(child, Mapping):
                todo += child.keys()
                todo += child.values()
            elif isinstance(child, (list, tuple)):
                todo += child
            elif isinstance(child, bytes):
                todo.append(_as_text(child))
        return False

    def _is_in_text(self, text: str) -> bool:
        is_long = len(text) >= self._shortest
        if is_long and max(map(len, text.split()), default=0) >= self._shortest:
            for pattern in self._patterns:
                if pattern.search(text):
                    return True
        return _is_cut(text) and any(self._beginnings(text))

    def _masked(self, value: Any, total: list[int]) -> Any:
        if isinstance(value, str):
            text, count = self._text(value)
            total[0] += count
            return text
        if isinstance(value, Mapping):
            masked: dict[Any, Any] = {}
            for key, child in value.items():
                name = self._masked(key, total)
                # Two keys may become equal: neither may replace the other.
                while name in masked or (name != key and name in value):
                    name = f"{name}'"
                masked[name] = self._masked(child, total)
            return masked
        if isinstance(value, (list, tuple)):
            return [self._masked(child, total) for child in value]
        if isinstance(value, bytes):
            return self._masked(_as_text(value), total).encode("utf-8", "surrogateescape")
        return value


class NoMask(Mask):
    """Masks nothing, as the user wishes."""

    def message(self, text: str) -> tuple[str, int]:
        return text, 0

    def trace(self, value: Any) -> tuple[Any, int]:
        return value, 0


class Masking:
    """The secrets that a session knows.

    Args:
        secrets: Declared secrets, in addition to those of the environment.
        results: Whether to mask answers, scores and errors.
        environment: The environment; None: `os.environ`.

    Attributes:
        ours: For what we write ourselves: masks every possible secret.
        certain: For what others wrote: masks only certain secrets.
        results: For answers, scores and errors: as `certain`, or masks nothing.
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
        """Add these secrets, and new ones of the environment."""
        self._declared.update(declared(secrets))
        certain = self._declared.union(certain_secrets(self._environment))
        everything = frozenset(certain).union(possible_secrets(self._environment))
        if everything == self._known:
            return
        self._known = everything
        self.ours = Mask(everything)
        self.certain = Mask(certain)
        self.results = self.certain if self._masks_results else NoMask()


@functools.cache
def _of_environment() -> Masking:
    return Masking()


def by_environment() -> Masking:
    """Return the masking for the current environment."""
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
        escaped = dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield dumps(escaped, ensure_ascii=ascii_only)[1:-1]  # JSON in JSON
    raw = _as_bytes(secret)
    for encoded in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield encoded
        yield re.sub("%..", lambda escape: escape[0].lower(), encoded)
    for packed in _packed(raw):
        yield packed
        yield packed.replace("+", "-").replace("/", "_")


def _packed(raw: bytes) -> Iterator[str]:
    """Yield base64, also as it looks after other bytes, as in `user:secret`."""
    yield b64encode(raw).decode().rstrip("=")
    for before in (0, 1, 2):
        bits = 8 * (before + len(raw))
        packed = b64encode(b"\0" * before + raw).decode()
        # Only characters made of its bits alone: the bytes beside it change the others.
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
        return dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError):
        return ""


# ---- patterns -----------------------------------------------------------------------------------


def _is_word(form: str) -> bool:
    return len(form) < _WORD_ALONE and (form.isalpha() or form.isdigit())


def _longest_first(forms: Iterable[str]) -> list[str]:
    return sorted(forms, key=lambda form: (-len(form), form))


def _alone(form: str) -> str:
    begins = _BEGINS if form[0].isalnum() else ""
    ends = _ENDS if form[-1].isalnum() else ""
    return begins + re.escape(form) + ends


def _tree(forms: Iterable[str]) -> str:
    """Return a pattern that matches the longest of these strings, with common prefixes shared."""
    return _fork(sorted(forms), 0)


def _branch(forms: list[str], at: int) -> str:
    """Return a pattern for sorted strings, from a position on."""
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


def _is_cut(text: str) -> bool:
    return "…" in text or "..." in text


# ---- How are secrets kept out of the log? -------------------------------------------------------
#
# What we log quotes what others raise, with their tracebacks. The filters of a parent are not
# asked for the records of its children, so each of our loggers has this one.

LOGGERS = tuple(
    f"limpet.{name}"
    for name in (
        *("engines", "executors", "fingerprints", "integrations.nat", "journal", "models"),
        *("nat", "pacing", "run", "view", "view.http", "workflows"),
    )
)
"""All of our loggers."""


def mask_logs() -> None:
    """Mask what our loggers say, from now on."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_masked)


def _masked(record: logging.LogRecord) -> bool:
    safe = by_environment().ours.text
    message = record.getMessage()
    if (shown := safe(message)) != message:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[0] is not None:
        trace = logging.Formatter().formatException(record.exc_info)
        if (shown := safe(trace)) != trace:
            record.exc_info, record.exc_text = None, shown  # a handler would format it again
    return True


mask_logs()
