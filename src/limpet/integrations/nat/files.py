"""What does a reader of the toolkit's files expect to find?

The run writes its files under the usual names. Where the configuration calls the columns otherwise,
or a reader expects `expected_intermediate_steps` in each row, that is put right here; and the three
files that say what was asked are written beside them, without secrets.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from limpet.config.credentials import shown_value
from limpet.integrations.nat.flags import Flags
from limpet.integrations.nat.run_directory import OUTPUT
from limpet.integrations.nat.secrets import masked, masked_text, words_of
from limpet.integrations.nat.wanted import Structure
from limpet.journal.files import replace_file
from limpet.journal.lines import timestamp
from limpet.json_values import encode
from limpet.run.executing.score_keys import ANSWER, STEPS


def write_question_files(run: Path, config: Path, original: str, data: Any, flags: Flags) -> None:
    """Write `config_original.yml`, `config_effective.yml` and `config_metadata.json`.

    Args:
        run: The run's directory.
        config: The configuration's file.
        original: Its text when it was read.
        data: What it holds, with what the command line says in it.
        flags: What the command line says.
    """
    replace_file(run / "config_original.yml", [masked_text(original, data).encode()])
    before = words_of(original)  # a secret that was overridden may still stand behind an alias
    effective = yaml.safe_dump(masked(data, before), sort_keys=False, allow_unicode=True)
    replace_file(run / "config_effective.yml", [effective.encode()])
    told = {
        "config_file": str(config),
        "overrides": [
            {"path": path, "value": shown_value(path, value)} for path, value in flags.overrides
        ],
        "dataset": None if flags.dataset is None else str(flags.dataset),
        "result_json_path": flags.result_json_path,
        "skip_workflow": flags.skip_workflow,
        "skip_completed_entries": flags.skip_completed,
        "reps": flags.reps or 1,
        "endpoint": flags.endpoint,
        "endpoint_timeout": flags.endpoint_timeout_s,
        "endpoint_path": flags.endpoint_path,
        "input_key": flags.input_key,
        "endpoint_headers": None,  # below: their names are no secrets
        "timestamp": timestamp(),
    }
    told = masked(told, data, before) | {"endpoint_headers": [name for name, _ in flags.headers]}
    content = json.dumps(told, indent=2).encode() + b"\n"
    replace_file(run / "config_metadata.json", [content])


def rename_columns(run: Path, structure: Structure, id_column: str | None) -> None:
    """Give the columns of `workflow_output.json` the names that the configuration gives them."""
    if structure.disable:
        return  # it holds the outputs alone
    file, id_column = run / OUTPUT, id_column or "id"
    with file.open("rb") as lines:
        rows = (_row(line) for line in lines if line.startswith(b"{"))
        if all(one == _renamed(one, structure, id_column) for one in rows):
            return  # it was put right before, and may be large
    replace_file(file, _renamed_lines(file, structure, id_column))


def _renamed_lines(file: Path, structure: Structure, id_column: str) -> Iterator[bytes]:
    # The file has a row in each line, as the run wrote it.
    with file.open("rb") as lines:
        for line in lines:
            if not line.startswith(b"{"):
                yield line
                continue
            comma = b"," if line.rstrip().endswith(b",") else b""
            yield encode(_renamed(_row(line), structure, id_column))[0] + comma + b"\n"


def _row(line: bytes) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line.rstrip().rstrip(b","))
    return row


def _renamed(row: dict[str, Any], structure: Structure, id_column: str) -> dict[str, Any]:
    made = {**row, id_column: row["id"]}  # with `_rep<N>`, which its readers tell rows apart by
    for ours, theirs in ((ANSWER, structure.generated_answer), (STEPS, structure.trajectory)):
        if ours != theirs and ours in made:
            made[theirs] = made.pop(ours)
    made.setdefault(structure.expected_trajectory, [])
    return made
