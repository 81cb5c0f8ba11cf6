"""What the toolkit imports when it looks for plug-ins."""

from . import evaluators, workflows

__all__ = ["evaluators", "workflows"]
