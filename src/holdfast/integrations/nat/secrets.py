"""Which values of a configuration are secrets, and are neither written nor counted?"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.run.redaction import MASK, Redaction

_NAME = re.compile(
    r"(?i)(api|access|secret|private|account)_?key|passw(or)?d|secret|credential|(^|_)token$"
)


def is_secret(name: str) -> bool:
    """Tell whether what stands under this key is a secret: `api_key` is, `id_key` is not."""
    return _NAME.search(name) is not None


def masked(value: Any) -> Any:
    """Return plain data without its secrets; a `${NAME}` is none."""
    return Redaction().plain(_masked(value))


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: MASK if is_secret(key) and _is_literal(one) else _masked(one)
            for key, one in value.items()
        }
    return [_masked(one) for one in value] if isinstance(value, list) else value


def _is_literal(value: Any) -> bool:
    is_word = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return is_word and bool(str(value)) and "${" not in str(value)


def masked_text(text: str, data: Any) -> str:
    """Return the text of a YAML file without its secrets.

    Args:
        text: The file.
        data: What it holds.
    """
    for secret in sorted(set(_literals(data)), key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(secret)}(?![\w.-])", MASK, text)
    return Redaction().text(text)


def _literals(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            if is_secret(key) and _is_literal(one):
                yield str(one)
            else:
                yield from _literals(one)
    elif isinstance(value, list):
        for one in value:
            yield from _literals(one)


def without_secrets(value: Any) -> Any:
    """Return plain data without the keys of secrets: what answers depend on."""
    if isinstance(value, Mapping):
        return {key: without_secrets(one) for key, one in value.items() if not is_secret(key)}
    return [without_secrets(one) for one in value] if isinstance(value, list) else value
