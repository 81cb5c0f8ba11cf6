"""What is said once in a run, however many items it concerns?"""

import logging

from limpet.errors import JournalError
from limpet.journal.journal import Journal
from limpet.secrets.masking import Masking

logger = logging.getLogger("limpet.run")


class Remarks:
    """Says what was left out of results, once for each kind, in the log and in the story.

    Args:
        journal: Whose story it is.
        masking: Takes secrets out of a text.
    """

    def __init__(self, journal: Journal, masking: Masking) -> None:
        self._journal = journal
        self._masking = masking
        self._said: set[str] = set()

    def say(self, what: str, why: str) -> None:
        """Say that something is left out, and why, unless that was said before."""
        if what in self._said:
            return
        self._said.add(what)
        why = self._masking.ours.text(why)
        logger.warning("%s: left out, and the result kept: %s. Said once", what, why)
        try:
            self._journal.tell("left_out", what=what, why=why)
        except JournalError:  # the disk: whoever waits for a record hears of it
            logger.debug("the story could not be told", exc_info=True)
