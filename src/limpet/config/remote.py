"""Which server is evaluated, and is it well described?"""

import re
from typing import Any

from limpet import workflows
from limpet.config.environment import is_from_environment, settled
from limpet.config.findings import Findings
from limpet.config.model import WorkflowShape
from limpet.errors import LimpetError
from limpet.text import one_line, text_of
from limpet.workflows import Workflow

_NAMED = re.compile(r"(\w+)(=[^:]*)?: ")


def remote_workflow(asked: WorkflowShape, findings: Findings) -> Workflow | None:
    """Return the workflow behind a server.

    Args:
        asked: What stands under `workflow`.
        findings: Where to say what is wrong.
    """
    kind = "nat" if asked.nat is not None else "http"
    shape = asked.nat or asked.http
    assert shape is not None
    given = {name: getattr(shape, name) for name in shape.model_fields_set}
    told: dict[str, Any] = {
        name: str(value) if isinstance(value, str) else settled(value)
        for name, value in given.items()
        if value is not None
    }
    if asked.version is not None:
        told["version"] = str(asked.version)
    try:
        made: Workflow = getattr(workflows, kind)(**told)
    except (LimpetError, TypeError, ValueError) as error:
        _tell(kind, given, error, findings)
        return None
    return made


def _tell(kind: str, given: dict[str, Any], error: Exception, findings: Findings) -> None:
    """Say it where the argument stands that the message names first."""
    said, hint = one_line(text_of(error)), getattr(error, "hint", None)
    path: tuple[str, ...] = ("workflow", kind)
    found = _NAMED.match(said)
    if found is not None and found[1] in given:
        path, said = (*path, found[1]), said[found.end() :]
    if is_from_environment(given):
        said = f"{kind} refuses what the environment had a part in"
    findings.add(path, said, hint)
