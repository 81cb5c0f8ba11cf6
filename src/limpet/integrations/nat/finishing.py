"""What happens when the results are on disk?

Readers of the toolkit's files expect three about the configuration; they are written without
secrets. Then the user's scripts run, as in the toolkit: `python script --output_dir DIR --key value
…`, in the current directory. What a script prints goes to stderr: stdout is ours.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from limpet.config.environment import typed
from limpet.integrations.nat.eval_block import ScriptBlock
from limpet.integrations.nat.flags import Flags
from limpet.journal.files import replace_file
from limpet.journal.lines import timestamp
from limpet.secrets.in_configs import masked, shown_value
from limpet.secrets.in_yaml import masked_text, words_of
from limpet.text import one_line


def write_config_files(
    run: Path, config: Path, original: str, data: Any, effective: Any, flags: Flags
) -> None:
    """Write `config_original.yml`, `config_effective.yml` and `config_metadata.json`.

    Args:
        run: The run's directory.
        config: The configuration file.
        original: Its text when it was read.
        data: Its content, with the command line applied.
        effective: The same, with the toolkit's defaults.
        flags: The flags of the command line.
    """
    replace_file(run / "config_original.yml", [masked_text(original, data).encode()])
    before = words_of(original)  # an overridden secret may still be behind an alias
    text = yaml.safe_dump(masked(effective, data, before), sort_keys=False, allow_unicode=True)
    replace_file(run / "config_effective.yml", [text.encode()])
    metadata = {
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
        "user_id": flags.user_id or "nat_eval_user_id",
        "endpoint_headers": None,  # set below: the names of headers are not secret
        "timestamp": timestamp(),
    }
    metadata = masked(metadata, data, before)
    metadata["endpoint_headers"] = [name for name, _ in flags.headers]
    content = json.dumps(metadata, indent=2).encode() + b"\n"
    replace_file(run / "config_metadata.json", [content])


# ---- scripts ----------------------------------------------------------------------------------


def run_scripts(
    scripts: Mapping[str, ScriptBlock], directory: Path, say: Callable[[str], None]
) -> bool:
    """Run all scripts in the order of the file, even if one fails.

    Args:
        scripts: The scripts, by name.
        directory: The run's directory.
        say: Called with a line for each script that starts or fails.

    Returns:
        Whether all of them succeeded.
    """
    codes = [_run(name, script, directory, say) for name, script in scripts.items()]
    return all(code == 0 for code in codes)


def _run(name: str, script: ScriptBlock, directory: Path, say: Callable[[str], None]) -> int | None:
    """Run a script and return its exit code; None if it cannot be started."""
    arguments = [sys.executable, str(script.script), "--output_dir", str(directory)]
    for key, value in script.kwargs.items():
        arguments += [f"--{key}", "" if typed(value) is None else str(value)]
    shown = f"custom_scripts: {one_line(name)}"
    say(f"{shown} …")
    try:
        code = subprocess.run(arguments, check=False, stdout=sys.stderr).returncode  # noqa: S603 - the user's own
    except OSError as error:
        say(f"{shown}: cannot be run: {error.strerror}")
        return None
    if code:
        say(f"{shown}: ended with exit code {code}; the results are on disk")
    return code
