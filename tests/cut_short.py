"""A run that stops raises: its result is in the error."""

import limpet


def ended(run, /, *arguments, **options):
    """Call `evaluate` or `map`; return its result, also if it stopped before it was done."""
    try:
        return run(*arguments, **options)
    except (limpet.LimpetError, KeyboardInterrupt, SystemExit) as error:
        if getattr(error, "result", None) is None:
            raise
        return error.result


def cut_short(run, /, *arguments, **options):
    """Call `evaluate` or `map`, which must stop before it is done; return its result."""
    result = ended(run, *arguments, **options)
    assert result.stop_reason is not None
    return result
