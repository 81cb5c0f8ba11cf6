"""How are the results of a run exported as the files of `nat eval`?"""

from pathlib import Path

from limpet.journal.files import make_directory
from limpet.journal.layout import Layout
from limpet.run.reading import RunReader
from limpet.run.results.output_files import write_outputs


def names_of(reader: RunReader) -> list[str]:
    """Return the names of the files to write."""
    return [f"{step}_output.json" for step in ("workflow", *reader.evaluators)] + ["summary.json"]


def write_nat(reader: RunReader, directory: Path) -> None:
    """Write `workflow_output.json`, `<evaluator>_output.json` and `summary.json`."""
    make_directory(directory)
    items, evaluators = reader.items(), reader.evaluators
    write_outputs(Layout(directory), items, evaluators, reader.trials, reader.summary)
