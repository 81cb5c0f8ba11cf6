"""How does a command open the run that its user named?"""

from limpet.errors import JournalError, LimpetError
from limpet.run.reading import RunReader
from limpet.run.reading.find_run import choose_run


def open_run(run: str | None) -> RunReader:
    """Open a run to read it: the one that is named, or the latest.

    Raises:
        LimpetError: There is no such run. Not a `JournalError`: nothing is wrong with a journal,
            it is the argument that has to be mended.
    """
    try:
        return RunReader(choose_run(run))
    except JournalError as error:
        raise LimpetError(str(error), hint=error.hint) from error
