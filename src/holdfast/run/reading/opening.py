"""How does a command open the run that its user named?"""

from holdfast.errors import HoldfastError, JournalError
from holdfast.run.reading import RunReader
from holdfast.run.reading.choice import choose_run


def open_run(run: str | None) -> RunReader:
    """Open a run to read it: the one that is named, or the latest.

    Raises:
        HoldfastError: There is no such run. Not a `JournalError`: nothing is wrong with a journal,
            it is the argument that has to be mended.
    """
    try:
        return RunReader(choose_run(run))
    except JournalError as error:
        raise HoldfastError(str(error), hint=error.hint) from error
