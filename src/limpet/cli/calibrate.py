"""`limpet calibrate`: how does a judge compare with people?"""

from limpet.cli.error_exit import DONE
from limpet.report.calibration import calibration_lines
from limpet.report.tables import put, put_json
from limpet.report.terminal import say
from limpet.run.calibrating.calibration import calibrate
from limpet.run.reading import open_run
from limpet.text import one_line


def command(
    run: str,
    evaluator: str,
    *,
    labels: tuple[str, ...],
    label_column: str | None,
    as_json: bool,
) -> int:
    """Compare a judge with people's labels."""
    with open_run(run) as reader:
        found = calibrate(reader, evaluator, list(labels) or None, label_column=label_column)
        where = one_line(str(reader.path))
    if as_json:
        put_json(found.to_dict())
        return DONE
    put(*calibration_lines(found))
    for remark in found.remarks:
        say(remark, "yellow")
    if found.disagreements:
        say(f"see one in full: limpet show {where} --item ID", "dim", wrap=False)
    kept = "the labels and the corrected mean" if found.corrected else "the labels"
    say(f"{kept} are kept in {where}", "dim", wrap=False)
    return DONE
