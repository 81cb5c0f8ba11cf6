"""A process that opens and closes a journal at each word on stdin. Run by the attacks on the lock.

`open <path>` answers {"won": pid}, or {"lost": text, "hint", "holder"}; `close` answers {"closed"}.
"""

import json
import os
import sys

from limpet.errors import RunLockedError
from limpet.journal import Journal


def report(**facts):
    os.write(1, json.dumps(facts).encode() + b"\n")


def main():
    journal = None
    for line in sys.stdin:
        word, _, path = line.rstrip("\n").partition(" ")
        if word == "open":
            try:
                journal = Journal(path)
            except RunLockedError as locked:
                report(lost=str(locked), hint=locked.hint, holder=locked.holder)
            else:
                report(won=os.getpid())
        else:
            if journal is not None:
                journal.close()
            journal = None
            report(closed=True)


if __name__ == "__main__":
    main()
