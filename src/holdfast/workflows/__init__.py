"""What is evaluated."""

from holdfast.workflows.protocol import Workflow
from holdfast.workflows.python import as_workflow

__all__ = ["Workflow", "as_workflow"]
