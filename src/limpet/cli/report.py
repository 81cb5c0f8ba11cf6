"""`limpet report`: a run in one file, for people who have neither the run nor Limpet."""

from pathlib import Path

from limpet.cli.error_exit import DONE
from limpet.report.comparison_files import write_file
from limpet.report.live_display import busy
from limpet.report.markdown_report import run_markdown
from limpet.report.terminal import say
from limpet.run.comparing.comparable import CompareOptions
from limpet.run.comparing.compare import compare_runs
from limpet.run.reading.find_run import choose_run
from limpet.run.reading.reader import open_run
from limpet.text import one_line
from limpet.view.html_report import write_report

_DEFAULT = Path("report.html")


def command(
    run: str | None,
    *,
    against: str | None,
    output: Path | None,
    markdown: Path | None,
    max_size: int,
) -> int:
    """Write the report of a run."""
    place = choose_run(run)
    base = None if against is None else choose_run(against)
    if output is not None or markdown is None:
        output = output or _DEFAULT
        with busy(f"writing {one_line(str(output))}"):
            made = write_report(place, output, base, max_size)
        say(f"wrote {made}")
    if markdown is not None:
        with busy(f"writing {one_line(str(markdown))}"), open_run(str(place)) as reader:
            compared = None if base is None else compare_runs([base, place], CompareOptions())
            text = run_markdown(reader, compared)
        write_file(markdown, text)
    return DONE
