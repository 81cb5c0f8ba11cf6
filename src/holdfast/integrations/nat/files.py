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

from holdfast.config.credentials import without_user
from holdfast.integrations.nat.flags import Flags
from holdfast.integrations.nat.room import OUTPUT
from holdfast.integrations.nat.secrets import is_secret, masked, masked_text
from holdfast.integrations.nat.wanted import Structure
from holdfast.journal.encoding import encode
from holdfast.journal.files import replace_file
from holdfast.journal.lines import timestamp
from holdfast.run.redaction import MASK
from holdfast.run.scoring import ANSWER, STEPS


def write_question_files(run: Path, config: Path, data: Any, flags: Flags) -> None:
    """Write `config_original.yml`, `config_effective.yml` and `config_metadata.json`.

    Args:
        run: The run's directory.
        config: The configuration's file.
        data: What it holds, with what the command line says in it.
        flags: What the command line says.
    """
    original = masked_text(config.read_text(encoding="utf-8-sig"))
    replace_file(run / "config_original.yml", [original.encode()])
    effective = yaml.safe_dump(masked(data), sort_keys=False, allow_unicode=True)
    replace_file(run / "config_effective.yml", [effective.encode()])
    told = {
        "config_file": str(config),
        "overrides": [
            {"path": path, "value": MASK if is_secret(path.rpartition(".")[2]) else value}
            for path, value in flags.overrides
        ],
        "dataset": None if flags.dataset is None else str(flags.dataset),
        "result_json_path": flags.result_json_path,
        "skip_workflow": flags.skip_workflow,
        "skip_completed_entries": flags.skip_completed,
        "reps": flags.reps or 1,
        "endpoint": None if flags.endpoint is None else without_user(flags.endpoint),
        "endpoint_timeout": flags.endpoint_timeout_s,
        "endpoint_path": flags.endpoint_path,
        "input_key": flags.input_key,
        "endpoint_headers": [name for name, _ in flags.headers],
        "timestamp": timestamp(),
    }
    content = json.dumps(masked(told), indent=2).encode() + b"\n"
    replace_file(run / "config_metadata.json", [content])


def rename_columns(run: Path, structure: Structure) -> None:
    """Give the columns of `workflow_output.json` the names that the configuration gives them."""
    if structure.disable:
        return  # it holds the outputs alone
    file = run / OUTPUT
    with file.open("rb") as lines:
        first = next((line for line in lines if line.startswith(b"{")), None)
        if first is None or _row(first) == _renamed(_row(first), structure):
            return
    replace_file(file, _renamed_lines(file, structure))


def _renamed_lines(file: Path, structure: Structure) -> Iterator[bytes]:
    # The file has a row in each line, as the run wrote it.
    with file.open("rb") as lines:
        for line in lines:
            if not line.startswith(b"{"):
                yield line
                continue
            comma = b"," if line.rstrip().endswith(b",") else b""
            yield encode(_renamed(_row(line), structure))[0] + comma + b"\n"


def _row(line: bytes) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line.rstrip().rstrip(b","))
    return row


def _renamed(row: dict[str, Any], structure: Structure) -> dict[str, Any]:
    made = dict(row)
    for ours, theirs in ((ANSWER, structure.generated_answer), (STEPS, structure.trajectory)):
        if ours != theirs and ours in made:
            made[theirs] = made.pop(ours)
    made.setdefault(structure.expected_trajectory, [])
    return made
