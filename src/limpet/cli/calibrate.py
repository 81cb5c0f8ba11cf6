"""`limpet calibrate`: how does a judge compare with people?"""

from limpet.cli.error_exit import DONE
from limpet.report.calibration import calibration_lines
from limpet.report.tables import put, put_json
from limpet.report.terminal import say
from limpet.run.calibrating.calibration import calibrate
from limpet.run.reading import open_run


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
    if as_json:
        put_json(found.to_dict())
        return DONE
    put(*calibration_lines(found))
    for remark in found.remarks:
        say(remark, "yellow")
    return DONE
