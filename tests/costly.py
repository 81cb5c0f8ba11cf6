"""Answers that cost so much that an edit of the workflow asks before they are made anew."""

from limpet import Output, Usage


def costly(value, cost=1.01):
    """Return an output that says what it cost."""
    return Output(value, usage=Usage(cost=cost))
