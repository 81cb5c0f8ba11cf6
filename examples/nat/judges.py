"""A custom evaluator."""


def polite(output: str) -> bool:
    """Return whether an answer does not shout."""
    return not output.isupper() or output.isdigit()
