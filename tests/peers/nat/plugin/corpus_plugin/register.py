"""What the toolkit imports when it looks for plug-ins."""

from . import evaluators, sessions, workflows

__all__ = ["evaluators", "sessions", "workflows"]
