"""What `limpet export --to nat` writes of a run: a check of what its results are, item by item."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from limpet.integrations import nat
from limpet.run.reading import open_run


def exported(run, name="workflow"):
    """Return the content of `<name>_output.json`."""
    with TemporaryDirectory() as folder, open_run(run) as reader:
        nat.export(reader, Path(folder))
        return json.loads(Path(folder, f"{name}_output.json").read_bytes())
