"""What in a text or a trace looks like credentials, whoever they belong to?

Clients put their whole request into an exception: `'Authorization': 'Bearer …'`, a URL with a
password. Nobody declared these, and no variable holds them. So they are recognised by where they
stand. What merely follows a word like `key` is left alone: messages are full of such.
"""

import re
from collections.abc import Mapping
from typing import Any

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
_PATTERNS = (_IN_HEADERS, IN_URL, KEYS)
# Most texts have none of these, which is fast to check.
_SIGNS = ("authorization", "api-key", "bearer", "sk-", "pk-", "xox", "gh", "hf_", "akia", "aiza")


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
