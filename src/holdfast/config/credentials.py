"""What of a configuration must not be kept on disk?

A header's value, the user and password in an address, and the values in its query. Written as
`${NAME}` they are no secret: that is how the file has them, and how they are kept.
"""

import re
from typing import Any

from holdfast.config.forms import SHORT_KINDS
from holdfast.run.redaction import MASK

_ADDRESS = re.compile(
    r"(?P<scheme>\w[\w+.-]*://)(?P<user>[^/\s]*)@"
)  # up to the last @, as URLs go
_QUERY = re.compile(r"(?P<name>[?&][^=&#\s]+=)(?P<value>[^&#\s]+)")
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_SCHEMES = re.compile(r"(?i)\s*(bearer|basic|token|apikey|key)?\s*")


def without_credentials(data: Any) -> Any:
    """Return a configuration with its literal credentials masked; changed in place."""
    workflow = data.get("workflow") if isinstance(data, dict) else None
    if not isinstance(workflow, dict):
        return data
    for kind, address in SHORT_KINDS.items():
        asked = workflow.get(kind)
        if isinstance(asked, str):
            workflow[kind] = _without_query(without_user(asked))
        if not isinstance(asked, dict):
            continue
        if isinstance(asked.get(address), str):
            asked[address] = _without_query(without_user(asked[address]))
        headers = asked.get("headers")
        if isinstance(headers, dict):
            asked["headers"] = {name: _masked(value) for name, value in headers.items()}
    return data


def _masked(value: Any) -> Any:
    """Mask a value, but for the name of a variable: there the secret is the variable's."""
    return value if isinstance(value, str) and _is_variable(value) else MASK


def _is_variable(text: str) -> bool:
    rest = _VARIABLE.sub("", text)
    return rest != text and _SCHEMES.fullmatch(rest) is not None


def without_user(address: str) -> str:
    """Return a text without the literal user and password of an address that stands in it."""

    def hide(found: re.Match[str]) -> str:
        parts = found["user"].split(":", 1)
        kept = all(_is_variable(part) or part == "" for part in parts)
        return found[0] if kept else f"{found['scheme']}{MASK}@"

    return _ADDRESS.sub(hide, address)


def _without_query(address: str) -> str:
    def hide(found: re.Match[str]) -> str:
        value = found["value"]
        is_template = value.startswith("{{") and value.endswith("}}")
        return found[0] if is_template or _is_variable(value) else f"{found['name']}{MASK}"

    return _QUERY.sub(hide, address)
