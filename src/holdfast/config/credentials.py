"""What of a configuration must not be kept on disk?

A header's value, and the user and password in an address. Written as `${NAME}` they are no secret:
that is how the file has them, and how they are kept.
"""

import re
from typing import Any

from holdfast.config.forms import SHORT_KINDS
from holdfast.run.redaction import MASK

_USER = re.compile(r"^(\w+://)[^/@\s]*@")


def without_credentials(data: Any) -> Any:
    """Return a configuration with its literal credentials masked; changed in place."""
    workflow = data.get("workflow") if isinstance(data, dict) else None
    if not isinstance(workflow, dict):
        return data
    for kind, address in SHORT_KINDS.items():
        asked = workflow.get(kind)
        if isinstance(asked, str):
            workflow[kind] = without_user(asked)
        if not isinstance(asked, dict):
            continue
        if isinstance(asked.get(address), str):
            asked[address] = without_user(asked[address])
        headers = asked.get("headers")
        if isinstance(headers, dict):
            asked["headers"] = {name: _masked(value) for name, value in headers.items()}
    return data


def _masked(value: Any) -> Any:
    """Return a value that holds a variable as it is, for there the secret is the variable's."""
    return value if isinstance(value, str) and "${" in value else MASK


def without_user(address: str) -> str:
    """Return an address without the literal user and password that stand in it."""
    return address if "${" in address else _USER.sub(rf"\1{MASK}@", address)
