"""`limpet why`: what do a run's steps depend on, and what changed?"""

from dataclasses import replace
from pathlib import Path

from limpet.cli.error_exit import DONE, no_exit
from limpet.cli.made_by import MadeBy, recorded
from limpet.cli.shown_command import shown_path
from limpet.errors import LimpetError
from limpet.report.tables import put, put_json
from limpet.report.terminal import log_to_stderr, stdout_for_data
from limpet.report.why import why_data, why_lines
from limpet.run.api import why_prepared
from limpet.run.planning.why import Why, why_on_disk
from limpet.run.reading import open_run
from limpet.run.reading.find_run import NoSuchItemError, is_run


def command(run: str | None, *, id_: str | None, everything: bool, as_json: bool) -> int:
    """Explain what a run's steps depend on, and what changed."""
    here = Path.cwd()
    file = None if run is None else Path(run).expanduser()
    if file is not None and file.is_file() and not is_run(file):
        why, run_path = _by_file(MadeBy(file, {}), id_)
    else:
        why, run_path = _by_run(run, id_)
    shown = shown_path(run_path, here)
    if as_json:
        put_json(why_data(why, shown))
    else:
        put(*why_lines(why, shown, everything=everything))
    return DONE


def _by_run(run: str | None, id_: str | None) -> tuple[Why, Path]:
    with open_run(run) as reader:
        run_path = reader.layout.single or reader.layout.home
        made_by = recorded(reader.run_file.made_by, reader.layout.home)
        remark = ""
        if made_by is not None and made_by.file.is_file():
            try:
                return _by_file(made_by, id_, reader.layout.home)
            except NoSuchItemError:
                raise
            except LimpetError as error:
                remark = f"the current code cannot be inspected: {error}"
        elif made_by is not None:
            shown = shown_path(made_by.file, Path.cwd())
            remark = f"{shown} no longer exists: its code cannot be inspected"
        why = why_on_disk(reader, id_)
    remarks = (*why.remarks, *((remark,) if remark else ()))
    return Why(looked=False, steps=why.steps, item=why.item, remarks=remarks), run_path


def _by_file(made_by: MadeBy, id_: str | None, run: Path | None = None) -> tuple[Why, Path]:
    with stdout_for_data(), log_to_stderr(), no_exit():
        config = made_by.read(continue_run=True)
        run_path = run or config.run
        prepared = config.prepare()
        why = why_prepared(replace(prepared, run=run_path), id_)
    return why, run_path
