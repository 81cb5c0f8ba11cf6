"""Reports what was left out of results."""

import logging

from limpet.errors import JournalError
from limpet.journal.journal import Journal
from limpet.secrets.masking import Masking

logger = logging.getLogger("limpet.run")


class Omissions:
    """Reports what was left out of results, once per kind, in the log and in `events.jsonl`."""

    def __init__(self, journal: Journal, masking: Masking) -> None:
        self._journal = journal
        self._masking = masking
        self._said: set[str] = set()

    def say(self, what: str, why: str) -> None:
        """Report that something was left out, and why, unless it was reported before."""
        if what in self._said:
            return
        self._said.add(what)
        why = self._masking.ours.text(why)
        logger.warning("left out %s, kept the result: %s (reported once)", what, why)
        try:
            self._journal.log_event("left_out", what=what, why=why)
        except JournalError:  # appending the record reports the disk's failure
            logger.debug("could not write to events.jsonl", exc_info=True)
