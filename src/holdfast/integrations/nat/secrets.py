"""Which values of a configuration are secrets, and are neither written nor counted?"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from holdfast.config.credentials import without_user
from holdfast.run.redaction import MASK, Redaction

# The whole name, or its last part: a `password_reset` is a function, an `id_key` a column, and a
# `stop_token` a parameter of the model.
_NAME = re.compile(
    r"(?i)(^|[_-])((api|access|secret|private|account)[_-]?key|passw(or)?d|secret|credentials?"
    r"|authorization|dsn|(api|auth|access|bearer|refresh|session|secret|hf)[_-]token)$"
    r"|^(token|headers)$"
)


def is_secret(name: str) -> bool:
    """Tell whether what stands under this key is a secret: `api_key` is, `id_key` is not."""
    return _NAME.search(name) is not None


def masked(value: Any) -> Any:
    """Return plain data without its secrets; a `${NAME}` is none."""
    return Redaction().plain(_masked(value, hidden=False))


def _masked(value: Any, *, hidden: bool) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _masked(one, hidden=hidden or is_secret(str(key))) for key, one in value.items()
        }
    if isinstance(value, list):
        return [_masked(one, hidden=hidden) for one in value]
    if hidden and _is_literal(value):
        return MASK
    return without_user(value) if isinstance(value, str) else value


def _is_literal(value: Any) -> bool:
    is_word = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return is_word and bool(str(value)) and "${" not in str(value)


def masked_text(text: str) -> str:
    """Return the text of a YAML file without its secrets, however they are quoted."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    # By their places in the file, the last first, so that the others stay where they are.
    for start, end in sorted(set(_places(root, hidden=False)), reverse=True):
        text = text[:start] + f"'{MASK}'" + text[end:]
    words = re.split(r"(\s+)", text)
    return Redaction().text("".join(map(without_user, words)))


def _places(node: Any, *, hidden: bool) -> Iterator[tuple[int, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            secret = isinstance(key, yaml.ScalarNode) and is_secret(key.value)
            yield from _places(value, hidden=hidden or secret)
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from _places(one, hidden=hidden)
    elif isinstance(node, yaml.ScalarNode) and hidden and _is_literal(node.value):
        yield node.start_mark.index, node.end_mark.index


def without_secrets(value: Any) -> Any:
    """Return plain data without the texts of secrets: what answers depend on."""
    if isinstance(value, Mapping):
        return {
            key: without_secrets(one)
            for key, one in value.items()
            if not (is_secret(str(key)) and isinstance(one, str))
        }
    return [without_secrets(one) for one in value] if isinstance(value, list) else value
