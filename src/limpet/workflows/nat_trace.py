"""What happened on the way to an answer, in the shape that the toolkit writes?"""

from collections.abc import Mapping
from typing import Any

from limpet.transport.parsing import parse_json


def step_of(sent: Any) -> dict[str, Any]:
    """Return a step as it stands in the toolkit's files, made of what its server sent.

    What does not look like a step is kept all the same, as the step's data.
    """
    sent = sent if isinstance(sent, Mapping) else {"payload": sent}
    payload = _payload(sent.get("payload"))
    payload.setdefault("event_type", sent.get("type"))
    payload.setdefault("name", sent.get("name"))
    payload.setdefault("UUID", sent.get("id"))
    return {
        "parent_id": sent.get("parent_id"),
        "function_ancestry": {
            "function_id": payload["UUID"],
            # The toolkit's own files have a name here, and its readers ask for one.
            "function_name": payload["name"] or sent.get("name") or "unknown",
            "parent_id": sent.get("parent_id"),
            "parent_name": None,
        },
        "payload": payload,
    }


def _payload(payload: Any) -> dict[str, Any]:
    if isinstance(payload, str):
        try:
            read = parse_json(payload.encode(errors="surrogatepass"))
        except ValueError:  # some servers send text for people there
            read = None
        payload = read if isinstance(read, dict) else payload
    return dict(payload) if isinstance(payload, Mapping) else {"data": {"payload": payload}}


def is_workflow_start(sent: Any) -> bool:
    """Tell whether a step is the one that begins them."""
    return isinstance(sent, Mapping) and sent.get("type") == "WORKFLOW_START"


def is_workflow_end(sent: Any) -> bool:
    """Tell whether a step is the one that ends them."""
    return isinstance(sent, Mapping) and sent.get("type") == "WORKFLOW_END"
