"""`limpet sample` draws answers to label, `limpet calibrate` compares a judge with them."""

from pathlib import Path

from limpet.cli.error_exit import DONE
from limpet.report.calibration import calibration_lines
from limpet.report.tables import put, put_json
from limpet.report.terminal import say
from limpet.run.calibrating.calibration import calibrate
from limpet.run.calibrating.sampling import draw_sample
from limpet.run.reading import open_run
from limpet.run.results.table import MOST_LETTERS
from limpet.text import count, one_line


def sample(run: str | None, *, n: int, output: Path, seed: int | None, force: bool) -> int:
    """Draw answers and write them to a file."""
    with open_run(run) as reader:
        drawn = draw_sample(reader, n, output, seed=seed, force=force)
        where = one_line(str(reader.path))
    shown = one_line(str(output))
    before = f", besides {drawn.before:,} drawn before" if drawn.before else ""
    say(f"wrote {shown}: {drawn.drawn:,} of {count(drawn.of, 'answer')}{before}, seed {drawn.seed}")
    if drawn.drawn < n:
        say(f"there are no more to draw: {drawn.drawn:,} instead of {n:,}", "yellow")
    if drawn.shortened:
        cells = count(drawn.shortened, "cell")
        say(f"{cells} shortened to {MOST_LETTERS:,} characters: Excel holds no more")
    say("fill in the label column, from the top: the rows are in random order")
    say(f"then: limpet calibrate {where} EVALUATOR --labels {shown}", wrap=False)
    say(f"or label them in the browser: limpet view {where}", wrap=False)
    return DONE


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
