"""How does a value become JSON bytes, quickly where possible and whole in any case?"""

import json
from typing import Any

import orjson

from limpet.foreign import is_interrupt, readable
from limpet.journal.plain import NotPlainError, from_plain, plain_size, to_plain
from limpet.text import text_of


def encode(value: Any) -> tuple[bytes, bool]:
    """Return the value as JSON on one line, and whether it went through `to_plain`.

    Raises:
        NotPlainError: The value cannot be kept as JSON at all.
    """
    encoded = encode_plain(value) if plain_size(value) is not None else None
    return (_encode_slowly(value, sort_keys=False), True) if encoded is None else (encoded, False)


def encode_plain(value: Any, option: int = 0) -> bytes | None:
    """Return a value that `plain_size` found plain; None if the fast encoder refuses it."""
    try:
        return orjson.dumps(value, None, option)
    except TypeError:  # bad text, wide integers, keys that are no text, too many levels
        return None


def encode_canonical(value: Any) -> bytes:
    """Return the same bytes for equal values, whatever the order of their keys.

    Raises:
        NotPlainError: The value cannot be kept as JSON at all.
    """
    encoded = None
    if plain_size(value) is not None:
        encoded = encode_plain(value, orjson.OPT_SORT_KEYS)
    if encoded is None:
        encoded = _encode_slowly(value, sort_keys=True)
        if b'"~' in encoded:  # a marker is not the text that looks like it
            encoded = b"~" + encoded
    return encoded


def _encode_slowly(value: Any, *, sort_keys: bool) -> bytes:
    try:
        plain = to_plain(value)
        encoded = encode_plain(plain, orjson.OPT_SORT_KEYS if sort_keys else 0)
        if encoded is not None:
            return encoded
        try:
            return _dump(plain, sort_keys, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate
            return _dump(plain, sort_keys, ensure_ascii=True).encode()
    except NotPlainError:
        raise
    except RecursionError as error:
        raise NotPlainError("it is nested too deep, or holds itself") from error
    except BaseException as error:
        if is_interrupt(error):
            raise
        why = f"{type(error).__name__}: {text_of(error)}"
        raise NotPlainError(f"reading it raised {why}") from readable(error)


def _dump(plain: Any, sort_keys: bool, *, ensure_ascii: bool) -> str:  # noqa: FBT001 - private
    return json.dumps(
        plain,
        ensure_ascii=ensure_ascii,
        allow_nan=False,
        separators=(",", ":"),
        sort_keys=sort_keys,
    )


def kept_form(value: Any) -> Any:
    """Return a value as it will be read back.

    Raises:
        NotPlainError: The value cannot be kept as JSON at all.
    """
    encoded, marked = encode(value)
    return decode(encoded, marked=marked)


def decode(encoded: bytes, *, marked: bool) -> Any:
    """Return the value that was encoded.

    Args:
        encoded: The JSON.
        marked: What `encode` said beside it.

    Raises:
        ValueError: It is not JSON.
    """
    # The fast decoder makes floats of large integers and refuses lone surrogates.
    return from_plain(json.loads(encoded)) if marked else orjson.loads(encoded)
