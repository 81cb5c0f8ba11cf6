"""How are secrets masked in what we write?

A secret is searched for literally, and as it looks inside JSON, a `repr`, a URL or base64.
"""

import binascii
import contextlib
import functools
import logging
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from json import dumps
from os.path import commonprefix
from typing import Any
from urllib.parse import quote, quote_plus

from limpet.secrets.known import (
    PHRASE,
    certain_secrets,
    declared,
    is_common,
    looks_secret,
    may_be_secret,
    possible_secrets,
)
from limpet.text import one_line

# ---- What in a text or a trace looks like credentials, whoever they belong to? ------------------
#
# Clients put their entire request into an exception: `'Authorization': 'Bearer …'`, a URL with a
# password. Nobody declared these, and no variable holds them. So they are recognised by their
# context: in a header, in a URL, after `api_key=`. Text after a mere word like `key` is left alone:
# messages are full of it.

MASK = "[redacted]"
_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "api-key")
_SCHEMES = r"(?:(?:bearer|basic|digest|token|apikey|negotiate)\s+)?+"  # never taken for the key
_QUOTE = r"\\*['\"]"
_NOT_YET = rf"(?!{re.escape(MASK)}|…)"
_UNTIL_END = r"[^\s'\"\\,;&)}\]>]"
_BEGINS = r"(?:[spr]k[-_]|hf_|xai-|gsk_|nvapi-|glpat-|gh[a-z]_|github_pat_|AKIA|AIza|xox[a-z]-|eyJ)"
# Each pattern keeps what its group matches. (`re` compiles and caches them at the first message.)
KEYS = (
    # in prose: "use api key: 81aa…", "the password is hunter2"
    (
        rf"(?i)((?:{PHRASE.replace('_?', '[_ -]?')}|pwd)[\"']?(?:[ ]?[:=][ ]?|[ ]is[ ]))"
        r"(?=[^\s\"',;)(\[\]{}]*[0-9])[^\s\"',;)(\[\]{}.]{6,}+(?![(\[])"
    ),
    # the password in a URL, after the user
    rf"(?<=://)([^/\s:@\"']*:){_NOT_YET}[^/\s@\"']+(?=@)",
    # a key, by its prefix
    rf"\b(){_BEGINS}(?=[\w.-]*[0-9])[\w.-]{{12,}}",
    r"\b((?:Bearer|Basic)\s+)(?=\S*[0-9=])[\w.~+/=-]{8,}",
    r"(?s)()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
)
"""Keys recognised by their form, also in code and in files."""
_PATTERNS = (
    *KEYS,
    # a header: `'Authorization': 'Bearer …'`
    (
        rf"(?i)((?:authorization|\bapi-key)(?:{_QUOTE})?\s*"
        rf"(?:[:=]\s*(?:[bfru]{{0,2}}{_QUOTE})?|,\s*[bfru]{{0,2}}{_QUOTE}){_SCHEMES})"
        rf"{_NOT_YET}{_UNTIL_END}+"
    ),
    # a parameter of a URL or of a call: `?key=…`, `Client(api_key='…')`
    (
        rf"(?i)((?:[?&]|\b)(?:{PHRASE}|signature|(?<=[?&])(?:key|token|sig))=(?:{_QUOTE})?)"
        rf"{_NOT_YET}{_UNTIL_END}{{8,}}"
    ),
)
# Most texts have none of these, which is fast to check.
_SIGNS = ["key", "token", "secret", "pass", "pwd", "credential", "sig", "auth", "bearer", "basic"]
_SIGNS += ["://", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "hf_", "xai-", "gsk_", "nvapi", "glpat"]
_SIGNS += ["gh", "akia", "aiza", "xox", "eyj"]


def without_credentials(text: str, patterns: tuple[str, ...] = _PATTERNS) -> tuple[str, int]:
    """Return a text with its credentials hidden, and how many there were."""
    lower, total = text.lower(), 0
    if any(sign in lower for sign in _SIGNS):
        for pattern in patterns:
            text, found = re.subn(pattern, rf"\1{MASK}", text)
            total += found
    return text, total


# ---- How are secrets masked in what we write? ---------------------------------------------------

_ALONE = 8  # shorter ones are masked only as whole words
_WORD_ALONE = 20  # so are words and numbers: `postgres` is not masked in `postgresql`
_SHORTEST_PACKED = 12
_ELLIPSES = ("…", "...")
# Where a word may begin: also after the escapes of JSON and URLs.
_WORD_BEGINS = r"(?:(?<![^\W_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_WORD_ENDS = r"(?![^\W_])"


class Mask:
    """Masks secrets in strings and plain data.

    Args:
        secrets: The secrets. Short ones are masked only as whole words.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if secret for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        alone = [form for form in longest_first if len(form) < _ALONE or _is_word(form)]
        self._long = [form for form in longest_first if form not in alone]
        self._alone = re.compile("|".join(map(_alone, alone)) or "(?!)")
        # Most strings have no word that is long enough, which is fast to check.
        self._shortest = min((max(map(len, form.split()), default=0) for form in forms), default=0)
        self._is_empty = not forms
        # A list as JSON may contain a secret that none of its strings contains: `a","b`.
        self._is_across = any('","' in form or '":"' in form for form in forms)

    def __bool__(self) -> bool:
        return not self._is_empty

    def text(self, text: str) -> str:
        """Return a message with its secrets masked, and anything that looks like credentials."""
        return self.message(text)[0]

    def message(self, text: str) -> tuple[str, int]:
        """Like `text`; also return how many there were."""
        text, known = self._text(text)
        text, found = without_credentials(text)
        return text, known + found

    def trace(self, value: Any) -> tuple[Any, int]:
        """Like `data`; also mask anything that looks like credentials."""
        return _in_each_text(value, self._in_trace)

    def _in_trace(self, text: str, name: str) -> tuple[str, int]:
        if name.lower() in _HEADERS and text:
            return MASK, int(text != MASK)
        return self.message(text)

    def shown(self, value: object) -> str:
        """Return any value for a message: on one line, shortened, without secrets."""
        return one_line(value, self.text)

    def data(self, value: Any) -> tuple[Any, int]:
        """Return plain data with its secrets masked, and how many there were.

        The same object if there were none. Other objects stay unchanged.
        """
        if self._is_empty or not value:
            return value, 0
        masked, total = _in_each_text(value, lambda text, _: self._text(text))
        if self._is_across and not isinstance(value, str):
            with contextlib.suppress(TypeError, ValueError):  # it has no JSON form
                written = dumps(masked, ensure_ascii=False, separators=(",", ":"), default=str)
                whole, count = self._text(written)
                if count:
                    return whole, total + count
        return masked, total

    def _text(self, text: str) -> tuple[str, int]:
        total = 0
        if max(map(len, text.split()), default=0) >= self._shortest:
            for form in self._long:
                if form in text:
                    total += text.count(form)
                    text = text.replace(form, MASK)
            text, count = self._alone.subn(MASK, text)
            total += count
        if "…" in text or "..." in text:
            for form in self._long:
                if form[:_ALONE] in text:
                    text, count = _without_beginnings(text, form)
                    total += count
        return text, total


class NoMask(Mask):
    """Masks nothing, at the user's request."""

    def message(self, text: str) -> tuple[str, int]:
        return text, 0

    def trace(self, value: Any) -> tuple[Any, int]:
        return value, 0


def _in_each_text(value: Any, mask: Callable[[str, str], tuple[str, int]]) -> tuple[Any, int]:
    """Return plain data with each string masked, and how many secrets there were.

    Args:
        value: The data; the same object is returned if there were none.
        mask: Takes a string and its key.
    """
    total = 0

    def masked(value: Any, name: str = "") -> Any:
        nonlocal total
        if isinstance(value, str):
            text, count = mask(value, name)
            total += count
            return text
        if isinstance(value, Mapping):
            found: dict[Any, Any] = {}
            for key, child in value.items():
                shown = masked(key)
                # Two keys may become equal: neither may replace the other.
                while shown in found or (shown != key and shown in value):
                    shown = f"{shown}'"
                found[shown] = masked(child, str(key))
            return found
        if isinstance(value, (list, tuple)):
            return [masked(child, name) for child in value]
        if isinstance(value, bytes):
            text = masked(value.decode("utf-8", "surrogateescape"))
            return text.encode("utf-8", "surrogateescape")
        return value

    shown = masked(value)
    return (shown if total else value), total


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
        """Add these secrets, and new ones from the environment."""
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


# ---- Where are they in a text? ------------------------------------------------------------------


def _is_word(form: str) -> bool:
    return len(form) < _WORD_ALONE and (form.isalpha() or form.isdigit())


def _alone(form: str) -> str:
    begins = _WORD_BEGINS if form[0].isalnum() else ""
    ends = _WORD_ENDS if form[-1].isalnum() else ""
    return begins + re.escape(form) + ends


def _without_beginnings(text: str, form: str) -> tuple[str, int]:
    """Mask the start of a secret in a shortened string, like `sk-abc012…`."""
    total, begin = 0, text.find(form[:_ALONE])
    while begin >= 0:
        same = len(commonprefix([form, text[begin : begin + len(form)]]))  # noqa: RUF071 - of characters
        ends = (text.find(mark, begin + _ALONE, begin + same + len(mark)) for mark in _ELLIPSES)
        end = min((end for end in ends if end >= 0), default=None)
        if end is not None:
            text, total = text[:begin] + MASK + text[end:], total + 1
        begin = text.find(form[:_ALONE], begin + 1)
    return text, total


# ---- Which of our secrets may a server repeat in its messages? ----------------------------------
#
# A key, the URL with its password, all headers, except values that many answers contain:
# `X-Role: assistant`. A message with every "1" hidden is useless.

_SHORTEST = 3
_HEADER_SCHEMES = frozenset({"bearer", "basic", "digest", "token", "apikey", "key", "negotiate"})


class Secrets:
    """Values that must not be shown.

    Args:
        headers: Headers, whose values are secrets.
        more: Other secrets, like those of a URL.
        keys: Those of them that are keys, not user names.

    Attributes:
        declared: The ones that must not appear in an answer either.
    """

    def __init__(
        self, headers: Mapping[str, str], more: Iterable[str] = (), keys: Iterable[str] = ()
    ) -> None:
        self.declared: set[str] = set(keys)
        self._known: set[str] = set()
        self.add(more, headers)

    def add(self, values: Iterable[str], headers: Mapping[str, str]) -> None:
        """Hide these values too, and keep those of the headers out of answers."""
        self.declared.update(_declared_in(headers))
        self._known |= {value for value in (*values, *self.declared) if len(value) >= _SHORTEST}
        self._mask = Mask(self._known)

    def show(self, value: object) -> str:
        """Return a server's text for a message: on one line, shortened, without secrets."""
        return self._mask.shown(value)


def _declared_in(headers: Mapping[str, str]) -> Iterator[str]:
    for name, whole in headers.items():
        for value in _values_in(whole):
            scheme, _, rest = value.partition(" ")
            has_scheme = bool(rest) and scheme.lower() in _HEADER_SCHEMES
            if has_scheme or may_be_secret(name) or not is_common(value):
                yield value
        if pair := _pair_in(whole):
            whole_pair, user, password = pair
            yield from (whole_pair, password)
            if not password or looks_secret(user):  # else a user name, which is not a secret
                yield user


def _values_in(header: str) -> Iterator[str]:
    """Yield a header's value and the values in it: `Bearer …`, `name=value; …`."""
    yield header
    for word in re.split(r"[\s;,]+", header):
        if word.lower() in _HEADER_SCHEMES:
            continue
        yield word
        yield word.partition("=")[2].strip('"')


def _pair_in(header: str) -> tuple[str, str, str] | tuple[()]:
    """Return what `Basic …` encodes: `user:password`, the user, the password."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return ()
    try:
        pair = b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ()
    user, _, password = pair.partition(":")
    return pair, user, password


# ---- How are secrets kept out of the log? -------------------------------------------------------
#
# Our log quotes other people's exceptions, with their tracebacks. A parent's filters do not see the
# records of its children, so each of our loggers has this one.

LOGGERS = tuple(
    f"limpet.{name}"
    for name in (
        *("engines", "executors", "fingerprints", "integrations.nat", "journal", "models"),
        *("nat", "pacing", "run", "view", "view.http", "workflows"),
    )
)
"""All of our loggers."""


def mask_logs() -> None:
    """Mask secrets in our logs from now on."""
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
