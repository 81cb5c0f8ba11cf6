"""Which runs does a matrix have, and what does each vary?"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from limpet.errors import JournalError
from limpet.run.reading.find_run import MATRIX_FILE, is_run, runs_in
from limpet.text import one_line, text_of


class VariantRun(NamedTuple):
    """A variant of a matrix on disk.

    Attributes:
        path: The directory of its run, which may not have begun.
        values: What it varies, by label; empty for a variant that the matrix no longer has.
    """

    path: Path
    values: Mapping[str, str]

    @property
    def has_begun(self) -> bool:
        """Whether there is a run."""
        return is_run(self.path)


def variants_in(directory: Path) -> list[VariantRun]:
    """Return the variants of a matrix: those in its file, also if not begun, and older ones.

    Raises:
        JournalError: Its file cannot be read.
    """
    try:
        content = json.loads((directory / MATRIX_FILE).read_bytes())
        labels = content.get("labels", {})
        variants = [
            VariantRun(
                directory / str(variant["name"]),
                {
                    str(labels.get(path, path)): str(value)
                    for path, value in variant["values"].items()
                },
            )
            for variant in content["variants"]
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise JournalError(f"{one_line(str(directory))}: unreadable: {text_of(error)}") from error
    known = {variant.path for variant in variants}
    return variants + [VariantRun(path, {}) for path in runs_in(directory) if path not in known]
