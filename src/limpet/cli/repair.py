"""`limpet repair`: repair the files of a run."""

import logging

from rich.text import Text

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.journal.verify import repair
from limpet.report.live_display import busy
from limpet.report.soundness import soundness_data
from limpet.report.tables import put, put_json
from limpet.report.terminal import say
from limpet.run.reading import open_run
from limpet.text import count, harmless, one_line


def command(run: str, *, as_json: bool) -> int:
    """Repair the files of a run."""
    with open_run(run) as reader:
        path = reader.path
    # The journal's warnings would repeat what is printed below.
    logging.getLogger("limpet.journal").addHandler(logging.NullHandler())
    messages: list[str] = []
    try:
        with busy("reading every line"):
            report = repair(path, messages.append)
    except OSError as error:
        raise LimpetError(
            f"{one_line(str(path))}: cannot be repaired: {error.strerror} ({error.filename})",
            hint="check the permissions",
        ) from error
    if as_json:
        put_json(soundness_data(report))
    else:
        put(*(Text(harmless(line)) for line in messages))
        bad = sum(len(state.bad_lines) for state in report.states)
        if bad:
            say(f"{count(bad, 'bad line')} left in place; the cells run again")
    return DONE
