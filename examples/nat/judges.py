"""An evaluator of one's own."""


def polite(output: str) -> bool:
    """Tell whether an answer shouts."""
    return not output.isupper() or output.isdigit()
